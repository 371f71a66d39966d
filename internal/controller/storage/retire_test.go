package storage

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/catalogue"
	"github.com/csi-operators/csi-operators/internal/openshift"
)

func TestSettingsOfAnOldOperatorAreKept(t *testing.T) {
	normal := map[string]any{"managementState": "Managed", "logLevel": "Normal", "operatorLogLevel": "Normal"}
	for name, tc := range map[string]struct {
		old  map[string]any
		want map[string]any
	}{
		"no configuration": {want: normal},
		"an empty one":     {old: map[string]any{}, want: normal},
		"log levels": {
			old:  map[string]any{"managementState": "Managed", "logLevel": "Debug", "operatorLogLevel": "TraceAll"},
			want: map[string]any{"managementState": "Managed", "logLevel": "Debug", "operatorLogLevel": "TraceAll"},
		},
		"log levels that nobody knows": {old: map[string]any{"logLevel": "Loud", "operatorLogLevel": 7}, want: normal},
		"an operator that keeps its hands off": {
			old:  map[string]any{"managementState": "Unmanaged"},
			want: map[string]any{"managementState": "Unmanaged", "logLevel": "Normal", "operatorLogLevel": "Normal"},
		},
		"a driver that was to be removed": {old: map[string]any{"managementState": "Removed"}, want: normal},
		"a state of the past":             {old: map[string]any{"managementState": "Force"}, want: normal},
		"fields of another time":          {old: map[string]any{"observedConfig": map[string]any{"a": "b"}}, want: normal},
	} {
		t.Run(name, func(t *testing.T) {
			var old *unstructured.Unstructured
			if tc.old != nil {
				old = &unstructured.Unstructured{Object: map[string]any{"spec": tc.old}}
			}
			if diff := cmp.Diff(tc.want, settingsOf(old)); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

// formerEBS is the entry of EBS, whose operator OLM installed once.
func formerEBS(t *testing.T) catalogue.Entry {
	t.Helper()
	for _, entry := range catalogue.All() {
		if entry.Name == "ebs.csi.aws.com" && entry.Predecessor != nil {
			return entry
		}
	}
	t.Fatal("EBS has no predecessor")
	return catalogue.Entry{}
}

// partial is an object of which a list of metadata shows everything.
func partial(apiVersion, kind, namespace, name string, change func(*metav1.PartialObjectMetadata)) client.Object {
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}}
	object.Namespace, object.Name = namespace, name
	if change != nil {
		change(object)
	}
	return object
}

func version(name string) client.Object {
	return partial("operators.coreos.com/v1alpha1", "ClusterServiceVersion", "team", name, nil)
}

// deploymentOf has the name of the old operator, and says that it is of a ClusterServiceVersion: by its label, and as its owner.
func deploymentOf(entry catalogue.Entry, owner string, owned bool) client.Object {
	return partial("apps/v1", "Deployment", "team", entry.Predecessor.Deployment, func(object *metav1.PartialObjectMetadata) {
		object.Labels = map[string]string{"olm.owner": owner}
		if owned {
			object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "operators.coreos.com/v1alpha1", Kind: "ClusterServiceVersion", Name: owner, UID: "1"}}
		}
	})
}

func podOf(entry catalogue.Entry) client.Object {
	yes := true
	return partial("v1", "Pod", "team", "old", func(object *metav1.PartialObjectMetadata) {
		object.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: entry.Predecessor.Deployment + "-abc", Controller: &yes,
		}}
	})
}

func subscription(of string) client.Object {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"name": of}}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "Subscription"})
	object.SetNamespace("team")
	object.SetName("any")
	return object
}

func configurationOf(entry catalogue.Entry) client.Object {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(entry.Predecessor.Configuration)
	object.SetName(openshift.Singleton)
	return object
}

