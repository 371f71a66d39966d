package pendingpvc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const diskName = "disk.example.com"

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// scene has PVCs of a driver on a cluster, and a clock.
type scene struct {
	PVCs
	cluster *canned.Cluster
	now     time.Time
}

// newScene has a driver that keeps Secrets for classes with the parameter keep, and needs rights for those with the parameter rights.
func newScene(objects ...client.Object) *scene {
	s := &scene{cluster: canned.New(scheme.Scheme, objects...), now: began}
	d := driver.Driver{Name: diskName, Prefix: "disk"}
	d.KeptSecrets = &driver.KeptSecrets{Advice: "Bind it.", Namespace: func(parameters map[string]string) (string, bool) {
		return parameters["in"], parameters["keep"] != ""
	}}
	d.LongWait = func(parameters map[string]string) string { return parameters["rights"] }
	s.PVCs = PVCs{Client: s.cluster, Live: s.cluster, Driver: d, Namespace: "drivers", Now: func() time.Time { return s.now }}
	return s
}

func classOf(name, provisioner string, parameters ...string) *storagev1.StorageClass {
	found := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, Parameters: map[string]string{}}
	for i := 0; i < len(parameters); i += 2 {
		found.Parameters[parameters[i]] = parameters[i+1]
	}
	return found
}

func pvcOf(namespace, name, class string, phase corev1.PersistentVolumeClaimPhase, provisioner string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Annotations: map[string]string{provisionerAnnotation: provisioner}, CreationTimestamp: metav1.NewTime(began),
		},
		Spec:   corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
		Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

// says asks, and checks that there is no error.
func (s *scene) says(t *testing.T) string {
	t.Helper()
	message, again, err := s.Message(t.Context())
	if err != nil || (message != "" && (again <= 0 || again > 5*time.Minute)) {
		t.Fatalf("%q, again after %s, %v", message, again, err)
	}
	return message
}

func TestPVCsThatWaitForABindingAreNamed(t *testing.T) {
	keep := classOf("keep", diskName, "keep", "yes")
	waits := pvcOf("shop", "data", "keep", corev1.ClaimPending, diskName)
	copied := pvcOf("shop", "copy", "keep", corev1.ClaimPending, diskName)
	copied.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}
	const in = "PVCs are pending because driver disk.example.com may not create Secrets in namespace "
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
		// asks are the namespaces in which the driver's right is asked for.
		asks int
	}{
		"no class keeps any":           {[]client.Object{classOf("plain", diskName), waits}, "", 0},
		"the class is of another":      {[]client.Object{classOf("keep", "other.example.com", "keep", "yes"), waits}, "", 0},
		"one waits":                    {[]client.Object{keep, waits}, in + "shop. 1 pending: shop/data. Bind it.", 1},
		"one is a copy":                {[]client.Object{keep, copied}, "", 0},
		"one is bound":                 {[]client.Object{keep, pvcOf("shop", "data", "keep", corev1.ClaimBound, diskName)}, "", 0},
		"one is not to be provisioned": {[]client.Object{keep, pvcOf("shop", "data", "keep", corev1.ClaimPending, "")}, "", 0},
		"one has another class":        {[]client.Object{keep, pvcOf("shop", "data", "plain", corev1.ClaimPending, diskName)}, "", 0},
		"two in one namespace": {
			[]client.Object{keep, waits, pvcOf("shop", "more", "keep", corev1.ClaimPending, diskName)}, in + "shop. 2 pending: shop/data, shop/more. Bind it.", 1,
		},
		"two in two": {
			[]client.Object{keep, waits, pvcOf("bank", "more", "keep", corev1.ClaimPending, diskName)},
			in + "bank, shop. 2 pending: bank/more, shop/data. Bind it.", 2,
		},
		"all in one of the class": {
			[]client.Object{classOf("keep", diskName, "keep", "yes", "in", "keys"), waits, pvcOf("bank", "more", "keep", corev1.ClaimPending, diskName)},
			in + "keys. 2 pending: bank/more, shop/data. Bind it.", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(tc.objects...)
			if got := s.says(t); got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
			if len(s.cluster.Writes) != tc.asks {
				t.Errorf("asked: %v", s.cluster.Writes)
			}
		})
	}
}

