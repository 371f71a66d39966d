// Package storage starts the operators of the CSI drivers that the platform needs, and reports in the Storage and the ClusterOperator. The reasons
// are in docs/decisions/0020 and 0026.
//
// setup.go finds the catalogue entries that the cluster may need, by its platform and by operators that run already. It watches only their kinds and
// namespaces. When the platform changes, the program restarts. observe.go reads from the cache, and choose.go decides about each entry; it is pure.
//
// entry.go acts on the decision, entry by entry. It does nothing while OLM's operator is installed (package olm), or while the CSIDriver has another
// owner. remove.go uninstalls a driver. Never remove a driver whose ClusterCSIDriver is not isOurs: an administrator may have created it.
//
// conditions.go and copy.go report on each entry, classes.go on StorageClasses, selinux.go on pods that block the next version. A condition stays in
// the Storage until this program removes it, so a new type must be in ownTypes. report.go writes the Storage, and clusteroperator.go the
// ClusterOperator.
package storage
