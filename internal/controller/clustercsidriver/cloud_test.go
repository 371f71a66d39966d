package clustercsidriver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// cannedCloud answers what a test says.
type cannedCloud struct {
	facts   driver.CloudFacts
	trouble derived.CloudFailure
	inputs  []string
}

func (c *cannedCloud) Facts() driver.CloudFacts           { return c.facts }
func (c *cannedCloud) Failure() derived.CloudFailure      { return c.trouble }
func (c *cannedCloud) SetInputs(hash string)              { c.inputs = append(c.inputs, hash) }
func (c *cannedCloud) Changed() <-chan event.GenericEvent { return nil }

// disabling is a driver that asks a cloud, and for which there is nothing to drive where the cloud lacks a service.
func disabling() driver.Driver {
	d := disk()
	d.Removable = false
	d.Cloud = &driver.Cloud{Secret: "disk-keys", CA: client.ObjectKey{Namespace: here, Name: "cloud"}, ShareTypes: true}
	d.Disabled = func(cfg driver.Config) string {
		if cfg.Cloud.NoService {
			return "this cloud has no disks"
		}
		return ""
	}
	return d
}

func cloudedTrip(t *testing.T, asked *cannedCloud, objects ...client.Object) *trip {
	t.Helper()
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName, UID: "cr-1"}}
	cr.Spec.ManagementState = operatorv1.Managed
	s := newTrip(t, disabling(), append(objects, cr, infrastructure())...)
	s.Derived.Cloud = asked
	return s
}

func (s *trip) reconcile(t *testing.T) map[string]string {
	t.Helper()
	if _, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: diskName}}); err != nil {
		t.Fatal(err)
	}
	written := s.written(t)
	if written == nil {
		t.Fatal("no status is written")
	}
	return texts(written.Conditions)
}

// An outage of the cloud does not mean that the cloud lacks a service. It degrades what the operator asks it for, and fails nothing else.
func TestACloudInTroubleDegradesAfterTwoMinutesADriverThatItHasLetBeInstalled(t *testing.T) {
	const message = "OpenStack: log in: no connection. The last answer is of 2026-11-01T11:00:00Z"
	trouble := func(since time.Duration) derived.CloudFailure {
		return derived.CloudFailure{Reason: "CloudUnreachable", Message: message, Since: began.Add(-since)}
	}
	for name, tc := range map[string]struct {
		facts   driver.CloudFacts
		trouble derived.CloudFailure
		cloud   string
		// disabled and degraded are the conditions of the driver.
		disabled, degraded string
	}{
		"it answers": {facts: driver.CloudFacts{Known: true, Repeated: true}, cloud: "False AsExpected", disabled: "False AsExpected"},
		"trouble begins": {
			facts: driver.CloudFacts{Known: true}, trouble: trouble(time.Minute), cloud: "False Retrying: " + message, disabled: "False AsExpected",
		},
		"trouble lasts": {
			facts: driver.CloudFacts{Known: true}, trouble: trouble(2 * time.Minute), cloud: "True CloudUnreachable: " + message, disabled: "False AsExpected",
			degraded: "True CloudUnreachable: DiskDriverCloud: " + message,
		},
		"trouble since the start": {
			trouble: trouble(time.Hour), cloud: "False DriverDisabled: " + message, disabled: "True CloudUnreachable: " + message, degraded: "False AsExpected",
		},
		"no service": {
			facts: driver.CloudFacts{Known: true, NoService: true}, cloud: "False AsExpected", disabled: "True DriverDisabled: this cloud has no disks",
			degraded: "False AsExpected",
		},
		"no service, and then trouble": {
			facts: driver.CloudFacts{Known: true, NoService: true}, trouble: trouble(time.Hour), cloud: "False DriverDisabled: " + message,
			disabled: "True DriverDisabled: this cloud has no disks", degraded: "False AsExpected",
		},
	} {
		said := cloudedTrip(t, &cannedCloud{facts: tc.facts, trouble: tc.trouble}).reconcile(t)
		if said["DiskDriverCloudDegraded"] != tc.cloud || said["DiskDriverDisabled"] != tc.disabled || tc.degraded != "" && said["Degraded"] != tc.degraded {
			t.Errorf("%s:\n cloud %s\n disabled %s\n degraded %s", name, said["DiskDriverCloudDegraded"], said["DiskDriverDisabled"], said["Degraded"])
		}
	}
}

