// Package sharedvolume creates a PersistentVolume and a PersistentVolumeClaim, bound to each other, for each SharedVolume. Why it works this way:
// docs/decisions/0012, 0028, 0029 and 0050.
//
// admission.go watches the CustomResourceDefinition. If it exists, setup.go starts the controllers, and the operator applies the admission policies
// in assets. The CRD owns them. unlisted.go decides what namespaces without a list may use.
//
// reconciler.go reads, decides, makes one write, merges the response into what it read, and decides again, until nothing is left to do. It does
// nothing while an operator of others.go runs. observe.go reads from the cache. It reads pods, AWS and the API server only if the plan needs them.
// plan.go and pair.go are pure functions that decide; fuzz_test.go checks their invariants. changes.go makes the patches, each with UID and resource
// version.
//
// Deletion takes another path. The garbage collector deletes the PVC by its owner reference. volumes.go deletes a volume that nothing uses, and
// checks all volumes at start.
//
// The cache holds only PVs and PVCs with our label. If another object has the name, creation fails with AlreadyExists, and the controller reads the
// API server. A change of an object without the label triggers no reconcile. The kubelet reads a volume's node affinity at every mount, and no update
// can remove it. So the operator adds it by itself only to a volume that no pod has used (zone.go).
package sharedvolume
