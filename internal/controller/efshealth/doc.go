// Package efshealth compares the cluster's use of EFS with AWS. It checks whether pods can mount the volumes. It also checks the number and the tags
// of the access points. The reasons are in docs/decisions/0017. The controller has only one request key, and checks everything for each request.
//
// connect.go creates a client for AWS. It creates another client when the Secret, the region, the endpoints or the CA bundle change. uses.go collects
// what the cluster uses. It reads from caches that have a few fields of each volume and node (kube/informer). poller.go polls AWS outside of the
// reconcile, and keeps the last answer; ask.go has the requests. evaluate.go has pure functions that return findings. They return no finding about
// resources that the poll did not cover. report.go turns the findings into events, and into conditions with a field manager of their own.
//
// tags.go updates the tags of the cluster's access points, a batch at a time. It first records the keys of the tags in spec.observedConfig, so that a
// restart loses no key. shares.go tells the SharedVolume controller what AWS reports about a share. It uses the last list of file systems, and asks
// AWS only about a file system that is missing in the list. Without credentials, shares.go answers "unknown".
package efshealth