// A driver that was never installed is optional: the cluster is well without it for as long as its cloud does not answer. Whatever is there of a
// driver was installed, by this operator or by OpenShift's, and is missed.
func TestADriverThatWasNeverInstalledWaitsForItsCloudWithoutHarm(t *testing.T) {
	const away, waiting = "CloudUnreachable: OpenStack: log in: no connection", "waiting for Secret storage-system/disk-keys: the operator needs it"
	silent := derived.CloudFailure{Reason: "CloudUnreachable", Message: "OpenStack: log in: no connection", Since: began.Add(-time.Hour)}
	object := func(label, annotation string) *storagev1.CSIDriver {
		one := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName}}
		if label != "" {
			one.Labels = map[string]string{openshift.ManagedByLabel: label}
		}
		if annotation != "" {
			one.Annotations = map[string]string{openshift.ManagedAnnotation: annotation}
		}
		return one
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: "node-1", Labels: disk().SelectorOf(driver.Node)}}
	said := func(kind, reason string) []operatorv1.OperatorCondition {
		return []operatorv1.OperatorCondition{{Type: kind, Status: operatorv1.ConditionTrue, Reason: reason, Message: "as before"}}
	}
	for name, tc := range map[string]struct {
		trouble derived.CloudFailure
		objects []client.Object
		said    []operatorv1.OperatorCondition
		// disabled is the condition of this name, or what the driver waits for.
		disabled string
	}{
		"nothing is there":                       {trouble: silent, disabled: "True " + away},
		"a CSIDriver of somebody else":           {trouble: silent, objects: []client.Object{object("other", "")}, disabled: "True " + away},
		"one that the cluster has given away":    {trouble: silent, objects: []client.Object{object("", "false")}, disabled: "True " + away},
		"our CSIDriver":                          {trouble: silent, objects: []client.Object{object(disk().Operator, "")}},
		"OpenShift's CSIDriver":                  {trouble: silent, objects: []client.Object{object("", "true")}},
		"pods of OpenShift's driver":             {trouble: silent, objects: []client.Object{pod}},
		"no answer yet":                          {},
		"no answer yet after a restart":          {said: said("DiskDriverDisabled", "CloudUnreachable"), disabled: "True CloudUnreachable: as before"},
		"no answer yet after OpenShift's":        {said: said("DiskControllerDisabled", ""), disabled: "True DriverDisabled: as before"},
		"no answer yet after another's":          {said: said("OtherDisabled", "")},
		"no answer yet after a removal":          {said: said("DiskDriverDisabled", removedReason)},
		"no answer yet of what is there":         {said: said("DiskDriverDisabled", "CloudUnreachable"), objects: []client.Object{object("", "true")}},
		"trouble after OpenShift's said nothing": {trouble: silent, said: said("DiskControllerAvailable", ""), disabled: "True " + away},
	} {
		t.Run(name, func(t *testing.T) {
			s := cloudedTrip(t, &cannedCloud{trouble: tc.trouble}, tc.objects...)
			s.Derived.Driver.LegacyConditions = []string{"DiskControllerDisabled", "DiskControllerAvailable"}
			for _, object := range s.cluster.Objects {
				if cr, is := object.(*operatorv1.ClusterCSIDriver); is {
					cr.Status.Conditions = tc.said
				}
			}
			found := s.reconcile(t)
			version := s.written(t).Version
			if sent := names(s.cluster.Sent()); len(sent) != 1 {
				t.Errorf("writes: %v", sent)
			}
			if tc.disabled == "" {
				if found["DiskDriverDisabled"] != "False AsExpected" || !strings.Contains(found["Progressing"], waiting) || version != "" {
					t.Errorf("it is not waited for: %q, %q, version %q", found["DiskDriverDisabled"], found["Progressing"], version)
				}
				return
			}
			want := map[string]string{
				"DiskDriverDisabled": tc.disabled, "Available": "True AsExpected", "Progressing": "False AsExpected", "Degraded": "False AsExpected",
				"Upgradeable": "True AsExpected",
			}
			for kind, text := range want {
				if found[kind] != text {
					t.Errorf("%s: %q, want %q", kind, found[kind], text)
				}
			}
			if version != "1.2.3" {
				t.Errorf("version %q", version)
			}
		})
	}
}

