package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// revisionBump is the number that a restore adds to the cluster's resource version. The new version is above every version that a watch can have
// received. If OpenShift does not know the last revision, it adds the same number (cluster-etcd-operator b4786ae33, bindata/etcd/restore-pod.yaml).
const revisionBump = 1_000_000_000

// SaveSnapshot writes the content of etcd into a new file. The cluster keeps running.
func SaveSnapshot(ctx context.Context, dir, file string) error {
	_, state, err := live(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("save a snapshot: %s already exists; choose another file, or remove the existing file", file)
	}
	config := clientv3.Config{Endpoints: []string{etcdURL(state.Ports.Etcd)}}
	if _, err := snapshot.NewV3(zap.NewNop()).Save(ctx, config, file); err != nil {
		return fmt.Errorf("save a snapshot: %w", err)
	}
	return nil
}

// RestoreSnapshot restores a snapshot in the same way as OpenShift. Objects get the content and resource versions that they have in the snapshot,
// and existing watches end. All programs but etcd and the API server keep running. If the file is invalid, nothing changes.
func RestoreSnapshot(ctx context.Context, dir, file string) error {
	l, state, err := live(dir)
	if err != nil {
		return err
	}
	restored, before := l.path(etcdDir+".restored"), l.path(etcdDir+".before")
	if err := errors.Join(os.RemoveAll(restored), os.RemoveAll(before)); err != nil {
		return fmt.Errorf("restore a snapshot: %w", err)
	}
	peer := etcdURL(state.Ports.EtcdPeer)
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, OutputDataDir: restored, Name: etcdName, PeerURLs: []string{peer}, InitialCluster: etcdName + "=" + peer,
		InitialClusterToken: filepath.Base(file), RevisionBump: revisionBump, MarkCompacted: true,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("restore snapshot %s: %w", file, err), os.RemoveAll(restored))
	}
	for _, name := range []string{APIServer, Etcd} {
		if err := StopComponent(ctx, dir, name); err != nil {
			return err
		}
	}
	if err := os.Rename(l.path(etcdDir), before); err != nil {
		return fmt.Errorf("restore snapshot %s: set etcd's old data aside: %w", file, err)
	}
	if err := os.Rename(restored, l.path(etcdDir)); err != nil {
		return fmt.Errorf("restore snapshot %s: %w; etcd's old data is in %s", file, err, before)
	}
	for _, name := range []string{Etcd, APIServer} {
		if err := StartComponent(ctx, dir, name); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(before); err != nil {
		return fmt.Errorf("remove etcd's old data: %w", err)
	}
	return nil
}
