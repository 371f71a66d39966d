// Package storage starts the operators of the CSI drivers that the cluster's platform needs, and says in the Storage and in the ClusterOperator how
// storage is. Why it works so: docs/decisions/0020 and 0026.
//
// setup.go finds the entries of the catalogue that this cluster can need, by its platform and by what was started before on another one. Only their
// kinds and namespaces are watched. On another platform the program ends, and starts anew. observe.go reads from the cache, and choose.go decides
// about each entry, pure.
//
// entry.go does what was chosen, each entry on its own. It does nothing while an operator of OLM is in the way (package olm), or while the CSIDriver
// is another owner's. remove.go uninstalls a driver. A ClusterCSIDriver that is not isOurs may be an administrator's: nothing of it may be removed.
//
// conditions.go and copy.go say what is true of each entry, classes.go of the StorageClasses, selinux.go whether pods block the next version. A
// condition of the Storage stays until this program removes it: a new type must be in ownTypes. report.go writes the Storage, and clusteroperator.go
// the ClusterOperator.
package storage