// Neither the same answer nor trouble that goes on is news.
func TestACloudThatSaysTheSameCausesNoWrite(t *testing.T) {
	asked := &cannedCloud{
		facts:   driver.CloudFacts{Known: true, NoService: true},
		trouble: derived.CloudFailure{Reason: "CloudFailed", Message: "HTTP 500", Since: began.Add(-time.Hour)},
	}
	s := cloudedTrip(t, asked)
	s.reconcile(t)
	for _, object := range s.cluster.Objects {
		if cr, ok := object.(*operatorv1.ClusterCSIDriver); ok {
			cr.Status.OperatorStatus = *s.written(t)
		}
	}
	before := len(s.cluster.Sent())
	for range 3 {
		s.now = s.now.Add(time.Hour)
		if _, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: diskName}}); err != nil {
			t.Fatal(err)
		}
	}
	if sent := s.cluster.Sent()[before:]; len(sent) != 0 {
		t.Errorf("writes: %v", sent)
	}
}

func TestWithoutAClusterCSIDriverNobodyIsAsked(t *testing.T) {
	asked := &cannedCloud{}
	s := newTrip(t, disabling(), infrastructure())
	s.Derived.Cloud = asked
	if _, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: diskName}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{""}, asked.inputs); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
}

func TestShareTypesThatComeAndGoAreEvents(t *testing.T) {
	heard := &canned.Events{}
	c, now := clocked()
	r := &reporter{conditioner: c, events: heard, now: func() time.Time { return *now }}
	many := []string{"gold", "new"}
	for i := range 20 {
		many = append(many, fmt.Sprintf("type-%02d", i))
	}
	for step, tc := range []struct {
		facts driver.CloudFacts
		want  []string
	}{
		{driver.CloudFacts{}, nil},
		{driver.CloudFacts{Known: true, ShareTypes: []string{"gold", "slow"}}, nil},
		{driver.CloudFacts{Known: true, ShareTypes: []string{"gold", "slow"}}, nil},
		{driver.CloudFacts{Known: true, ShareTypes: []string{"gold", "new"}}, []string{
			"Normal ShareTypeAppeared: the cloud offers new share types: new",
			"Normal ShareTypeGone: the cloud no longer offers share types: slow",
		}},
		{driver.CloudFacts{Known: true, NoService: true}, nil},
		{driver.CloudFacts{}, nil},
		{driver.CloudFacts{Known: true, ShareTypes: many}, []string{
			"Normal ShareTypeAppeared: the cloud offers new share types: " +
				"type-00, type-01, type-02, type-03, type-04 and 15 more",
		}},
	} {
		heard.Said = nil
		r.emitOffers(&operatorv1.ClusterCSIDriver{}, tc.facts)
		if diff := cmp.Diff(tc.want, heard.Said); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", step, diff)
		}
	}
	heard.Said = nil
	r.emitOffers(&operatorv1.ClusterCSIDriver{}, driver.CloudFacts{Known: true, ShareTypes: append(many, strings.Repeat("x", 10000))})
	if len(heard.Said) != 1 || len(heard.Said[0]) > 1100 {
		t.Errorf("an event of a hostile name: %d events", len(heard.Said))
	}
}
