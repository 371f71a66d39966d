package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
)

// crdName is the name of the CustomResourceDefinition, and of the policy.
const crdName = "sharedvolumes.aws-efs.managed.openshift.io"

// raw is a SharedVolume with any IDs.
func raw(name, fileSystem, accessPoint string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "aws-efs.managed.openshift.io/v1alpha1", "kind": "SharedVolume",
		"metadata": map[string]any{"namespace": "default", "name": name},
		"spec":     map[string]any{"fileSystemID": fileSystem, "accessPointID": accessPoint},
	}}
}

// stored puts a SharedVolume into the cluster as an older CRD let it in, until the test ends.
func stored(t *testing.T, cluster *env.Cluster, object client.Object) {
	t.Helper()
	env.Must(t, as(t, cluster, env.OperatorUser, "system:masters").Create(t.Context(), object))
	t.Cleanup(func() { env.Scene{Cluster: cluster, T: t}.Drop(object) })
}

// The API as the community's manual has it: short name, columns, what it takes and what not.
func TestTheSharedVolumeAPIIsThatOfTheManual(t *testing.T) {
	cluster := clean(t)
	stored(t, cluster, raw("sv1", env.FileSystem, env.AccessPoint))
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
	stored(t, cluster, raw("short", "fs-1", "fsap-1"))
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
		err := cluster.Client.Create(t.Context(), raw("bad", ids[0], ids[1]), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "should match") {
			t.Errorf("%s: error %v, want an error that names the pattern", name, err)
		}
	}
}

func thePolicyHoldsNewSharedVolumesToIDsAndKeepsThem(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	policed(t, cluster)
	// Stored before there was a policy.
	old := env.SharedVolume("default", "old")
	old.Spec = v1alpha1.SharedVolumeSpec{FileSystemID: "fs-1", AccessPointID: "fsap-1"}
	stored(t, cluster, old)
	t.Cleanup(func() { unshare(t, cluster, old) })
	good := share(t, cluster, "default", "sv1")
	for _, sv := range []*v1alpha1.SharedVolume{old, good} {
		env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), sv) })
	}
	longest := raw("longest", "fs-"+strings.Repeat("a", 40), "fsap-"+strings.Repeat("0", 40))
	env.Must(t, cluster.Client.Create(t.Context(), longest, client.DryRunAll))
	for _, id := range badIDs() {
		for name, bad := range map[string]*unstructured.Unstructured{
			"spec.fileSystemID": raw("bad", "fs-"+id, "fsap-01234567"), "spec.accessPointID": raw("bad", "fs-01234567", "fsap-"+id),
		} {
			if err := cluster.Client.Create(t.Context(), bad, client.DryRunAll); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s with %q: error %v, want an error that names the field", name, id, err)
			}
		}
	}
	// Whatever is written, the API server takes AWS's IDs and nothing else.
	strict, random := regexp.MustCompile(`^[0-9a-f]{8,40}$`), rand.New(rand.NewPCG(1, 0))
	for range 300 {
		id := randomID(random)
		err := cluster.Client.Create(t.Context(), raw("fuzzed", "fs-"+id, "fsap-"+id), client.DryRunAll)
		if isTaken := err == nil; isTaken != strict.MatchString(id) {
			t.Errorf("ID %q: %v", id, err)
		}
	}
	change := func(who client.Client, sv *v1alpha1.SharedVolume) error {
		change := env.Merge(`{"spec":{"fileSystemID":"fs-76543210"}}`)
		return who.Patch(t.Context(), sv.DeepCopy(), change, client.DryRunAll)
	}
	// The operator puts back what an older CRD let somebody change, and nobody else does, whatever their RBAC.
	env.Must(t, change(as(t, cluster, env.OperatorUser, "system:masters"), good))
	if err := change(as(t, cluster, env.OperatorUserIn("default"), "system:masters"), good); err == nil {
		t.Error("an account of the same name in another namespace may change IDs")
	}
	for _, sv := range []*v1alpha1.SharedVolume{old, good} {
		if err := change(cluster.Client, sv); err == nil || !strings.Contains(err.Error(), "create another SharedVolume") {
			t.Errorf("%s: error %v, want an error that says what to do instead", sv.Name, err)
		}
		// All else can be changed, also of SharedVolumes that are older than the policy.
		env.Must(t, patch(cluster, sv, `{"metadata":{"annotations":{"example.com/note":"x"}}}`))
	}
}

// Nobody succeeds who removes the policy, or part of it.
func thePolicyIsPutBack(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	policed(t, cluster)
	const name = crdName
	for _, change := range [][]string{
		{"delete", "validatingadmissionpolicybinding", name},
		{"delete", "validatingadmissionpolicy", name},
		{"patch", "validatingadmissionpolicybinding", name, "--type=merge", "-p", `{"spec":{"validationActions":["Warn"]}}`},
		{"patch", "validatingadmissionpolicy", name, "--type=merge", "-p", `{"spec":{"failurePolicy":"Ignore"}}`},
	} {
		_, err := cluster.Kubectl(t.Context(), change...)
		env.Must(t, err)
		env.Eventually(t, strings.Join(change, " ")+" undone", func() error {
			binding, policy := &admissionv1.ValidatingAdmissionPolicyBinding{}, &admissionv1.ValidatingAdmissionPolicy{}
			key := client.ObjectKey{Name: name}
			err := errors.Join(cluster.Client.Get(t.Context(), key, binding), cluster.Client.Get(t.Context(), key, policy))
			if err != nil {
				return err
			}
			actions, failure := binding.Spec.ValidationActions, policy.Spec.FailurePolicy
			if len(actions) != 1 || actions[0] != admissionv1.Deny || failure == nil || *failure != admissionv1.Fail {
				return fmt.Errorf("actions %v, failure policy %v", actions, failure)
			}
			return nil
		})
	}
}

// policed waits until the API server enforces the policy.
func policed(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	env.Eventually(t, "the policy in force", func() error {
		if cluster.Client.Create(t.Context(), raw("bad", "fs-1", "fsap-01234567"), client.DryRunAll) == nil {
			return errors.New("a short ID is accepted")
		}
		return nil
	})
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

// randomID is nearly an ID, or one.
func randomID(random *rand.Rand) string {
	const digits, others = "0123456789abcdef", "ABCDEFghz:/,. \n\t-_%$'\"\\;é１"
	id := make([]rune, 5+random.IntN(40))
	for i := range id {
		id[i] = rune(digits[random.IntN(len(digits))])
	}
	if random.IntN(2) == 0 {
		strange := []rune(others)
		id[random.IntN(len(id))] = strange[random.IntN(len(strange))]
	}
	return string(id)
}
