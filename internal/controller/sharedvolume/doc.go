// Package sharedvolume creates a PersistentVolume and a PersistentVolumeClaim, bound to each other, for each SharedVolume. The reasons are in
// docs/decisions/0012, 0028, 0029 and 0050.
//
// admission.go watches the CustomResourceDefinition. If the CRD exists, setup.go starts the controllers, and the operator applies the admission
// policies in assets. The CRD owns the policies. unlisted.go decides whether namespaces without a list of allowed
// shares may use shares.
//
// reconciler.go reads, decides and makes one write. It merges the response into what it read, and decides again, until nothing is left to do. It does
// nothing while one of the operators in others.go runs. observe.go reads from the cache. It reads pods, AWS or the API server only if the plan needs
// that. plan.go and pair.go have the pure functions that decide, and fuzz_test.go checks their invariants. changes.go makes the patches, each with a
// UID and a resource version.
//
// Deletion takes another path. The garbage collector deletes the PVC because of its owner reference. volumes.go deletes a volume that nothing uses,
// and checks all volumes at start.
//
// The cache holds only PVs and PVCs with our label. An object without our label may already have the name of our PV or PVC. The creation then fails
// with AlreadyExists, and the controller reads the API server. A change of an object without our label triggers no reconcile. The kubelet reads a
// volume's node affinity at every mount, and no update can remove the affinity. A wrong affinity would stop the pods that use the volume. So unless a
// user requests it, the operator adds a node affinity only to a volume that no pod has used (zone.go).
package sharedvolume
