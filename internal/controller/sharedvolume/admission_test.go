package sharedvolume

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const (
	writePolicy   = "apply ValidatingAdmissionPolicy " + crdName
	writeBinding  = "apply ValidatingAdmissionPolicyBinding " + crdName
	closePolicy   = "apply ValidatingAdmissionPolicy " + unlistedPolicy
	closeBinding  = "apply ValidatingAdmissionPolicyBinding " + unlistedPolicy
	writeStatus   = "apply status ClusterCSIDriver " + efs.DriverName
	removePolicy  = "delete ValidatingAdmissionPolicy " + unlistedPolicy
	removeBinding = "delete ValidatingAdmissionPolicyBinding " + unlistedPolicy
)

// admission is an AdmissionReconciler on a cluster of which the cache shows all.
func admission(t *testing.T, objects ...client.Object) (*AdmissionReconciler, *cluster) {
	t.Helper()
	c := newCluster(t, objects...)
	r := &AdmissionReconciler{
		Client: c, Live: c, Owner: "operator", Namespace: "here", Others: alone(), Policies: true, Serve: func() {},
		Prefix: "AWSEFS", Now: func() time.Time { return began }, open: prometheus.NewGauge(prometheus.GaugeOpts{Name: MetricOpen}),
	}
	r.applier = &apply.Applier{Client: c, Live: c, FieldManager: r.Owner, Labels: ownLabels(r.Owner), Mutations: apply.NewMutationCache()}
	r.writer = &status.Writer{Client: c, Owner: "operator-sharedvolumes", Now: r.Now}
	return r, c
}

// served is the CRD. It may be served not yet, or be about to go.
func served(established, ending bool) *unstructured.Unstructured {
	crd := apply.CRD()
	crd.SetName(crdName)
	crd.SetUID("uid-of-definition")
	state := "False"
	if established {
		state = "True"
	}
	crd.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": state}}}
	if ending {
		crd.SetDeletionTimestamp(&metav1.Time{Time: began})
	}
	return crd
}

// driverCR is a ClusterCSIDriver that says what namespaces without a list may use, if that is not empty.
func driverCR(unlisted string) *operatorv1.ClusterCSIDriver {
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: efs.DriverName, UID: "uid-of-driver"}}
	if unlisted != "" {
		cr.Annotations = map[string]string{UnlistedAnnotation: unlisted}
	}
	return cr
}

func policyOf(name, byDefault string) *admissionv1.ValidatingAdmissionPolicy {
	found := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if byDefault != "" {
		found.Annotations = map[string]string{DefaultAnnotation: byDefault}
	}
	return found
}

func bindingOf(name string) client.Object {
	return &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func boundVolume(phase corev1.PersistentVolumePhase) client.Object {
	volume := newVolume(owner("ns", "sv1"), "pv-ns-sv1", "uid-of-pvc")
	volume.Status.Phase = phase
	return volume
}

func TestThePoliciesFollowWhatNamespacesWithoutAListMayUse(t *testing.T) {
	shut := []string{closePolicy, closeBinding, writePolicy, writeBinding}
	free := []string{writePolicy, writeBinding}
	said := func(writes []string) []string { return append(append([]string{}, writes...), writeStatus) }
	for name, tc := range map[string]struct {
		objects   []client.Object
		community neighbour
		want      []string
		decided   string
	}{
		"a new installation":                       {[]client.Object{driverCR("")}, neighbour{}, shut, "Deny"},
		"a new installation without a driver":      {nil, neighbour{}, shut, "Deny"},
		"a new installation that allows":           {[]client.Object{driverCR("Allow")}, neighbour{}, free, "Deny"},
		"a volume is bound":                        {[]client.Object{driverCR(""), boundVolume(corev1.VolumeBound)}, neighbour{}, said(free), "Allow"},
		"a volume is not bound":                    {[]client.Object{driverCR(""), boundVolume(corev1.VolumeAvailable)}, neighbour{}, shut, "Deny"},
		"the community's operator runs":            {[]client.Object{driverCR("")}, neighbour{running: "a/b"}, said(free), "Allow"},
		"its driver is left":                       {[]client.Object{driverCR("")}, neighbour{left: true}, said(free), "Allow"},
		"its driver is left, and the other denies": {[]client.Object{driverCR("Deny")}, neighbour{left: true}, shut, "Allow"},
		"open, and no driver is wanted any more":   {[]client.Object{policyOf(crdName, "Allow")}, neighbour{}, free, "Allow"},
		"closed, and no driver is wanted any more": {[]client.Object{policyOf(crdName, "Allow"), policyOf(unlistedPolicy, "")}, neighbour{}, shut, "Allow"},
		"opened again": {
			[]client.Object{driverCR("Allow"), policyOf(crdName, "Deny"), policyOf(unlistedPolicy, ""), bindingOf(unlistedPolicy)}, neighbour{},
			append(append([]string{}, free...), removePolicy, removeBinding), "Deny",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := admission(t, append(tc.objects, served(true, false))...)
			r.Others.Community = &tc.community
			if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, c.Writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if r.decided != tc.decided || r.decidedFor != "uid-of-definition" {
				t.Errorf("decided %s for %s", r.decided, r.decidedFor)
			}
		})
	}
}

