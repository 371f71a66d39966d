package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
	"github.com/csi-operators/csi-operators/test/env"
)

func answers(t *testing.T, objects ...client.Object) *canned.Cluster {
	t.Helper()
	scheme, err := kube.Scheme()
	env.Must(t, err)
	return canned.New(scheme, objects...)
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// A cluster that lacks something says so at once, and not by a failure of each test.
func TestTheClusterIsAskedForWhatTheManifestNames(t *testing.T) {
	const driver = "a.csi.example.com"
	c := &certification{kubeconfig: "/k", manifest: filepath.Join(t.TempDir(), "m.yaml")}
	env.Must(t, os.WriteFile(c.manifest, []byte("StorageClass:\n  FromExistingClassName: fast\nSnapshotClass:\n  FromExistingClassName: snap\n"+
		"DriverInfo:\n  Name: "+driver+"\n"), 0o600))
	installed := &storagev1.CSIDriver{ObjectMeta: named(driver)}
	empty := &storagev1.CSINode{ObjectMeta: named("node")}
	node := &storagev1.CSINode{ObjectMeta: named("node"), Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver}}}}
	class := &storagev1.StorageClass{ObjectMeta: named("fast"), Provisioner: driver}
	other := &storagev1.StorageClass{ObjectMeta: named("fast"), Provisioner: "b"}
	snapshots := env.NewObject("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "", "snap")
	for _, tt := range []struct {
		objects []client.Object
		want    string
	}{
		{nil, "the cluster has no driver a.csi.example.com: install it first"},
		{[]client.Object{installed, empty}, "no node of the cluster has driver a.csi.example.com: wait until its node pods are ready"},
		{[]client.Object{installed, node}, "MANIFEST names StorageClass fast, which the cluster lacks: create it, or name another manifest with MANIFEST="},
		{[]client.Object{installed, node, other},
			"MANIFEST names StorageClass fast for driver a.csi.example.com, but in the cluster it is of b: name a manifest with MANIFEST="},
		{[]client.Object{installed, node, class},
			"MANIFEST names VolumeSnapshotClass snap, which the cluster lacks: create it, or name another manifest with MANIFEST="},
		{[]client.Object{installed, node, class, snapshots}, ""},
	} {
		got := ""
		if err := c.check(t.Context(), answers(t, tt.objects...)); err != nil {
			got = strings.ReplaceAll(err.Error(), c.manifest, "MANIFEST")
		}
		if got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	silent := answers(t)
	silent.Fail = func(string) error { return errors.New("connection refused") }
	const want = "KUBECONFIG=/k: the cluster does not say whether it has driver a.csi.example.com: connection refused"
	if err := c.check(t.Context(), silent); err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// Namespaces of others, and of other runs, are no concern of a run.
func TestNamespacesThatARunLeavesAreNamed(t *testing.T) {
	c := &certification{id: "mine"}
	namespace := func(name, run string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{runLabel: run}}}
	}
	others := []client.Object{&corev1.Namespace{ObjectMeta: named("default")}, namespace("volumes-1", "other")}
	env.Must(t, c.awaitCleanUp(t.Context(), answers(t, others...)))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := c.awaitCleanUp(ctx, answers(t, append(others, namespace("volumes-2", "mine"))...))
	if err == nil || !strings.HasSuffix(err.Error(), "see what holds them, and delete them: kubectl delete namespace volumes-2") {
		t.Errorf("%v", err)
	}
}
