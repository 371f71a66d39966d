// Package efshealth compares the cluster's use of EFS with AWS. It checks whether pods can mount the volumes, and the number and tags of access
// points. Why it works this way: docs/decisions/0017. There is one request key, for a check of everything.
//
// connect.go creates a client for AWS, and a new one when the Secret, the region, the endpoints or the CA bundle change. uses.go collects what the
// cluster uses, from caches with a few fields of each volume and node (kube/informer). poller.go polls AWS outside of the reconcile, and keeps the
// last answer; ask.go has the requests. evaluate.go is pure: it returns findings, but none about anything that the poll did not cover. report.go
// turns them into conditions, with its own field manager, and into events.
//
// tags.go updates the tags of the cluster's access points, a batch at a time. It first records their keys in spec.observedConfig, so that a restart
// loses none. shares.go answers SharedVolumes from the last list of file systems, and asks AWS only about one that is missing there. Without
// credentials it answers "unknown".
package efshealth