// A typo neither opens what is closed nor closes what is open, whatever the default is, and the administrator can read it.
func TestAnUnknownValueChangesNothing(t *testing.T) {
	for _, byDefault := range []string{"Allow", "Deny"} {
		for _, before := range []string{"Allow", "Deny"} {
			r, c := admission(t, driverCR(before), policyOf(crdName, byDefault), served(true, false))
			pass := func(value string) {
				c.Objects = slices.DeleteFunc(c.Objects, func(object client.Object) bool { return object.GetName() == efs.DriverName })
				c.Objects, c.Writes, c.Bodies = append(c.Objects, driverCR(value)), nil, nil
				if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
					t.Fatal(err)
				}
			}
			pass(before)
			says := "may use everything in namespaces without a list"
			if before == "Deny" {
				says = "may use nothing in namespaces without a list"
			}
			pass("Dney")
			closed, body := slices.Contains(c.Writes, closePolicy), strings.Join(c.Bodies, " ")
			if closed != (before == "Deny") || !strings.Contains(body, "SettingUnknown") || !strings.Contains(body, says) {
				t.Errorf("%s, by default %s: closed %v, and it says %s", before, byDefault, closed, body)
			}
			// Somebody has deleted the policy that closes.
			if pass("Deny "); slices.Contains(c.Writes, closePolicy) != closed {
				t.Errorf("%s, by default %s: wrote %q", before, byDefault, c.Writes)
			}
			pass(before)
			if slices.Contains(c.Writes, closePolicy) != (before == "Deny") {
				t.Errorf("%s, by default %s: wrote %q", before, byDefault, c.Writes)
			}
		}
	}
}

// Another process knows what the cluster shows. A cluster without policies opens nothing for a typo.
func TestAnUnknownValueIsReadAfterARestart(t *testing.T) {
	for name, tc := range map[string]struct {
		objects  []client.Object
		policies bool
		closed   bool
	}{
		"it was open":        {[]client.Object{policyOf(crdName, "Deny")}, true, false},
		"it was closed":      {[]client.Object{policyOf(crdName, "Allow"), policyOf(unlistedPolicy, "")}, true, true},
		"a new installation": {nil, true, true},
		"volumes were bound": {[]client.Object{boundVolume(corev1.VolumeBound)}, true, false},
		"there is no policy": {nil, false, true},
	} {
		r, c := admission(t, append(tc.objects, driverCR("Dney"), served(true, false))...)
		r.Policies = tc.policies
		if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
		says := "may use everything in namespaces without a list"
		if tc.closed {
			says = "may use nothing in namespaces without a list"
		}
		if closed := slices.Contains(c.Writes, closePolicy); closed != (tc.closed && tc.policies) || !strings.Contains(strings.Join(c.Bodies, " "), says) {
			t.Errorf("%s: closed %v: %s", name, closed, c.Bodies)
		}
	}
}

func TestAPolicyGoesWithTheCRDAndRemembersTheDefault(t *testing.T) {
	r, c := admission(t, driverCR("Allow"), served(true, false))
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	var sent metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(c.Bodies[0]), &sent); err != nil {
		t.Fatal(err)
	}
	want := []metav1.OwnerReference{{
		APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: crdName, UID: "uid-of-definition",
	}}
	if diff := cmp.Diff(want, sent.OwnerReferences); diff != "" || sent.Annotations[DefaultAnnotation] != "Deny" || sent.Labels[managedByLabel] != "operator" {
		t.Errorf("%v %v %s", sent.Annotations, sent.Labels, diff)
	}
}

