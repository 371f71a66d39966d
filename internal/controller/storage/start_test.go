package storage

import (
	"errors"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const (
	pd          = "pd.csi.storage.gke.io"
	pdOperator  = "gcp-pd-csi-driver-operator"
	pdNamespace = "openshift-cluster-csi-drivers"
)

// entryOf is one of the catalogue.
func entryOf(t *testing.T, name string) catalogue.Entry {
	t.Helper()
	for _, entry := range catalogue.All() {
		if entry.Name == name {
			return entry
		}
	}
	t.Fatalf("no entry %s", name)
	return catalogue.Entry{}
}

// startable is a Reconciler with all images, and the scope of a platform, and what it sees there.
func startable(t *testing.T, name configv1.PlatformType, objects ...client.Object) (*Reconciler, *canned.Cluster, *seen) {
	t.Helper()
	scope, _ := scopeOf(t, name, false)
	c := newCluster(t, append(objects, infrastructure(name))...)
	r := reconcilerOf(c, catalogue.All()...)
	r.Scope, r.Images = scope, map[string]string{}
	for _, entry := range r.Catalogue {
		for _, variable := range entry.Variables() {
			r.Images[variable] = "image"
		}
	}
	w, err := r.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r, c, w
}

func wantOf(entry catalogue.Entry) choice { return choice{entry: entry, decision: wanted} }

func TestADriverThatIsWantedIsStartedOnce(t *testing.T) {
	r, c, w := startable(t, "GCP")
	r.volumes[pd] = volumes{names: []string{"counted in a removal that has ended"}}
	done := r.reconcileEntry(t.Context(), w, wantOf(entryOf(t, pd)))
	if done.err != nil || done.changes.Err() != nil || !done.applied || done.driver == nil || done.deployment == nil || len(r.volumes) > 0 {
		t.Fatalf("%+v", done)
	}
	// The operator starts when all that it needs is there.
	want := []string{
		"apply ServiceAccount " + pdNamespace + "/" + pdOperator, "apply ClusterRoleBinding " + pdOperator + "-clusterrolebinding",
		"apply RoleBinding " + pdNamespace + "/" + pdOperator + "-rolebinding", "apply Service " + pdNamespace + "/" + pdOperator + "-metrics",
		"apply Deployment " + pdNamespace + "/" + pdOperator, "apply ClusterCSIDriver " + pd,
	}
	if diff := cmp.Diff(want, c.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	told := []string{"Normal ClusterCSIDriverCreated created ClusterCSIDriver " + pd + ", which configures the driver " + done.entry.Title}
	if diff := cmp.Diff(told, heard(r)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// The cache shows nothing of it yet.
	before := len(c.Writes)
	again, err := r.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done = r.reconcileEntry(t.Context(), again, wantOf(entryOf(t, pd)))
	if !done.applied || slices.Contains(c.Writes[before:], "apply ClusterCSIDriver "+pd) || len(heard(r)) > 0 {
		t.Errorf("its ClusterCSIDriver is made once more: %v", c.Writes[before:])
	}
}

func TestWhatNobodyDecidedIsOnlyLookedAt(t *testing.T) {
	entry := entryOf(t, pd)
	for name, tc := range map[string]struct {
		state operatorv1.ManagementState
		made  choice
	}{
		"removed":        {operatorv1.Removed, wantOf(entry)},
		"unmanaged":      {operatorv1.Unmanaged, wantOf(entry)},
		"unknown":        {"Off", choice{entry: entry, decision: unwanted}},
		"a kept driver":  {operatorv1.Managed, choice{entry: entry, decision: kept}},
		"kept, no state": {"", choice{entry: entry, decision: kept}},
	} {
		made := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: pd}}
		r, c, w := startable(t, "GCP", storageOf(tc.state), made, started(pdOperator)[2])
		done := r.reconcileEntry(t.Context(), w, tc.made)
		if len(c.Writes) > 0 || done.err != nil || done.applied || done.driver == nil || done.deployment == nil || done.removal != (removal{}) {
			t.Errorf("%s: writes %v, result %+v", name, c.Writes, done)
		}
	}
}

func TestADriverThatCannotBeStartedSaysWhy(t *testing.T) {
	const refusal = "out of order"
	deployment := "Deployment " + pdNamespace + "/" + pdOperator
	for name, tc := range map[string]struct {
		refuse  string
		images  bool
		changes string
		err     string
		last    string
		lasting bool
	}{
		"no image": {images: true, lasting: true, err: "terminal error: GCP PD (" + pd + ") is not started, because environment variables " +
			strings.Join(entryOf(t, pd).Variables(), ", ") + " of the cluster-storage-operator are empty: set each to an image in its Deployment"},
		"an object that is refused": {refuse: "apply ServiceAccount", changes: "ServiceAccount " + pdNamespace + "/" + pdOperator + ": apply: " + refusal, last: "apply ClusterCSIDriver " + pd},
		"its Deployment is refused": {refuse: "apply Deployment", changes: deployment + ": apply: " + refusal, last: "apply ClusterCSIDriver " + pd},
		"no ClusterCSIDriver":       {refuse: "apply ClusterCSIDriver", err: "create ClusterCSIDriver " + pd + ": " + refusal, last: "apply ClusterCSIDriver " + pd},
	} {
		t.Run(name, func(t *testing.T) {
			r, c, w := startable(t, "GCP")
			if tc.refuse != "" {
				c.Refuse(errors.New(refusal), tc.refuse)
			}
			if tc.images {
				r.Images = nil
			}
			done := r.reconcileEntry(t.Context(), w, wantOf(entryOf(t, pd)))
			text := func(err error) string {
				if err == nil {
					return ""
				}
				return err.Error()
			}
			if diff := cmp.Diff(tc.err, text(done.err)) + cmp.Diff(tc.changes, text(done.changes.Err())); diff != "" || done.applied {
				t.Errorf("applied %t (-want +got):\n%s", done.applied, diff)
			}
			if errors.Is(done.err, reconcile.TerminalError(nil)) != tc.lasting {
				t.Errorf("it is tried again for ever, or not at all: %v", done.err)
			}
			if last := append([]string{""}, c.Writes...)[len(c.Writes)]; last != tc.last {
				t.Errorf("the last write is %q, want %q", last, tc.last)
			}
		})
	}
}

func TestADriverOfSomebodyElseIsLeftAlone(t *testing.T) {
	theirs := func(annotations map[string]string) client.Object {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: pd, Annotations: annotations}}
	}
	const full = "CSIDriver " + pd + " has another owner, so the cluster does not start its own driver. Either remove the other driver. Or " +
		"let the cluster manage the driver: when no pod uses its volumes, delete its Deployment and DaemonSet, and then run: oc annotate csidriver " + pd +
		" csi.openshift.io/managed=true --overwrite"
	made := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: pd}}
	for name, tc := range map[string]struct {
		objects []client.Object
		// live is what the cache does not show yet.
		live       []client.Object
		refuse     bool
		thirdParty string
		err        string
	}{
		"somebody else's":                   {objects: []client.Object{theirs(nil)}, thirdParty: full},
		"to be taken over":                  {objects: []client.Object{theirs(map[string]string{"csi.openshift.io/managed": "true"})}},
		"with a ClusterCSIDriver":           {objects: []client.Object{theirs(nil), made}},
		"with our operator":                 {objects: []client.Object{theirs(nil), started(pdOperator)[2]}},
		"with a ClusterCSIDriver since now": {objects: []client.Object{theirs(nil)}, live: []client.Object{made}},
		"nobody knows":                      {objects: []client.Object{theirs(nil)}, refuse: true, err: "look for ClusterCSIDriver " + pd + ": out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			r, c, w := startable(t, "GCP", tc.objects...)
			live := newCluster(t, append(tc.live, tc.objects...)...)
			r.Live = live
			if tc.refuse {
				live.Refuse(errors.New("out of order"), "get ClusterCSIDriver")
			}
			done := r.reconcileEntry(t.Context(), w, wantOf(entryOf(t, pd)))
			if (tc.err == "") != (done.err == nil) || done.err != nil && done.err.Error() != tc.err {
				t.Errorf("error %v, want %s", done.err, tc.err)
			}
			if diff := cmp.Diff(tc.thirdParty, done.thirdParty); diff != "" || done.held() != (tc.thirdParty != "") {
				t.Errorf("foreign (-want +got):\n%s", diff)
			}
			if starts := tc.thirdParty == "" && tc.err == ""; done.applied != starts || (len(c.Writes) > 0) != starts {
				t.Errorf("applied %t, writes %v", done.applied, c.Writes)
			}
		})
	}
}

