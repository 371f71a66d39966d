// Package mounts finds out, on one node, whether the mounts of AWS EFS still work. It is the part of aws-efs-node-health that reads the node.
//
// It reads only what the kernel and efs-utils report: files of procfs, state files of efs-utils, and files of cgroups. It never opens or stats a path
// on a mount, because such a call hangs as long as the mount does. It changes nothing on the node.
//
// source.go reads the node once, with the parsers in mountinfo.go, mountstats.go, tunnels.go and cgroups.go. tracker.go compares successive readings
// and decides what is wrong. watcher.go reads at intervals, and notices a reading that does not end. metrics.go writes the last report as metrics.
package mounts
