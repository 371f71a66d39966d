package olm

import (
	"context"
	"fmt"
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

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// at is when all of these tests happen.
var at = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func newCluster(t *testing.T, objects ...client.Object) *canned.Cluster {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return canned.New(scheme, objects...)
}

// operators are those of a cluster. They note the ClusterCSIDrivers that they make.
func operators(c *canned.Cluster) *Operators {
	return &Operators{
		Writer: c, Live: c, Now: func() time.Time { return at },
		Create: func(_ context.Context, name string, spec map[string]any) error {
			c.Writes = append(c.Writes, fmt.Sprintf("create ClusterCSIDriver %s %v", name, spec))
			return nil
		},
	}
}

func driver(entry catalogue.Entry) client.Object {
	return &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: entry.Name}}
}

// legacyEBS is the entry of EBS, whose operator OLM installed once.
func legacyEBS(t *testing.T) catalogue.Entry {
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

// deploymentOf has the name of the predecessor, and says that it is of a ClusterServiceVersion: by its label, and as its owner.
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

// Whoever may write in one namespace makes objects there that look like those of the predecessor. The cluster-storage-operator may delete
// in all of them.
func TestNobodyIsDeletedOnATenantsWord(t *testing.T) {
	entry := legacyEBS(t)
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
			deleted: []string{"delete AWSEBSDriver cluster"}, waits: "AWSEBSDriver cluster",
		},
		"a Deployment that another operator owns": {
			objects: []client.Object{configuration, version("important.v1"), deploymentOf(entry, "important.v1", true)},
			deleted: []string{"delete AWSEBSDriver cluster"}, waits: "AWSEBSDriver cluster",
		},
		"a Deployment that nobody owns": {
			objects: []client.Object{configuration, deploymentOf(entry, old, false)},
			deleted: []string{"delete AWSEBSDriver cluster"}, waits: "AWSEBSDriver cluster",
		},
		"the Subscription comes first": {
			objects: []client.Object{configuration, subscription(entry.Predecessor.Package), subscription("other"), version(old)},
			deleted: []string{"delete Subscription team/any"}, waits: "Subscription team/any",
		},
		"then the version": {
			objects: []client.Object{configuration, version(old), version("important.v1"), deploymentOf(entry, old, true)},
			deleted: []string{"delete ClusterServiceVersion team/" + old}, waits: "ClusterServiceVersion team/" + old,
		},
		"its Deployment is waited for": {
			objects: []client.Object{configuration, deploymentOf(entry, old, true), podOf(entry)}, waits: "oc delete deployment",
		},
		"its pods are waited for": {objects: []client.Object{configuration, podOf(entry)}, waits: "oc delete pod"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, append(tc.objects, driver(entry))...)
			found, err := operators(c).Remove(t.Context(), entry)
			if err != nil || found.Done != tc.done || !strings.Contains(found.Message, tc.waits) || (found.Message == "") != tc.done {
				t.Errorf("it finds %+v, error %v", found, err)
			}
			if diff := cmp.Diff(tc.deleted, c.Writes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACleanClusterIsAskedOnceForWhatOLMInstalled(t *testing.T) {
	entry := legacyEBS(t)
	c := newCluster(t)
	o := operators(c)
	for range 3 {
		found, err := o.Remove(t.Context(), entry)
		if err != nil || !found.Done {
			t.Errorf("it finds %+v, error %v", found, err)
		}
	}
	olm := slices.DeleteFunc(c.Reads, func(read string) bool {
		// The others look whether the driver that it ran is left.
		return strings.Contains(read, " openshift-aws-ebs-csi-driver")
	})
	if diff := cmp.Diff([]string{"get AWSEBSDriver cluster"}, olm); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

// Pods of all namespaces are read once, however long the last ones take to end and whatever else happens meanwhile.
func TestAReplacementThatWaitsAsksLessAndLess(t *testing.T) {
	entry := legacyEBS(t)
	c := newCluster(t, configurationOf(entry), podOf(entry), partial("v1", "Pod", "shop", "web", nil), driver(entry))
	o, now := operators(c), at
	o.Now = func() time.Time { return now }
	var pauses []time.Duration
	for range 10 {
		found, err := o.Remove(t.Context(), entry)
		if err != nil || found.Done {
			t.Fatalf("it finds %+v, error %v", found, err)
		}
		pauses = append(pauses, found.Again)
		// Another object changes.
		now, c.Reads = now.Add(found.Again/2), nil
		if again, err := o.Remove(t.Context(), entry); err != nil || again.Again != found.Again/2 || again.Message != found.Message || len(c.Reads) > 0 {
			t.Errorf("between two looks it finds %+v, error %v, and reads %v", again, err, c.Reads)
		}
		now = now.Add(found.Again / 2)
		want := []string{"get AWSEBSDriver cluster", "list Subscription", "list ClusterServiceVersion", "list Deployment", "list Pod team"}
		if _, err := o.step(t.Context(), entry, o.removals[entry.Name]); err != nil || !slices.Equal(slices.DeleteFunc(c.Reads, isDriver), want) {
			t.Errorf("a later look reads %q, error %v, want %q", c.Reads, err, want)
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
	c.Objects = slices.DeleteFunc(c.Objects, func(object client.Object) bool { return object.GetName() == "old" })
	if found, err := o.Remove(t.Context(), entry); err != nil || found.Again != time.Second {
		t.Errorf("when the pod has gone, it finds %+v, error %v", found, err)
	}
}

func isDriver(read string) bool { return strings.HasPrefix(read, "get ClusterCSIDriver ") }