// Both would write the same objects.
func TestNothingIsStartedWhileAnOperatorOfOLMIsLeft(t *testing.T) {
	old := &unstructured.Unstructured{}
	old.SetAPIVersion("csi.openshift.io/v1alpha1")
	old.SetKind("AWSEBSDriver")
	old.SetName("cluster")
	entry := entryOf(t, "ebs.csi.aws.com")
	for name, tc := range map[string]struct {
		refuse string
		writes []string
		says   string
		err    string
	}{
		"it goes": {
			writes: []string{"apply ClusterCSIDriver ebs.csi.aws.com", "delete AWSEBSDriver cluster"}, says: "removing AWSEBSDriver cluster",
		},
		"it can't be looked for": {refuse: "get AWSEBSDriver", err: "remove the operator that OLM installed: look for AWSEBSDriver cluster: out of order"},
		"it can't be deleted": {
			refuse: "delete", writes: []string{"apply ClusterCSIDriver ebs.csi.aws.com", "delete AWSEBSDriver cluster"},
			err: "remove the operator that OLM installed: delete AWSEBSDriver cluster: out of order",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, c, w := startable(t, "AWS", old)
			r.predecessors.Create = r.createWith
			if tc.refuse != "" {
				c.Refuse(errors.New("out of order"), tc.refuse)
			}
			done := r.reconcileEntry(t.Context(), w, wantOf(entry))
			if diff := cmp.Diff(tc.writes, c.Writes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if (tc.err == "") != (done.err == nil) || done.err != nil && done.err.Error() != tc.err {
				t.Errorf("error %v, want %s", done.err, tc.err)
			}
			if !done.held() || done.applied || !strings.Contains(done.olmRemoval.Message, tc.says) || (done.again == 0) != (tc.err != "") {
				t.Errorf("held %t, again in %s, it says %q", done.held(), done.again, done.olmRemoval.Message)
			}
		})
	}
}

