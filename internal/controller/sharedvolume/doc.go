// Package sharedvolume turns a SharedVolume into a PersistentVolume and a PersistentVolumeClaim that is bound to it. Why it works so:
// docs/decisions/0012, 0028, 0029 and 0050.
//
// admission.go follows the CustomResourceDefinition. Where it is, setup.go starts the controllers, and the admission policies in assets are applied,
// owned by the CRD. unlisted.go decides what namespaces without a list may use.
//
// reconciler.go reads, decides, makes one write, puts the answer into what it has read, and decides again, until nothing is left to do. It does
// nothing while an operator of others.go runs. observe.go reads from the cache. Pods, AWS and the API server are asked only if the plan needs them.
// plan.go and pair.go decide, pure, and fuzz_test.go holds what they must never do. changes.go makes the patches, each with UID and resource version.
//
// Deletion has a path of its own. The garbage collector deletes the PVC by its owner reference. volumes.go deletes a volume that nothing holds any
// more, and checks all of them at start.
//
// The cache holds only PVs and PVCs with our label. A create that finds another one answers AlreadyExists, and then the cluster is read. One
// without the label wakes no reconcile when it changes. kubelet reads a volume's node affinity at every mount, and no update can remove it: only a
// volume that no pod uses yet gets one unasked (zone.go).
package sharedvolume
