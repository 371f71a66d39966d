package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// sharedVolume is one as a developer writes it.
func sharedVolume(name, fileSystem, accessPoint string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "aws-efs.managed.openshift.io/v1alpha1", "kind": "SharedVolume",
		"metadata": map[string]any{"namespace": "default", "name": name},
		"spec":     map[string]any{"fileSystemID": fileSystem, "accessPointID": accessPoint},
	}}
}

// The API as the community's manual has it: short name, columns, what it takes and what not.
func TestTheSharedVolumeAPIIsThatOfTheManual(t *testing.T) {
	cluster := clean(t)
	root, err := env.Root()
	env.Must(t, err)
	env.Must(t, cluster.ApplyFile(t.Context(), filepath.Join(root, "config", "crd", "aws-efs.managed.openshift.io_sharedvolumes.yaml")))
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "sharedvolumes.aws-efs.managed.openshift.io"}}
	crd.SetGroupVersionKind(sharedVolumeDefinition().GroupVersionKind())
	t.Cleanup(func() { forceDelete(t, cluster, crd) })
	first := sharedVolume("sv1", "fs-1234cdef", "fsap-0123456789abcdef")
	env.Eventually(t, "the SharedVolume created", func() error { return cluster.Client.Create(t.Context(), first.DeepCopy()) })

	table, err := cluster.Kubectl(t.Context(), "get", "sv", "sv1")
	env.Must(t, err)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if got := strings.Join(strings.Fields(lines[0]), " "); got != "NAME FILE SYSTEM ACCESS POINT PHASE CLAIM MESSAGE" {
		t.Errorf("columns %s", got)
	}
	// Nobody has written a status.
	if got := strings.Join(strings.Fields(lines[1]), " "); got != "sv1 fs-1234cdef fsap-0123456789abcdef Pending" {
		t.Errorf("row %s", got)
	}
	for _, field := range []string{"sv", "sv.spec.fileSystemID", "sv.spec.accessPointID", "sv.status.phase", "sv.status.conditions"} {
		text, err := cluster.Kubectl(t.Context(), "explain", field)
		env.Must(t, err)
		if strings.Contains(text, "<empty>") {
			t.Errorf("oc explain %s has no text:\n%s", field, text)
		}
	}
	// What the community's operator may have stored must be taken: IDs of any length.
	env.Must(t, cluster.Client.Create(t.Context(), sharedVolume("short", "fs-1", "fsap-1")))
	for name, ids := range map[string][2]string{
		"capitals":              {"fs-1234CDEF", "fsap-0123456789abcdef"},
		"no prefix":             {"1234cdef", "fsap-0123456789abcdef"},
		"an option in the ID":   {"fs-1234cdef,tls", "fsap-0123456789abcdef"},
		"a handle in the ID":    {"fs-1234cdef::fsap-0123456789abcdef", "fsap-0123456789abcdef"},
		"a path in the ID":      {"fs-1234cdef", "fsap-0123456789abcdef/.."},
		"a space after the ID":  {"fs-1234cdef", "fsap-0123456789abcdef "},
		"a line after the ID":   {"fs-1234cdef\nfs-2", "fsap-0123456789abcdef"},
		"the IDs are exchanged": {"fsap-0123456789abcdef", "fs-1234cdef"},
		"nothing":               {"", ""},
	} {
		err := cluster.Client.Create(t.Context(), sharedVolume("bad", ids[0], ids[1]), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "should match") {
			t.Errorf("%s: error %v, want one that names the pattern", name, err)
		}
	}
}