func TestWhenSharedVolumesAreServed(t *testing.T) {
	for name, tc := range map[string]struct {
		objects  []client.Object
		others   neighbour
		policies bool
		serves   int
		writes   int
	}{
		"no CRD":                         {nil, neighbour{}, true, 0, 0},
		"a CRD that is not served yet":   {[]client.Object{served(false, false)}, neighbour{}, true, 0, 0},
		"a CRD that is being deleted":    {[]client.Object{served(true, true)}, neighbour{}, true, 0, 0},
		"a CRD":                          {[]client.Object{served(true, false)}, neighbour{}, true, 1, 4},
		"beside a copy of this operator": {[]client.Object{served(true, false)}, neighbour{running: "a/b"}, true, 1, 0},
		"a cluster without policies":     {[]client.Object{served(true, false)}, neighbour{}, false, 1, 0},
	} {
		r, c := admission(t, tc.objects...)
		r.Others.Namesake, r.Policies = &tc.others, tc.policies
		serves := 0
		r.Serve = func() { serves++ }
		// As this copy has found it before the other one began.
		r.open.Set(1)
		for range 2 {
			c.Writes = nil
			if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
				t.Fatal(name, err)
			}
		}
		if serves != tc.serves || len(c.Writes) > tc.writes || tc.writes > 0 && len(c.Writes) == 0 {
			t.Errorf("%s: served %d times, wrote %q", name, serves, c.Writes)
		}
		registry := prometheus.NewRegistry()
		if err := registry.Register(r.open); err != nil {
			t.Fatal(err)
		}
		if open := canned.Metrics(t, registry)[MetricOpen]; tc.others.running != "" && open != 0 {
			t.Errorf("%s: the gauge of what is open is %f", name, open)
		}
	}
}

func TestConditionsForTheAdministratorAreFull(t *testing.T) {
	const howTo = "To deny this, set annotation aws-efs.managed.openshift.io/allowed-shares on each Namespace that uses SharedVolumes, then run: oc " +
		"annotate clustercsidriver efs.csi.aws.com --overwrite aws-efs.managed.openshift.io/unlisted-namespaces=Deny"
	for name, tc := range map[string]struct {
		got  *operatorv1.OperatorCondition
		want string
	}{
		"lists": {exposure{policies: true, lists: 2}.condition("AWSEFS"), "2 namespaces have a list of the shares that their SharedVolumes may use, but " +
			"namespaces without a list may use every share. A user who deletes and recreates a project removes its list. " + howTo},
		"no policies": {exposure{}.condition("AWSEFS"), "namespaces without a list may use every access point whose IDs they know, because this " +
			"cluster has no ValidatingAdmissionPolicies (Kubernetes before 1.30). " + howTo},
		"as before": {exposure{policies: true}.condition("AWSEFS"), "namespaces without a list may use every access point whose IDs they know, because " +
			"they could before this operator was installed or upgraded. New installations deny this. " + howTo +
			". To allow this and clear this condition, set the annotation of the ClusterCSIDriver to Allow"},
		"outdated": {outdated("AWSEFS", []string{"a", "b"}), "CustomResourceDefinition sharedvolumes.aws-efs.managed.openshift.io is older than this " +
			"operator: the status of SharedVolumes lacks the fields a, b. A Subscription of the community's package aws-efs-operator in another namespace " +
			"installs such a CRD, even if its operator fails. Delete that Subscription and its ClusterServiceVersion, then apply the CRD of this " +
			"operator's release: oc apply -f config/crd"},
	} {
		if diff := cmp.Diff(tc.want, tc.got.Message); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatIsOpenIsReportedAndTakenBack(t *testing.T) {
	last := driverCR("Allow")
	last.Status.Conditions = []operatorv1.OperatorCondition{status.Condition("AWSEFS"+conditionOpen, true, "InUseBefore", "m")}
	listed := namespace("ns", map[string]string{AllowedAnnotation: ""})
	for name, tc := range map[string]struct {
		objects []client.Object
		cr      *operatorv1.ClusterCSIDriver
		want    []string
		gauge   float64
	}{
		"open beside a list":          {[]client.Object{listed, namespace("b", nil)}, driverCR("Allow"), []string{writeStatus}, 1},
		"closed beside a list":        {[]client.Object{listed}, driverCR("Deny"), nil, 0},
		"not decided yet":             {[]client.Object{listed}, driverCR(""), nil, 0},
		"open without lists, as said": {nil, driverCR("Allow"), nil, 0},
		"what was told is taken back": {nil, last, []string{writeStatus}, 0},
		"without a driver":            {[]client.Object{listed}, nil, nil, 0},
	} {
		r, c := admission(t, tc.objects...)
		if _, err := r.report(t.Context(), served(true, false), tc.cr); err != nil {
			t.Fatal(err)
		}
		registry := prometheus.NewRegistry()
		if err := registry.Register(r.open); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, c.Writes); diff != "" || canned.Metrics(t, registry)[MetricOpen] != tc.gauge {
			t.Errorf("%s: %v %s", name, canned.Metrics(t, registry), diff)
		}
	}
}

func TestAnAdmissionThatFailsSaysWhere(t *testing.T) {
	for fails, want := range map[string]string{
		"get CustomResourceDefinition":  "read *unstructured.Unstructured /" + crdName + ": no answer",
		"get ClusterCSIDriver":          "read *v1.ClusterCSIDriver /efs.csi.aws.com: no answer",
		"list Namespace":                "list namespaces: no answer",
		"list PersistentVolume":         "list the volumes of SharedVolumes: no answer\nlist the bound volumes of SharedVolumes: no answer",
		"get ValidatingAdmissionPolicy": "read *v1.ValidatingAdmissionPolicy /" + crdName + ": no answer",
	} {
		r, c := admission(t, driverCR(""), served(true, false))
		c.Refuse(errors.New("no answer"), fails)
		if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", fails, err, want)
		}
	}
}

