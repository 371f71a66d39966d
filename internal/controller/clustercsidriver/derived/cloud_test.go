package derived

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
)

func TestTheCloudIsAskedWithTheCredentialsThatThereAre(t *testing.T) {
	inputs := func(objects ...client.Object) string {
		c, asked := newCluster(t, disk(), objects...), &cannedCloud{facts: driver.CloudFacts{Known: true}}
		c.Cloud = asked
		hash := c.inputs(t)
		// Who reads does not steer.
		if facts := c.Facts(); !facts.Known || len(asked.inputs) > 0 {
			t.Errorf("%+v, inputs %q", facts, asked.inputs)
		}
		if c.SetInputs(hash); !slices.Equal(asked.inputs, []string{hash}) {
			t.Errorf("inputs %q, want %q", asked.inputs, hash)
		}
		return hash
	}
	ca := func(content string) client.Object { return configMap(here, "cloud", driver.CloudCAKey, content) }
	seen := map[string]string{}
	for name, objects := range map[string][]client.Object{
		"no Secret": nil, "a Secret": {diskKeys("a")}, "another Secret": {diskKeys("b")}, "with a CA": {diskKeys("a"), ca("c")},
		"with another CA": {diskKeys("a"), ca("d")},
	} {
		hash := inputs(objects...)
		if other, found := seen[hash]; found || (hash == "") != (name == "no Secret") {
			t.Errorf("%s: hash %q, which is also that of %q", name, hash, other)
		}
		if seen[hash] = name; inputs(objects...) != hash {
			t.Errorf("%s: another hash each time", name)
		}
	}
	if got := inputs(ca("c")); got != "" {
		t.Errorf("a CA without a Secret: %q", got)
	}
}

// A change of the CA that can't be read is none.
func TestACAThatCantBeReadChangesNothing(t *testing.T) {
	c := newCluster(t, disk(), diskKeys("a"))
	c.Cloud = &cannedCloud{facts: driver.CloudFacts{Known: true}}
	c.Refuse(errors.New("no route"), "get ConfigMap "+here+"/cloud")
	if hash, err := c.CloudInputs(t.Context(), c.found(t)); err == nil || err.Error() != "read ConfigMap storage-system/cloud: no route" {
		t.Errorf("%q, %v", hash, err)
	}
}

func TestADriverOfNoCloudKnowsNothingOfOne(t *testing.T) {
	c := newCluster(t, disk())
	c.SetInputs("a")
	if hash := c.inputs(t); c.Facts().Known || hash != "" || c.Failure() != (CloudFailure{}) {
		t.Errorf("%+v, %q, %+v", c.Facts(), hash, c.Failure())
	}
	asked := &cannedCloud{trouble: CloudFailure{Reason: "CloudFailed", Since: time.Unix(1, 0)}}
	c.Cloud = asked
	c.SetInputs("")
	if diff := cmp.Diff([]string{""}, asked.inputs) + cmp.Diff(asked.trouble, c.Failure()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Only where the cloud speaks against a class, somebody asks for its volumes.
func TestClassesInUseAreThoseThatTheCloudSpeaksAgainst(t *testing.T) {
	classes := []driver.Class{
		{Kind: "StorageClass", Name: "gold", Provisioner: "disk.example.com"}, {Kind: "StorageClass", Name: "theirs", Provisioner: "other.example.com"},
	}
	of := func(name, class string) client.Object {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{StorageClassName: class}}
	}
	for name, tc := range map[string]struct {
		facts driver.CloudFacts
		want  map[string]bool
		reads []string
	}{
		"the cloud did not answer": {driver.CloudFacts{}, nil, nil},
		"the cloud has its type":   {driver.CloudFacts{Known: true, ShareTypes: []string{"gold"}}, nil, nil},
		"the cloud lacks its type": {driver.CloudFacts{Known: true}, map[string]bool{"gold": true}, []string{"list PersistentVolume"}},
	} {
		c := newCluster(t, disk(), of("a", "gold"), of("b", "theirs"))
		got, err := c.ClassesInUse(t.Context(), driver.Config{Classes: classes, Cloud: tc.facts})
		if diff := cmp.Diff(tc.want, got) + cmp.Diff(tc.reads, c.Reads); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	c := newCluster(t, disk())
	c.Refuse(errors.New("no route"), "list PersistentVolume")
	_, err := c.ClassesInUse(t.Context(), driver.Config{Classes: classes, Cloud: driver.CloudFacts{Known: true}})
	if err == nil || err.Error() != "list the PersistentVolumes of StorageClasses [gold]: no route" {
		t.Error(err)
	}
}

// The queue comes again when trouble begins to count, although no event may come.
func TestTroubleThatBeginsIsLookedAtAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	trouble := CloudFailure{Reason: "CloudFailed", Message: "HTTP 500"}
	for _, step := range []struct {
		since    time.Duration
		isAbsent bool
		want     operatorv1.ConditionStatus
		reason   string
		again    time.Duration
	}{
		{0, false, operatorv1.ConditionFalse, "Retrying", 2 * time.Minute},
		{2*time.Minute - time.Second, false, operatorv1.ConditionFalse, "Retrying", time.Second},
		{2 * time.Minute, false, operatorv1.ConditionTrue, "CloudFailed", 0},
		{0, true, operatorv1.ConditionFalse, Disabled, 0},
		{time.Hour, true, operatorv1.ConditionFalse, Disabled, 0},
	} {
		trouble.Since = now.Add(-step.since)
		got, again := trouble.Condition("XDegraded", step.isAbsent, now)
		if got.Status != step.want || got.Reason != step.reason || got.Message != trouble.Message || again != step.again {
			t.Errorf("since %s, absent %t: %v, again in %s", step.since, step.isAbsent, got, again)
		}
	}
}