// Kubernetes gives a PVC of an in-tree class to the driver that replaces the plugin.
func TestPVCsOfAnInTreeClassWaitForTheDriver(t *testing.T) {
	s := newScene(classOf("old", "kubernetes.io/azure-file", "keep", "yes"), pvcOf("shop", "data", "old", corev1.ClaimPending, "file.csi.azure.com"))
	s.Driver.Name = "file.csi.azure.com"
	if got, want := s.says(t), "1 pending: shop/data. Bind it."; !strings.Contains(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
}

func TestPVCsThatWaitForRightsAreNamedAfterAWhile(t *testing.T) {
	s := newScene(
		classOf("private", diskName, "rights", "Give it rights."), pvcOf("shop", "data", "private", corev1.ClaimPending, diskName),
		pvcOf("shop", "bound", "private", corev1.ClaimBound, diskName),
	)
	s.now = began.Add(longWait - time.Second)
	if got := s.says(t); got != "" {
		t.Errorf("too early: %s", got)
	}
	s.now = began.Add(longWait + time.Minute)
	if got, want := s.says(t), "PVCs of driver disk.example.com have been pending for more than 5m0s. 1 pending: shop/data. Give it rights."; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if len(s.cluster.Writes) > 0 {
		t.Errorf("asked: %v", s.cluster.Writes)
	}
}

// Tenants decide how many namespaces there are.
func TestALookAsksForFewNamespaces(t *testing.T) {
	objects := []client.Object{classOf("keep", diskName, "keep", "yes")}
	for i := range 3 * mostReviews {
		objects = append(objects, pvcOf("shop"+strings.Repeat("x", i), "data", "keep", corev1.ClaimPending, diskName))
	}
	s := newScene(objects...)
	if got := s.says(t); !strings.Contains(got, ". 20 pending: ") || !strings.Contains(got, "; 40 more were not checked. ") ||
		len(s.cluster.Writes) != mostReviews {
		t.Errorf("asked %d times: %s", len(s.cluster.Writes), got)
	}
}

func TestPVCsThatWaitAreLookedForInMeasure(t *testing.T) {
	s := newScene(classOf("keep", diskName, "keep", "yes"), pvcOf("shop", "data", "keep", corev1.ClaimPending, diskName))
	for range 60 {
		s.now = s.now.Add(time.Minute)
		s.says(t)
		s.says(t)
	}
	if asked := len(s.cluster.Writes); asked < 10 || asked > 40 {
		t.Errorf("asked %d times in an hour", asked)
	}
	s = newScene()
	s.Driver = driver.Driver{Name: diskName}
	if got := s.says(t); got != "" || len(s.cluster.Reads) > 0 {
		t.Errorf("%q, a driver of whose PVCs none waits reads %v", got, s.cluster.Reads)
	}
}

// The trip does not depend on a look that is for a message only.
func TestALookThatFailsHoldsUpNothing(t *testing.T) {
	for _, request := range []string{"list PersistentVolumeClaim", "create SubjectAccessReview"} {
		s := newScene(classOf("keep", diskName, "keep", "yes"), pvcOf("shop", "data", "keep", corev1.ClaimPending, diskName))
		before := s.says(t)
		s.cluster.Refuse(errors.New("no route"), request)
		s.now = s.now.Add(time.Hour)
		if after := s.says(t); after == "" || after != before {
			t.Errorf("%s: it said %q, then %q", request, before, after)
		}
		if !slices.ContainsFunc(slices.Concat(s.cluster.Reads, s.cluster.Writes), func(asked string) bool { return strings.HasPrefix(asked, request) }) {
			t.Errorf("never asked: %s", request)
		}
	}
}

// What a class names is read by the controller. Which Secret a template means is up to the author of the PVC, and nobody is told to let it be read.
func TestSecretsThatClassesNameAndTheControllerMayNotReadAreNamed(t *testing.T) {
	const of, prefix = "StorageClasses of driver disk.example.com name Secrets that the driver's controller may not read. ", "csi.storage.k8s.io/"
	names := func(call, namespace, name string) []string {
		return []string{prefix + call + "secret-name", name, prefix + call + "secret-namespace", namespace}
	}
	for what, tc := range map[string]struct {
		class []string
		want  string
	}{
		"none":                         {nil, ""},
		"for provisioning":             {names("provisioner-", "keys", "a.b"), "1 unreadable: keys/a.b"},
		"for provisioning, once":       {[]string{"csiProvisionerSecretName", "a", "csiProvisionerSecretNamespace", "keys"}, "1 unreadable: keys/a"},
		"for all":                      {names("", "keys", "a"), "1 unreadable: keys/a"},
		"for growing and provisioning": {append(names("controller-expand-", "keys", "b"), names("provisioner-", "keys", "a")...), "2 unreadable: keys/a, keys/b"},
		"the same for both":            {append(names("controller-expand-", "keys", "a"), names("provisioner-", "keys", "a")...), "1 unreadable: keys/a"},
		"for nodes: the kubelet reads": {names("node-stage-", "keys", "a"), ""},
		"in the namespace of the PVC":  {names("provisioner-", "${pvc.namespace}", "a"), ""},
		"by the name of the PVC":       {names("provisioner-", "keys", "${pvc.name}"), ""},
		"by an annotation of the PVC":  {names("provisioner-", "keys", "${pvc.annotations['team.example.com/key']}"), ""},
		"the driver's own":             {names("provisioner-", "drivers", "own"), ""},
		"of the same name elsewhere":   {names("provisioner-", "keys", "own"), "1 unreadable: keys/own"},
		"a command":                    {names("provisioner-", "keys", "a; reboot"), ""},
	} {
		s := newScene(classOf("named", diskName, tc.class...), classOf("other", "other.example.com", names("provisioner-", "keys", "other")...))
		s.Driver.KeptSecrets, s.Driver.LongWait, s.Driver.NamedSecrets = nil, nil, &driver.NamedSecrets{Granted: "own", Advice: "Bind a Role."}
		got := s.says(t)
		if tc.want == "" && got == "" && len(s.cluster.Writes) == 0 {
			continue
		}
		if want := of + tc.want + ". New PVCs of these classes stay pending, and their volumes can't grow. Bind a Role."; got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
		if slices.Contains(s.cluster.Reads, "list PersistentVolumeClaim") {
			t.Errorf("%s: no PVC says more: %v", what, s.cluster.Reads)
		}
	}
}

// reader has a cluster that lets the controller read some Secrets.
type reader struct {
	*canned.Cluster
	mayRead func(name string) bool
}

func (r *reader) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if review, ok := object.(*authorizationv1.SubjectAccessReview); ok {
		review.Status.Allowed = r.mayRead(review.Spec.ResourceAttributes.Name)
	}
	return r.Cluster.Create(ctx, object, options...)
}

