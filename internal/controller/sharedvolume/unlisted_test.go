package sharedvolume

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

func TestANewInstallationDeniesAndNobodyIsCutOff(t *testing.T) {
	policy := func(value string) *admissionv1.ValidatingAdmissionPolicy {
		made := &admissionv1.ValidatingAdmissionPolicy{}
		if value != "" {
			made.Annotations = map[string]string{DefaultAnnotation: value}
		}
		return made
	}
	for name, tc := range map[string]struct {
		precedent precedent
		want      string
	}{
		"a new installation":                              {precedent{}, "Deny"},
		"a new installation, remembered":                  {precedent{policy: policy("Deny"), bound: true}, "Deny"},
		"the community's operator runs":                   {precedent{community: true}, "Allow"},
		"volumes are bound, and there was never a policy": {precedent{bound: true}, "Allow"},
		"an update of this operator":                      {precedent{policy: policy("")}, "Allow"},
		"an update where the administrator had closed":    {precedent{policy: policy(""), closed: true, bound: true}, "Deny"},
		"adopted, remembered":                             {precedent{policy: policy("Allow")}, "Allow"},
		"adopted, and closed by the administrator":        {precedent{policy: policy("Allow"), closed: true}, "Allow"},
		"the policy was deleted, the other one was not":   {precedent{closed: true, bound: true, community: true}, "Deny"},
		"a value that nobody knows":                       {precedent{policy: policy("maybe"), bound: true}, "Deny"},
	} {
		if got := tc.precedent.byDefault(); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	for _, tc := range []struct {
		set, byDefault string
		closed, known  bool
	}{
		{"", "Allow", false, true}, {"", "Deny", true, true}, {"Allow", "Deny", false, true}, {"Deny", "Allow", true, true}, {"allow", "Allow", true, false},
		{"x", "Allow", true, false},
	} {
		annotations := map[string]string{}
		if tc.set != "" {
			annotations[UnlistedAnnotation] = tc.set
		}
		if closed, known := efs.IsClosed(annotations, tc.byDefault); closed != tc.closed || known != tc.known {
			t.Errorf("%q with default %s: closed %v, known %v", tc.set, tc.byDefault, closed, known)
		}
	}
}

func TestAConditionSaysWhatIsOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		exposure exposure
		reason   string
	}{
		"closed":                               {exposure{closed: true, policies: true, lists: 3}, ""},
		"open as before":                       {exposure{policies: true}, "InUseBefore"},
		"open, as the administrator wants":     {exposure{policies: true, said: true}, ""},
		"open beside lists":                    {exposure{policies: true, lists: 2}, "ListsCanBeAvoided"},
		"open beside lists, as is said":        {exposure{policies: true, said: true, lists: 2}, "ListsCanBeAvoided"},
		"a cluster without policies":           {exposure{}, "NoAdmissionPolicies"},
		"a cluster without policies, as said":  {exposure{said: true}, ""},
		"a cluster without policies, has list": {exposure{lists: 1}, "ListsCanBeAvoided"},
	} {
		got := tc.exposure.condition("AWSEFS")
		switch {
		case got == nil && tc.reason != "", got != nil && got.Reason != tc.reason:
			t.Errorf("%s: %+v, want reason %q", name, got, tc.reason)
		case got != nil && (got.Type != "AWSEFSSharedVolumesOpen" || got.Status != "True" || !strings.Contains(got.Message, "unlisted-namespaces=Deny")):
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestACRDThatIsOlderThanTheOperatorIsNoticed(t *testing.T) {
	if got := outdated("AWSEFS", []string{"conditions", "observedGeneration", "volumeName"}); got == nil || !strings.Contains(got.Message, "conditions, observedGeneration, volumeName") {
		t.Errorf("told is %+v", got)
	}
	if got := outdated("AWSEFS", nil); got != nil {
		t.Errorf("told without need: %+v", got)
	}
}

// Whoever writes a SharedVolume must not decide how much memory it takes.
func TestTheCacheKeepsNothingOfASharedVolumeThatIsNotUsed(t *testing.T) {
	sv := owner("ns", "sv1")
	long := strings.Repeat("x", 200<<10)
	sv.Annotations = map[string]string{"a": long, ZoneAffinityAnnotation: "true"}
	sv.Labels = map[string]string{"a": "b"}
	sv.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: long}}
	sv.OwnerReferences = []metav1.OwnerReference{{Name: long}}
	if _, err := Strip(sv); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(sv)
	if err != nil || len(text) > 1024 {
		t.Errorf("%d bytes are kept (%v)", len(text), err)
	}
	if sv.Annotations[ZoneAffinityAnnotation] != "true" || sv.Spec.FileSystemID == "" {
		t.Errorf("too little is kept: %v %v", sv.Annotations, sv.Spec)
	}
	sv.Annotations[ZoneAffinityAnnotation] = long
	if _, err := Strip(sv); err != nil || len(sv.Annotations) > 0 {
		t.Errorf("a value that means nothing is kept (%v)", err)
	}
}