// What an operator does not need any more goes; what others have given the same name stays.
func TestWhatIsNotRenderedAnyMoreIsDeleted(t *testing.T) {
	const former = "former-config"
	entry := entryOf(t, "vpc.block.csi.ibm.io")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue.Namespace, Name: former}}
	config.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	ours := owned(config.DeepCopy(), corev1.SchemeGroupVersion.WithKind("ConfigMap"), catalogue.Namespace, former)
	ours.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: catalogue.Operator, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}")}})
	write := func(verb string) string { return verb + " ConfigMap " + catalogue.Namespace + "/" + ours.Name }
	for name, tc := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"there was one":               {[]client.Object{ours}, []string{write("delete") + " Background"}},
		"there was none":              {nil, nil},
		"somebody else has that name": {[]client.Object{config}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, c, w := startable(t, "IBMCloud", tc.objects...)
			// An entry that can have it, and does not now.
			r.Scope.objects[entry.Name] = append(r.Scope.objects[entry.Name], config)
			if done := r.reconcileEntry(t.Context(), w, wantOf(entry)); done.err != nil || !done.applied {
				t.Fatalf("%+v, %v", done, done.changes.Err())
			}
			var got []string
			for _, one := range c.Writes {
				if strings.Contains(one, "ConfigMap "+catalogue.Namespace+"/"+ours.Name) {
					got = append(got, one)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// One trip, from an empty cluster to what its administrator reads.
func TestAPlatformBecomesADriverAndAReport(t *testing.T) {
	objects := []client.Object{storageOf("Managed"), &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "storage"}},
		&configv1.FeatureGate{ObjectMeta: metav1.ObjectMeta{Name: openshift.Singleton}}}
	r, c, _ := startable(t, "GCP", objects...)
	r.SetLogLevel = func(operatorv1.LogLevel) {}
	r.Restart = func(why string) { t.Errorf("it would start anew: %s", why) }
	reporterOf(t, r)
	result, err := r.Reconcile(t.Context(), request())
	if err != nil || result.RequeueAfter != apply.StaleAfter {
		t.Errorf("%+v, error %v", result, err)
	}
	writes := len(c.Writes)
	if diff := cmp.Diff([]string{storageStatus, operatorStatus}, c.Writes[writes-2:]); diff != "" {
		t.Errorf("the last writes (-want +got):\n%s", diff)
	}
	made := canned.Written[operatorv1.Storage](t, c, storageStatus)
	for kind, want := range map[string]string{
		"Available":   "False WaitForOperator: waiting for Deployment " + pdNamespace + "/" + pdOperator + " to report in ClusterCSIDriver " + pd,
		"Progressing": "True WaitForOperator: waiting for Deployment " + pdNamespace + "/" + pdOperator + " to report in ClusterCSIDriver " + pd,
		"Degraded":    "False AsExpected: ",
	} {
		found := status.Find(made.Status.Conditions, "GCPPDCSIDriverOperatorCR"+kind)
		if found == nil || string(found.Status)+" "+found.Reason+": "+found.Message != want {
			t.Errorf("%s is %+v, want %s", kind, found, want)
		}
	}
	// What fails for one driver is an error of the queue, and is told all the same.
	r, c, _ = startable(t, "GCP", objects...)
	r.SetLogLevel = func(operatorv1.LogLevel) {}
	reporterOf(t, r)
	c.Refuse(errors.New("out of order"), "apply Deployment")
	_, err = r.Reconcile(t.Context(), request())
	if want := "GCP PD: Deployment " + pdNamespace + "/" + pdOperator + ": apply: out of order"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	made = canned.Written[operatorv1.Storage](t, c, storageStatus)
	found := status.Find(made.Status.Conditions, "GCPPDCSIDriverOperatorStaticControllerDegraded")
	if found == nil || found.Status != operatorv1.ConditionFalse || found.Reason != "Retrying" || !strings.Contains(found.Message, "out of order") {
		t.Errorf("it tells %+v", found)
	}
}

func TestAMissingImageIsNamedAndOtherDriversGoOn(t *testing.T) {
	const disk, file = "azure-disk-csi-driver-operator", "azure-file-csi-driver-operator"
	r, c, _ := startable(t, "Azure", storageOf("Managed"), &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "storage"}})
	r.SetLogLevel = func(operatorv1.LogLevel) {}
	delete(r.Images, "AZURE_DISK_DRIVER_IMAGE")
	reporterOf(t, r)
	// It is not tried again for that, only for what the cache does not show yet.
	if result, err := r.Reconcile(t.Context(), request()); err != nil || result.RequeueAfter != apply.StaleAfter {
		t.Errorf("%+v, error %v", result, err)
	}
	deployment := func(name string) string { return "apply Deployment " + pdNamespace + "/" + name }
	if slices.Contains(c.Writes, deployment(disk)) || !slices.Contains(c.Writes, deployment(file)) {
		t.Errorf("writes %v", c.Writes)
	}
	const text = "Azure Disk (disk.csi.azure.com) is not started, because environment variables AZURE_DISK_DRIVER_IMAGE of the cluster-storage-operator are empty: set each to an image in its Deployment"
	made := canned.Written[operatorv1.Storage](t, c, storageStatus)
	for kind, want := range map[string]string{"AzureDisk": "True SyncError: " + text, "AzureFile": "False AsExpected: "} {
		found := status.Find(made.Status.Conditions, kind+"CSIDriverOperatorStaticControllerDegraded")
		if diff := cmp.Diff(want, string(found.Status)+" "+found.Reason+": "+found.Message); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
	const sum = "Degraded is True, AzureDiskCSIDriverOperatorStaticController_SyncError: AzureDiskCSIDriverOperatorStaticController: " + text
	if diff := cmp.Diff(sum, sumOf(t, c, "Degraded")); diff != "" {
		t.Errorf("ClusterOperator (-want +got):\n%s", diff)
	}
}