func TestAPolicyThatIsRefusedKeepsNothingElseFromBeingDone(t *testing.T) {
	const policy, binding = "ValidatingAdmissionPolicy ", "ValidatingAdmissionPolicyBinding "
	for name, tc := range map[string]struct {
		unlisted string
		objects  []client.Object
		refuse   string
		want     string
		writes   []string
	}{
		"one that is made": {"", nil, writePolicy, policy + crdName + ": apply: refused", []string{writePolicy, writeBinding, closePolicy, closeBinding}},
		"one that goes": {"Allow", []client.Object{policyOf(unlistedPolicy, ""), bindingOf(unlistedPolicy)}, removePolicy,
			"delete *v1.ValidatingAdmissionPolicy " + unlistedPolicy + ": refused", []string{writePolicy, writeBinding, removePolicy, removeBinding}},
		"whether one is there": {"Allow", nil, "get " + binding + unlistedPolicy,
			"delete *v1.ValidatingAdmissionPolicyBinding " + unlistedPolicy + ": read *v1.ValidatingAdmissionPolicyBinding /" + unlistedPolicy + ": refused",
			[]string{writePolicy, writeBinding}},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := admission(t, append(tc.objects, driverCR(tc.unlisted), served(true, false))...)
			c.Refuse(errors.New("refused"), tc.refuse)
			serves := false
			r.Serve = func() { serves = true }
			result, err := r.Reconcile(t.Context(), ctrl.Request{})
			if err == nil || err.Error() != tc.want || result != (ctrl.Result{}) || !serves {
				t.Errorf("%+v, error %v, want %s; serves %t", result, err, tc.want, serves)
			}
			got := slices.DeleteFunc(c.Writes, func(write string) bool { return write == writeStatus })
			if diff := cmp.Diff(sortedWords(tc.writes), sortedWords(got)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func sortedWords(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

func TestOperatorsThatCannotBeReadAreReported(t *testing.T) {
	r, c := admission(t, driverCR(""), served(true, false))
	r.Others.Namesake = &neighbour{err: errors.New("no answer")}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err == nil || err.Error() != "no answer" || len(c.Writes) > 0 {
		t.Errorf("nobody knows who else works: error %v, writes %v", err, c.Writes)
	}
	r, c = admission(t, driverCR(""), served(true, false))
	r.Others.Community = &neighbour{err: errors.New("no answer")}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err == nil || err.Error() != "no answer" || slices.Contains(c.Writes, writePolicy) {
		t.Errorf("nobody knows what is decided: error %v, writes %v", err, c.Writes)
	}
}
