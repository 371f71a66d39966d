package clustercsidriver

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// keeping is a driver that keeps Secrets for classes with the parameter keep.
func keeping() driver.Driver {
	d := disk()
	d.KeptSecrets = &driver.KeptSecrets{Advice: "Bind it.", Namespace: func(parameters map[string]string) (string, bool) {
		return parameters["in"], parameters["keep"] != ""
	}}
	return d
}

func classOf(name, provisioner string, parameters ...string) *storagev1.StorageClass {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, Parameters: map[string]string{}}
	for i := 0; i < len(parameters); i += 2 {
		class.Parameters[parameters[i]] = parameters[i+1]
	}
	return class
}

func pvcOf(namespace, name, class string, phase corev1.PersistentVolumeClaimPhase, provisioner string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{provisionerAnnotation: provisioner}},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

func TestPVCsThatWaitForABindingAreNamed(t *testing.T) {
	keep := classOf("keep", diskName, "keep", "yes")
	waits := pvcOf("shop", "data", "keep", corev1.ClaimPending, diskName)
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
		// asks are the namespaces in which the driver's right is asked for.
		asks int
	}{
		"no class keeps any":           {[]client.Object{classOf("plain", diskName), waits}, "", 0},
		"the class is of another":      {[]client.Object{classOf("keep", "other.example.com", "keep", "yes"), waits}, "", 0},
		"one waits":                    {[]client.Object{keep, waits}, "shop/data", 1},
		"one is bound":                 {[]client.Object{keep, pvcOf("shop", "data", "keep", corev1.ClaimBound, diskName)}, "", 0},
		"one is not to be provisioned": {[]client.Object{keep, pvcOf("shop", "data", "keep", corev1.ClaimPending, "")}, "", 0},
		"one has another class":        {[]client.Object{keep, pvcOf("shop", "data", "plain", corev1.ClaimPending, diskName)}, "", 0},
		"two in one namespace":         {[]client.Object{keep, waits, pvcOf("shop", "more", "keep", corev1.ClaimPending, diskName)}, "shop/data, shop/more", 1},
		"two in two":                   {[]client.Object{keep, waits, pvcOf("bank", "more", "keep", corev1.ClaimPending, diskName)}, "bank/more, shop/data", 2},
		"all in one of the class": {
			[]client.Object{classOf("keep", diskName, "keep", "yes", "in", "keys"), waits, pvcOf("bank", "more", "keep", corev1.ClaimPending, diskName)},
			"bank/more, shop/data", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTrip(t, keeping(), tc.objects...)
			var found seen
			if err := s.addUnbound(t.Context(), &found); err != nil {
				t.Fatal(err)
			}
			if tc.want == "" && found.unbound != "" || !strings.Contains(found.unbound, tc.want) || (tc.want != "" && !strings.HasSuffix(found.unbound, ". Bind it.")) {
				t.Errorf("it says %q, want %q", found.unbound, tc.want)
			}
			if len(s.cluster.Writes) != tc.asks {
				t.Errorf("asked: %v", s.cluster.Writes)
			}
		})
	}
}

// PVCs are not watched: they are listed the less often the longer nothing changes, and never without such a class.
func TestPVCsThatWaitAreLookedForInMeasure(t *testing.T) {
	s := newTrip(t, keeping(), classOf("keep", diskName, "keep", "yes"), pvcOf("shop", "data", "keep", corev1.ClaimPending, diskName))
	look := func() int {
		var found seen
		before := len(s.cluster.Writes)
		if err := s.addUnbound(t.Context(), &found); err != nil || found.unbound == "" || found.again <= 0 || found.again > 5*time.Minute {
			t.Fatalf("%q, again after %s, %v", found.unbound, found.again, err)
		}
		return len(s.cluster.Writes) - before
	}
	asked := 0
	for range 60 {
		s.now = s.now.Add(time.Minute)
		asked += look() + look()
	}
	if asked < 10 || asked > 40 {
		t.Errorf("asked %d times in an hour", asked)
	}
	s = newTrip(t, disk())
	if err := s.addUnbound(t.Context(), &seen{}); err != nil || len(s.cluster.Reads) > 0 {
		t.Errorf("%v, a driver that keeps none reads %v", err, s.cluster.Reads)
	}
}

// The trip does not depend on a look that is for a message only.
func TestALookForPVCsThatFailsHoldsUpNothing(t *testing.T) {
	for _, request := range []string{"list PersistentVolumeClaim", "create SubjectAccessReview"} {
		s := newTrip(t, keeping(), classOf("keep", diskName, "keep", "yes"), pvcOf("shop", "data", "keep", corev1.ClaimPending, diskName))
		var found seen
		if err := s.addUnbound(t.Context(), &found); err != nil || found.unbound == "" {
			t.Fatal(found.unbound, err)
		}
		s.cluster.Refuse(errors.New("no route"), request)
		s.now = s.now.Add(time.Hour)
		var again seen
		if err := s.addUnbound(t.Context(), &again); err != nil || again.unbound != found.unbound || again.again <= 0 {
			t.Errorf("%s: %q, again after %s, %v", request, again.unbound, again.again, err)
		}
	}
}