// newReader has a class for each of these Secrets.
func newReader(mayRead func(name string) bool, names ...string) *scene {
	s := newScene()
	for _, name := range names {
		s.name(name)
	}
	s.Driver.KeptSecrets, s.Driver.LongWait, s.Driver.NamedSecrets = nil, nil, &driver.NamedSecrets{Granted: "own", Advice: "Bind a Role."}
	s.Client = &reader{Cluster: s.cluster, mayRead: mayRead}
	return s
}

// name adds a class that names a Secret.
func (s *scene) name(secret string) {
	s.cluster.Objects = append(s.cluster.Objects, classOf("for-"+secret, diskName,
		"csi.storage.k8s.io/provisioner-secret-name", secret, "csi.storage.k8s.io/provisioner-secret-namespace", "keys"))
}

// hour looks for an hour, as often as it is asked to. It returns how many rights were asked for, and whether it is to look again.
func (s *scene) hour(t *testing.T) (asked int, again bool) {
	t.Helper()
	before, end := len(s.cluster.Writes), s.now.Add(time.Hour)
	for s.now.Before(end) {
		_, pause, err := s.Message(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again = pause != 0
		s.now = s.now.Add(cmp.Or(pause, time.Minute))
	}
	return len(s.cluster.Writes) - before, again
}

func TestSecretsThatTheControllerMayReadAreAskedForOnce(t *testing.T) {
	s := newReader(func(name string) bool { return name != "c" }, "a", "b")
	if asked, again := s.hour(t); asked != 2 || again {
		t.Errorf("of two Secrets that it may read, it asked %d times, again: %v", asked, again)
	}
	s.name("c")
	if asked, again := s.hour(t); asked < 10 || !again {
		t.Errorf("with one more that it may not read, it asked %d times, again: %v", asked, again)
	}
	if got := s.says(t); !strings.Contains(got, "1 unreadable: keys/c. ") {
		t.Errorf("it says %q", got)
	}
	s.cluster.Objects = s.cluster.Objects[:2]
	if asked, again := s.hour(t); asked != 2 || again || s.says(t) != "" {
		t.Errorf("without that one, it asked %d times, again: %v", asked, again)
	}
}

func TestSecretsThatALookLeavesOutAreCounted(t *testing.T) {
	var names []string
	for i := range mostReviews + 5 {
		names = append(names, fmt.Sprintf("key%02d", i))
	}
	s := newReader(func(string) bool { return false }, names...)
	if got := s.says(t); !strings.Contains(got, ". 20 unreadable: keys/key00, ") || !strings.Contains(got, "; 5 more were not checked. New PVCs") {
		t.Errorf("it says %q", got)
	}
	s = newReader(func(name string) bool { return name != names[mostReviews] }, names...)
	if got := s.says(t); got != "" {
		t.Errorf("of the first %d, it says %q", mostReviews, got)
	}
	s.now = s.now.Add(time.Hour)
	if got := s.says(t); !strings.Contains(got, "1 unreadable: keys/key20. New PVCs") || len(s.cluster.Writes) != len(names) {
		t.Errorf("after %d requests, it says %q", len(s.cluster.Writes), got)
	}
}
