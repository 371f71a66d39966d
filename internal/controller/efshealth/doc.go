// Package efshealth compares what the cluster uses of EFS with what AWS has: whether volumes can be mounted where pods run, how many access points
// are left, and which tags they have. Why it works so: docs/decisions/0017. One request key, one check of everything.
//
// connect.go makes a client of AWS, anew when the Secret, the region, the endpoints or the CA bundle change. uses.go says what is used; caches keep a
// few words of each volume and node (kube/follow). poller.go asks AWS by need, outside of the trip, and keeps the last answer; ask.go has the
// questions. evaluate.go is pure: it makes findings, and none of what AWS was not asked about. report.go makes conditions of them, with a field
// manager of its own, and events.
//
// tags.go adds tags to the access points of the cluster, a batch at a time. Their keys go into spec.observedConfig before a tag is set, so that none
// is forgotten. shares.go answers SharedVolumes from the last list, and asks AWS only for a file system that is not in it. Without credentials it
// answers "unknown".
package efshealth
