package survey

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhyANodeHasNoNodePod(t *testing.T) {
	gpu := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}
	zoned := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}}},
	}}}
	for name, tc := range map[string]struct {
		pods  corev1.PodSpec
		taint corev1.Taint
		want  string
	}{
		"it has one":                  {corev1.PodSpec{}, corev1.Taint{}, ""},
		"a selector that matches":     {corev1.PodSpec{NodeSelector: map[string]string{"os": "linux"}}, corev1.Taint{}, ""},
		"a selector of another label": {corev1.PodSpec{NodeSelector: map[string]string{"os": "linux", "disk": "fast"}}, corev1.Taint{}, "node selector disk=fast"},
		"an affinity":                 {corev1.PodSpec{Affinity: zoned}, corev1.Taint{}, "node affinity"},
		"a taint":                     {corev1.PodSpec{}, gpu, "taint gpu:NoSchedule"},
		"a taint that it tolerates":   {corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}, gpu, ""},
		"a taint that only warns":     {corev1.PodSpec{}, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectPreferNoSchedule}, ""},
		"a cordoned node":             {corev1.PodSpec{}, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, ""},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"os": "linux"}}}
		if tc.taint.Key != "" {
			node.Spec.Taints = []corev1.Taint{tc.taint}
		}
		driver := Driver{Nodes: &appsv1.DaemonSet{}}
		driver.Nodes.Spec.Template.Spec = tc.pods
		if got := driver.Excludes(node); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if got := (Driver{}).Excludes(&corev1.Node{}); got != "" {
		t.Errorf("a driver without a DaemonSet: %q", got)
	}
}

func TestANodeAffinityMatchesAsInKubernetes(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{corev1.LabelTopologyZone: "us-east-1a"}}}
	key, name := corev1.LabelTopologyZone, "metadata.name"
	in := func(key string, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}
	}
	for text, tc := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  bool
	}{
		"its zone":             {[]corev1.NodeSelectorTerm{{MatchExpressions: in(key, "us-east-1a")}}, true},
		"another zone":         {[]corev1.NodeSelectorTerm{{MatchExpressions: in(key, "us-east-1b")}}, false},
		"its name":             {[]corev1.NodeSelectorTerm{{MatchFields: in(name, "a")}}, true},
		"another name":         {[]corev1.NodeSelectorTerm{{MatchFields: in(name, "b")}}, false},
		"its zone, not name":   {[]corev1.NodeSelectorTerm{{MatchExpressions: in(key, "us-east-1a"), MatchFields: in(name, "b")}}, false},
		"one of two":           {[]corev1.NodeSelectorTerm{{MatchFields: in(name, "b")}, {MatchFields: in(name, "a")}}, true},
		"an empty requirement": {[]corev1.NodeSelectorTerm{{}}, false},
		"none":                 {nil, false},
	} {
		if got := Selects(&corev1.NodeSelector{NodeSelectorTerms: tc.terms}, node); got != tc.want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestTaintsAndTolerations(t *testing.T) {
	taint := &corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}
	for _, tc := range []struct {
		one  corev1.Toleration
		want bool
	}{
		{corev1.Toleration{Operator: corev1.TolerationOpExists}, true},
		{corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists}, true},
		{corev1.Toleration{Key: "k", Value: "v"}, true},
		{corev1.Toleration{Key: "k", Value: "w"}, false},
		{corev1.Toleration{Key: "j", Operator: corev1.TolerationOpExists}, false},
		{corev1.Toleration{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}, false},
	} {
		if got := tolerates(tc.one, taint); got != tc.want {
			t.Errorf("%+v: %t", tc.one, got)
		}
	}
}
