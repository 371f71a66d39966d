// Package storage starts the operators of the CSI drivers that the platform needs, and reports in the Storage and the ClusterOperator. The reasons
// are in docs/decisions/0020 and 0026.
//
// setup.go finds the catalogue entries that the cluster may need: the entries of the platform, and the entries whose operator this program has
// started before. The program watches only the kinds and namespaces of these entries. When the platform changes, the program restarts. observe.go
// reads from the cache. choose.go decides about each entry, with pure functions.
//
// entry.go acts on the decision, entry by entry. It starts no operator while OLM's operator is installed (package olm), or while the CSIDriver has
// another owner. remove.go uninstalls a driver. The program must never remove a driver if isOurs is false for its ClusterCSIDriver, because an
// administrator may have created the ClusterCSIDriver.
//
// conditions.go and copy.go report on each entry, classes.go on StorageClasses, selinux.go on pods that block the next version. A condition stays in
// the Storage until this program removes it, so a new type must be in ownTypes. report.go writes the Storage, and clusteroperator.go the
// ClusterOperator.
package storage
