package e2e

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume"
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

// serveSharedVolumes applies the definition until the test ends.
func serveSharedVolumes(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	env.Must(t, cluster.ApplyFile(t.Context(), filepath.Join(root, "config", "crd", "aws-efs.managed.openshift.io_sharedvolumes.yaml")))
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "sharedvolumes.aws-efs.managed.openshift.io"}}
	crd.SetGroupVersionKind(sharedVolumeDefinition().GroupVersionKind())
	t.Cleanup(func() { forceDelete(t, cluster, crd) })
}

// The API as the community's manual has it: short name, columns, what it takes and what not.
func TestTheSharedVolumeAPIIsThatOfTheManual(t *testing.T) {
	cluster := clean(t)
	serveSharedVolumes(t, cluster)
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

func TestThePolicyHoldsNewSharedVolumesToIDsAndKeepsThem(t *testing.T) {
	cluster := clean(t)
	serveSharedVolumes(t, cluster)
	// Stored before there was a policy.
	old := sharedVolume("old", "fs-1", "fsap-1")
	env.Eventually(t, "the SharedVolume created", func() error { return cluster.Client.Create(t.Context(), old) })
	objects, err := sharedvolume.Policy(cluster.Scheme, env.OperatorNamespace)
	env.Must(t, err)
	for _, object := range objects {
		keep(t, cluster, object)
	}
	env.Eventually(t, "the policy in force", func() error {
		if cluster.Client.Create(t.Context(), sharedVolume("bad", "fs-1", "fsap-01234567"), client.DryRunAll) == nil {
			return errors.New("a short ID is accepted")
		}
		return nil
	})
	good := sharedVolume("sv1", "fs-1234cdef", "fsap-0123456789abcdef")
	env.Must(t, cluster.Client.Create(t.Context(), good))
	env.Must(t, cluster.Client.Create(t.Context(), sharedVolume("longest", "fs-"+strings.Repeat("a", 40), "fsap-"+strings.Repeat("0", 40))))
	for _, id := range badIDs() {
		for name, bad := range map[string]*unstructured.Unstructured{
			"spec.fileSystemID": sharedVolume("bad", "fs-"+id, "fsap-01234567"), "spec.accessPointID": sharedVolume("bad", "fs-01234567", "fsap-"+id),
		} {
			if err := cluster.Client.Create(t.Context(), bad, client.DryRunAll); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s with %q: error %v, want one that names the field", name, id, err)
			}
		}
	}
	change := func(who client.Client, object *unstructured.Unstructured, id string) error {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"fileSystemID":"`+id+`"}}`))
		return who.Patch(t.Context(), object.DeepCopy(), patch, client.DryRunAll)
	}
	// The operator puts back what an older definition let somebody change, and nobody else does, whatever their rights.
	env.Must(t, change(as(t, cluster, env.OperatorUser), good, "fs-76543210"))
	if err := change(as(t, cluster, env.OperatorUserIn("default")), good, "fs-76543210"); err == nil {
		t.Error("an account of the same name in another namespace may change IDs")
	}
	for _, object := range []*unstructured.Unstructured{old, good} {
		if err := change(cluster.Client, object, "fs-76543210"); err == nil || !strings.Contains(err.Error(), "make another SharedVolume") {
			t.Errorf("%s: error %v, want one that says what to do instead", object.GetName(), err)
		}
		// All else can be changed, also of those that are older than the policy.
		_, err := cluster.Kubectl(t.Context(), "annotate", "sv", object.GetName(), "example.com/note=x")
		env.Must(t, err)
	}
}

// as is a client that has every right, under another name.
func as(t *testing.T, cluster *env.Cluster, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters", "system:authenticated"}}
	other, err := client.New(config, client.Options{Scheme: cluster.Scheme})
	env.Must(t, err)
	return other
}

// badIDs are what follows the prefix of something that is no ID.
func badIDs() []string {
	return []string{
		"", "1", "1234567", strings.Repeat("0", 41), "0123456g", "0123456G", "ABCDEF01", "01234567 ", " 01234567", "0123 4567", "01234567:",
		"01234567:/", "01234567::", "01234567/..", "01234567,tls", "01234567,ro", "01234567;", "01234567&", "01234567|", "01234567$x",
		"01234567`x`", "01234567'", `01234567"`, `01234567\`, "01234567.", "01234567-", "01234567_", "-01234567", "01234567\n", "01234567\t",
		"01234567\x00", "0x1234567", "01234567=", "01234567%2f", "01234567?", "01234567#", "01234567*", "０１２３４５６７", "абвгдежз", "0123456\u200b7",
		"[01234567]", "{01234567}", "../../etc", "fs-01234567", "accesspoint=1",
	}
}
