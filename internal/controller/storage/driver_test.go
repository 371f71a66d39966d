package storage

import (
	"errors"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

func TestAClusterCSIDriverIsCompletedAndNothingElseOfItIsChanged(t *testing.T) {
	const patched = "patch ClusterCSIDriver plain.example"
	made := func(state operatorv1.ManagementState, annotations map[string]string) *operatorv1.ClusterCSIDriver {
		driver := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{
			Name: "plain.example", UID: "u", ResourceVersion: "7", Annotations: annotations,
		}}
		driver.Spec.ManagementState = state
		return driver
	}
	deleted := made("", nil)
	deleted.DeletionTimestamp = &metav1.Time{Time: at}
	marked := func(reason string) map[string]string {
		return map[string]string{openshift.NotWantedAnnotation: reason, "other": "stays"}
	}
	for name, tc := range map[string]struct {
		driver *operatorv1.ClusterCSIDriver
		reason string
		// body is what is written, if anything is.
		body string
	}{
		"complete":                 {driver: made("Managed", nil)},
		"an administrator's":       {driver: made("Unmanaged", nil)},
		"without a state":          {driver: made("", nil), body: `{"metadata":{"resourceVersion":"7","uid":"u"},"spec":{"managementState":"Managed"}}`},
		"being deleted":            {driver: deleted, reason: "None"},
		"not wanted any more":      {driver: made("Managed", nil), reason: "None", body: `{"metadata":{"annotations":{"` + openshift.NotWantedAnnotation + `":"None"},"resourceVersion":"7","uid":"u"}}`},
		"not wanted, as before":    {driver: made("Managed", marked("None")), reason: "None"},
		"not wanted for a new why": {driver: made("Managed", marked("None")), reason: "Azure", body: `{"metadata":{"annotations":{"` + openshift.NotWantedAnnotation + `":"Azure"},"resourceVersion":"7","uid":"u"}}`},
		"wanted again":             {driver: made("Managed", marked("None")), body: `{"metadata":{"annotations":{"` + openshift.NotWantedAnnotation + `":null},"resourceVersion":"7","uid":"u"}}`},
		"an empty mark":            {driver: made("Managed", marked("")), body: `{"metadata":{"annotations":{"` + openshift.NotWantedAnnotation + `":null},"resourceVersion":"7","uid":"u"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			r := reconcilerOf(c)
			got, err := r.ensure(t.Context(), entries()[0], tc.driver, tc.reason)
			var writes, bodies []string
			if tc.body != "" {
				writes, bodies = []string{patched}, []string{tc.body}
			} else if got != tc.driver {
				t.Errorf("it goes on with %+v", got)
			}
			if diff := cmp.Diff(writes, c.Writes) + cmp.Diff(bodies, c.Bodies); diff != "" || err != nil {
				t.Errorf("error %v, writes (-want +got):\n%s", err, diff)
			}
			if told := heard(r); len(told) > 0 {
				t.Errorf("it says %v", told)
			}
		})
	}
}

func TestAMissingClusterCSIDriverIsMadeAndReported(t *testing.T) {
	const spec = `"spec":{"logLevel":"Normal","managementState":"Managed","operatorLogLevel":"Normal"}}`
	const head = `{"apiVersion":"operator.openshift.io/v1","kind":"ClusterCSIDriver","metadata":{`
	for name, tc := range map[string]struct{ reason, body string }{
		"wanted":     {"", head + `"name":"plain.example"},` + spec},
		"not wanted": {"None", head + `"annotations":{"` + openshift.NotWantedAnnotation + `":"None"},"name":"plain.example"},` + spec},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			r := reconcilerOf(c)
			got, err := r.ensure(t.Context(), entries()[0], nil, tc.reason)
			if err != nil || got.Name != "plain.example" || got.Spec.ManagementState != operatorv1.Managed {
				t.Errorf("error %v, ClusterCSIDriver %+v", err, got)
			}
			if diff := cmp.Diff([]string{tc.body}, c.Bodies); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			want := []string{"Normal ClusterCSIDriverCreated created ClusterCSIDriver plain.example, which configures the driver Plain"}
			if diff := cmp.Diff(want, heard(r)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if !r.applier.Mutations.Pending() {
				t.Error("the next reconcile would make it once more before the cache shows it")
			}
		})
	}
}

func TestSettingsOfAPredecessorAreKeptAndReported(t *testing.T) {
	c := newCluster(t)
	r := reconcilerOf(c)
	if err := r.createWith(t.Context(), "plain.example", map[string]any{"logLevel": "Debug"}); err != nil {
		t.Fatal(err)
	}
	body := `{"apiVersion":"operator.openshift.io/v1","kind":"ClusterCSIDriver","metadata":{"name":"plain.example"},"spec":{"logLevel":"Debug"}}`
	told := []string{"Normal ClusterCSIDriverCreated created ClusterCSIDriver plain.example with the settings of the operator that OLM installed"}
	if diff := cmp.Diff([]string{body}, c.Bodies) + cmp.Diff(told, heard(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestARefusedClusterCSIDriverIsReported(t *testing.T) {
	c := newCluster(t)
	c.Refuse(errors.New("refused"))
	r := reconcilerOf(c)
	says := func(err error, want string) {
		t.Helper()
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	const text = "create ClusterCSIDriver plain.example: refused"
	_, err := r.ensure(t.Context(), entries()[0], nil, "")
	says(err, text)
	if diff := cmp.Diff([]string{"Warning ClusterCSIDriverCreateFailed " + text}, heard(r)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	says(r.createWith(t.Context(), "plain.example", nil), "create ClusterCSIDriver plain.example with the settings of the operator that OLM installed: refused")
	had := driver("")
	got, err := r.ensure(t.Context(), entries()[0], had, "")
	says(err, "change ClusterCSIDriver plain.example: refused")
	if told := heard(r); got != had || len(told) > 0 {
		t.Errorf("it goes on with %+v, and says %v", got, told)
	}
}
