package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// report is a row of testdata/reports: PVC "new" of class "new", and if wanted pod "user" with PV "pv-new".
type report struct {
	Report string   `json:"report"`
	Kind   string   `json:"kind"`
	Driver string   `json:"driver"`
	Cause  string   `json:"cause"`
	Words  []string `json:"words"`

	Parameters map[string]string                   `json:"parameters"`
	Modes      []corev1.PersistentVolumeAccessMode `json:"modes"`
	VolumeMode corev1.PersistentVolumeMode         `json:"volumeMode"`
	Size       string                              `json:"size"`
	Handle     string                              `json:"handle"`
	Reason     string                              `json:"reason"`
	Message    string                              `json:"message"`
	Affinity   *struct {
		Key    string   `json:"key"`
		Values []string `json:"values"`
	} `json:"affinity"`
	// Pod asks about a pod that can't start, Inline with a volume of its own instead of a PVC; Unscheduled: it has no node.
	Pod         bool `json:"pod"`
	Inline      bool `json:"inline"`
	Unscheduled bool `json:"unscheduled"`
	// Bound: the PVC has its volume. Grow: it asks for more than the volume has.
	Bound          bool `json:"bound"`
	Grow           bool `json:"grow"`
	ControllerDown bool `json:"controllerDown"`
	Unregistered   bool `json:"unregistered"`
}

// answer is what doctor made of a report.
type answer string

const (
	hit     answer = "named"
	unknown answer = "unknown"
	// wrong: doctor names something else, alone or beside the cause.
	wrong answer = "wrong"
	// silent: doctor finds nothing, or leaves out the message.
	silent answer = "silent"
)

func TestReportsGetTheirCause(t *testing.T) {
	data, err := os.ReadFile("testdata/reports/reports.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var reports []report
	if err := yaml.UnmarshalStrict(data, &reports); err != nil {
		t.Fatal(err)
	}
	if len(reports) != 40 {
		t.Errorf("%d reports", len(reports))
	}
	score := map[answer]int{}
	for _, one := range reports {
		got, said := one.ask(t)
		score[got]++
		t.Logf("%-7s %s: %s: %q", got, one.Report, one.Cause, said)
	}
	t.Logf("%v", score)
	// The present score. Named may only rise, the others only fall.
	if want := (map[answer]int{hit: 36, unknown: 4}); !equal(score, want) {
		t.Errorf("the score is %v, want %v", score, want)
	}
}

func equal(a, b map[answer]int) bool {
	return !slices.ContainsFunc([]answer{hit, unknown, wrong, silent}, func(one answer) bool { return a[one] != b[one] })
}

// ask asks doctor about the situation.
func (r report) ask(t *testing.T) (answer, []string) {
	t.Helper()
	s := open(t)
	r.build(s)
	args := []string{"pvc", "new"}
	if r.Pod {
		args = []string{"pod", "user"}
	}
	subject, err := subjectOf(args)
	if err != nil {
		t.Fatal(err)
	}
	subject.namespace = project
	f := &facts{subject: subject, now: time.Unix(2000, 0)}
	(&reader{Cluster: plugin.NewCluster(s.Cluster, nil, project), facts: f, logs: s.logs}).read(t.Context())
	return r.judge(diagnose(f))
}

// judge says what the findings are worth.
func (r report) judge(all []Finding) (got answer, causes []string) {
	got = silent
	for _, one := range all {
		if one.Severity == Info {
			continue
		}
		causes = append(causes, one.Cause)
		lower := strings.ToLower(one.Cause)
		hits := len(r.Words) > 0 && !slices.ContainsFunc(r.Words, func(word string) bool { return !strings.Contains(lower, word) })
		switch {
		case !hits && !one.symptom:
			got = wrong
		case got == wrong:
		case hits:
			got = hit
		case got == silent && (r.Message == "" || one.Said != ""):
			got = unknown
		}
	}
	return got, causes
}

func (r report) build(s *scene) {
	index := slices.IndexFunc(all.Drivers(), func(one driver.Driver) bool { return one.Name == r.Driver })
	if index < 0 {
		s.t.Fatalf("%s: no driver %s", r.Report, r.Driver)
	}
	d := all.Drivers()[index]
	if r.Driver != efsName {
		cr := &operatorv1.ClusterCSIDriver{ObjectMeta: named("", r.Driver)}
		cr.Status.Conditions = []operatorv1.OperatorCondition{
			condition("Available", "True", "AsExpected", ""), condition("Degraded", "False", "AsExpected", ""),
		}
		s.add(cr, &storagev1.CSIDriver{ObjectMeta: named("", r.Driver)}, deployment(home, d.Operator, 1))
		available := int32(2)
		if r.ControllerDown {
			available = 0
			s.add(sickPod(d.Deployment+"-1", d.Deployment))
		}
		s.add(deployment(d.OperandNamespace(home), d.Deployment, available), &appsv1.DaemonSet{
			ObjectMeta: named(d.OperandNamespace(home), d.DaemonSet),
			Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": d.DaemonSet}}},
			Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberReady: 3, NumberAvailable: 3},
		})
		for _, name := range []string{"a", "b", "c"} {
			s.add(pod(d.OperandNamespace(home), d.DaemonSet+"-"+name, name, d.DaemonSet, true))
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		change(s, name, func(one *storagev1.CSINode) {
			if !r.Unregistered {
				one.Spec.Drivers = append(one.Spec.Drivers, storagev1.CSINodeDriver{Name: r.Driver, NodeID: name})
			}
		})
	}
	s.add(&storagev1.StorageClass{ObjectMeta: named("", "new"), Provisioner: r.Driver, Parameters: r.Parameters})
	r.buildClaim(s)
	kind, name := "PersistentVolumeClaim", "new"
	if r.Pod {
		kind, name = "Pod", "user"
		node := "a"
		if r.Unscheduled {
			node = ""
		}
		made := user(name, node, "new", false)
		if r.Inline {
			made.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: r.Driver}}
		}
		s.add(made)
	}
	if r.Reason != "" {
		s.add(eventOn(kind, name, r.Reason, r.Message))
	}
}

func (r report) buildClaim(s *scene) {
	size := resource.MustParse("10Gi")
	if r.Size != "" {
		size = resource.MustParse(r.Size)
	}
	volume := ""
	if r.Pod || r.Bound {
		volume = "pv-new"
	}
	pvc := claimOf("new", "new", volume)
	pvc.Spec.AccessModes, pvc.Spec.Resources.Requests = r.Modes, corev1.ResourceList{corev1.ResourceStorage: size}
	if r.VolumeMode != "" {
		pvc.Spec.VolumeMode = &r.VolumeMode
	}
	s.add(pvc)
	if volume == "" {
		return
	}
	pv := volumeOf(volume, "new")
	pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle = r.Driver, "volume-1"
	if r.Handle != "" {
		pv.Spec.CSI.VolumeHandle = r.Handle
	}
	if r.Grow {
		pvc.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	}
	if r.Affinity != nil {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: r.Affinity.Key, Operator: corev1.NodeSelectorOpIn, Values: r.Affinity.Values}},
		}}}}
	}
	s.add(pv)
}