// Whoever may write in one namespace makes objects there that look like those of the old operator. The cluster-storage-operator may delete
// in all of them.
func TestNobodyIsDeletedOnATenantsWord(t *testing.T) {
	entry := formerEBS(t)
	configuration, old := configurationOf(entry), entry.Predecessor.Package+".4.5.0-202012"
	for name, tc := range map[string]struct {
		objects []client.Object
		deleted []string
		waits   string
		done    bool
	}{
		"a Deployment that names another operator, and no configuration": {
			objects: []client.Object{version("important.v1"), deploymentOf(entry, "important.v1", true)}, done: true,
		},
		"the package, but no configuration": {
			objects: []client.Object{subscription(entry.Predecessor.Package), version(old), deploymentOf(entry, old, true), podOf(entry)}, done: true,
		},
		"a Deployment that names another operator by its label": {
			objects: []client.Object{configuration, version("important.v1"), deploymentOf(entry, "important.v1", false)},
			deleted: []string{"AWSEBSDriver cluster"}, waits: "AWSEBSDriver cluster",
		},
		"a Deployment that another operator owns": {
			objects: []client.Object{configuration, version("important.v1"), deploymentOf(entry, "important.v1", true)},
			deleted: []string{"AWSEBSDriver cluster"}, waits: "AWSEBSDriver cluster",
		},
		"a Deployment that nobody owns": {
			objects: []client.Object{configuration, deploymentOf(entry, old, false)},
			deleted: []string{"AWSEBSDriver cluster"}, waits: "AWSEBSDriver cluster",
		},
		"the Subscription comes first": {
			objects: []client.Object{configuration, subscription(entry.Predecessor.Package), subscription("other"), version(old)},
			deleted: []string{"Subscription any"}, waits: "Subscription team/any",
		},
		"then the version": {
			objects: []client.Object{configuration, version(old), version("important.v1"), deploymentOf(entry, old, true)},
			deleted: []string{"ClusterServiceVersion " + old}, waits: "ClusterServiceVersion team/" + old,
		},
		"its Deployment is waited for": {
			objects: []client.Object{configuration, deploymentOf(entry, old, true), podOf(entry)}, waits: "oc delete deployment",
		},
		"its pods are waited for": {objects: []client.Object{configuration, podOf(entry)}, waits: "oc delete pod"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, append(tc.objects, &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: entry.Name}})...)
			found, err := reconcilerOf(c, entry).retireWhenDue(t.Context(), entry)
			if err != nil || found.done != tc.done || !strings.Contains(found.message, tc.waits) || (found.message == "") != tc.done {
				t.Errorf("it finds %+v, error %v", found, err)
			}
			if diff := cmp.Diff(tc.deleted, c.deleted, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACleanClusterIsAskedOnceForWhatOLMInstalled(t *testing.T) {
	entry := formerEBS(t)
	c := newCluster(t)
	found, err := reconcilerOf(c, entry).retireWhenDue(t.Context(), entry)
	if err != nil || !found.done {
		t.Errorf("it finds %+v, error %v", found, err)
	}
	olm := slices.DeleteFunc(c.reads, func(read string) bool {
		// The others look whether the driver that it ran is left.
		return slices.Contains([]string{"Deployment", "DaemonSet", "PodList openshift-aws-ebs-csi-driver"}, read)
	})
	if diff := cmp.Diff([]string{"AWSEBSDriver"}, olm); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

// Pods of all namespaces are read once, however long the last ones take to end and whatever else happens meanwhile.
func TestAReplacementThatWaitsAsksLessAndLess(t *testing.T) {
	entry := formerEBS(t)
	c := newCluster(
		t, configurationOf(entry), podOf(entry), partial("v1", "Pod", "shop", "web", nil),
		&operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: entry.Name}},
	)
	r, now := reconcilerOf(c, entry), at
	r.Now = func() time.Time { return now }
	var pauses []time.Duration
	for range 10 {
		found, err := r.retireWhenDue(t.Context(), entry)
		if err != nil || found.done {
			t.Fatalf("it finds %+v, error %v", found, err)
		}
		pauses = append(pauses, found.again)
		// Another object changes.
		now, c.reads = now.Add(found.again/2), nil
		if again, err := r.retireWhenDue(t.Context(), entry); err != nil || again.again != found.again/2 || again.message != found.message || len(c.reads) > 0 {
			t.Errorf("between two looks it finds %+v, error %v, and reads %v", again, err, c.reads)
		}
		now = now.Add(found.again / 2)
		want := []string{"AWSEBSDriver", "SubscriptionList ", "ClusterServiceVersionList ", "DeploymentList ", "PodList team"}
		if _, err := r.retire(t.Context(), entry, r.retirings[entry.Name]); err != nil || !slices.Equal(slices.DeleteFunc(c.reads, isDriver), want) {
			t.Errorf("a later look reads %q, error %v, want %q", c.reads, err, want)
		}
	}
	seconds := []time.Duration{1, 2, 4, 8, 16, 32, 64, 120, 120, 120}
	for i := range seconds {
		seconds[i] *= time.Second
	}
	if diff := cmp.Diff(seconds, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	// Whatever changes is followed at once.
	c.objects = slices.DeleteFunc(c.objects, func(object client.Object) bool { return object.GetName() == "old" })
	if found, err := r.retireWhenDue(t.Context(), entry); err != nil || found.again != time.Second {
		t.Errorf("when the pod has gone, it finds %+v, error %v", found, err)
	}
}

func isDriver(read string) bool { return read == "ClusterCSIDriver" }
