package migration

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

func TestTheCopyThatWasInstalledFirstWorks(t *testing.T) {
	copyOf := func(namespace string, second int64, mark string) appsv1.Deployment {
		deployment := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "operator", CreationTimestamp: metav1.NewTime(time.Unix(second, 0)),
		}}
		if mark != "" {
			deployment.Spec.Template.Annotations = map[string]string{YieldsAnnotation: mark}
		}
		return deployment
	}
	own := &Predecessor{Predecessor: driver.Predecessor{Operator: "operator"}, Namespace: "own", Driver: driver.Driver{Operator: "operator"}}
	for name, tc := range map[string]struct {
		other     appsv1.Deployment
		unknown   bool
		isYounger bool
	}{
		"younger":                           {other: copyOf("other", 11, "true"), isYounger: true},
		"older":                             {other: copyOf("other", 9, "true")},
		"as old, in a later namespace":      {other: copyOf("zoo", 10, "true"), isYounger: true},
		"as old, in an earlier namespace":   {other: copyOf("a", 10, "true")},
		"younger, and yields to nobody":     {other: copyOf("other", 11, "")},
		"younger, and says that it is not":  {other: copyOf("other", 11, "false")},
		"younger, beside one that is local": {other: copyOf("other", 11, "true"), unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			all := []appsv1.Deployment{tc.other, copyOf("own", 10, "true")}
			if tc.unknown {
				all = all[:1]
			}
			if is := own.isYounger(all, &tc.other); is != tc.isYounger {
				t.Errorf("it is younger: %t", is)
			}
			stripped, err := stripDeployment(tc.other.DeepCopy())
			if kept, ok := stripped.(*appsv1.Deployment); err != nil || !ok || yields(kept) != yields(&tc.other) {
				t.Errorf("the cache has %+v (%v)", stripped, err)
			}
			self := copyOf("own", 10, "true")
			if own.isYounger(all, &self) {
				t.Error("it is younger than itself")
			}
		})
	}
}
