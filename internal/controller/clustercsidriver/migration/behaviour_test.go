package migration

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

// recorded are volumes, and which versions of the real driver refused them: see volumes_test.go of awsefs.
func recorded(t *testing.T) (volumes []client.Object, refusedBy map[string][]string) {
	t.Helper()
	data, err := os.ReadFile("../../../driver/awsefs/testdata/published-volumes.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Name, Handle string
		Mode         corev1.PersistentVolumeAccessMode
		Attributes   map[string]string
		Options      []string
		Block        bool
		RefusedBy    []string
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	refusedBy = map[string][]string{}
	for _, one := range all {
		volume := &corev1.PersistentVolume{ObjectMeta: named("", one.Name)}
		volume.Spec.AccessModes, volume.Spec.MountOptions = []corev1.PersistentVolumeAccessMode{one.Mode}, one.Options
		volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{
			Driver: awsefs.Name, VolumeHandle: one.Handle, VolumeAttributes: one.Attributes,
		}
		if one.Block {
			volume.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
		}
		volumes, refusedBy[one.Name] = append(volumes, volume), one.RefusedBy
	}
	return volumes, refusedBy
}

// installed is a node pod of a predecessor with an image.
func installed(app, image string) *corev1.Pod {
	pod := nodePod("kube-system", "old", app, "node-1")
	pod.Spec.Containers = []corev1.Container{
		{Name: "efs-plugin", Image: image}, {Name: "liveness-probe", Image: "registry.example/livenessprobe:v2.0.0"},
	}
	return pod
}

// From each predecessor, the plan names the volumes that its driver mounted and that the new driver refuses, as the real drivers answered.
func TestAPlanNamesWhatTheNewDriverRefuses(t *testing.T) {
	volumes, refusedBy := recorded(t)
	for title, tc := range map[string]struct {
		pod      *corev1.Pod
		versions []string
		// as is the recorded version whose answers are those of the predecessor.
		as []string
	}{
		"the community's operator": {installed("efs-csi-node", "amazon/aws-efs-csi-driver:778131e"), []string{"1.0.0-0"}, []string{"1.0.0-0"}},
		"OpenShift's operator": {installed("aws-efs-csi-driver-node", "quay.io/openshift/ose-aws-efs-csi-driver@sha256:00"),
			[]string{"1.3.2", "2.1.11"}, []string{"1.7.7", "2.1.15"}},
		"the Helm chart": {installed("efs-csi-node", "public.ecr.aws/amazon/aws-efs-csi-driver:v2.3.1"), []string{"2.3.1"}, []string{"2.3.1"}},
		"the EKS add-on": {installed("efs-csi-node", "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efs-csi-driver:v2.1.15-eksbuild.1"),
			[]string{"2.1.15"}, []string{"2.1.15"}},
		"an old chart":                         {installed("efs-csi-node", "example.com/aws-efs-csi-driver:v1.7.7"), []string{"1.7.7"}, []string{"1.7.7"}},
		"an unknown driver":                    {installed("efs-csi-node", "example.com/aws-efs-csi-driver:latest"), nil, nil},
		"a date":                               {installed("efs-csi-node", "example.com/aws-efs-csi-driver:2024.01.15"), nil, nil},
		"a date of two digits":                 {installed("efs-csi-node", "example.com/aws-efs-csi-driver:2024.11.15"), nil, nil},
		"a mirror whose path names the driver": {installed("efs-csi-node", "example.com/aws-efs-csi-driver/driver:v9.9.9"), nil, nil},
	} {
		m := newMove(t, awsefs.Driver(), append(slices.Clone(volumes), tc.pod)...)
		m.Accepts = m.Driver.Accepts.At("3.4.1")
		plan := Plan{}
		if err := m.previewChanged(t.Context(), nil, &plan); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(plan.Predecessor, tc.versions) {
			t.Errorf("%s: versions %q, want %q", title, plan.Predecessor, tc.versions)
		}
		said := map[string]bool{}
		for _, change := range plan.Changes {
			if name, is := strings.CutPrefix(change.Object, "PersistentVolume "); is && change.Refused {
				said[name] = true
			}
		}
		for name, versions := range refusedBy {
			accepted := len(tc.as) == 0 || slices.ContainsFunc(tc.as, func(version string) bool { return !slices.Contains(versions, version) })
			if want := accepted && slices.Contains(versions, "3.4.1"); said[name] != want {
				t.Errorf("%s: the plan names volume %q is %v, want %v (refused by %q)", title, name, said[name], want, versions)
			}
		}
	}
}

func TestAPlanNamesClassesAndTheResolverOfTheCluster(t *testing.T) {
	class := &storagev1.StorageClass{ObjectMeta: named("", "tagged"), Provisioner: awsefs.Name, Parameters: map[string]string{
		"provisioningMode": "efs-ap", "enableTagging": "false",
	}}
	pod := installed("efs-csi-node", "amazon/aws-efs-csi-driver:778131e")
	pod.Spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	dns := &operatorv1.DNS{ObjectMeta: named("", "default")}
	dns.Spec.Servers = []operatorv1.Server{{Name: "efs", Zones: []string{"efs.us-east-1.amazonaws.com"}}}
	for name, tc := range map[string]struct {
		zones []string
		want  string
	}{
		"a zone of EFS": {[]string{"efs.us-east-1.amazonaws.com"}, "forwards efs.us-east-1.amazonaws.com"},
		"China":         {[]string{"EFS.cn-north-1.amazonaws.com.cn."}, "forwards EFS.cn-north-1.amazonaws.com.cn."},
		"all of China":  {[]string{"cn"}, "forwards cn"},
		"GovCloud":      {[]string{"us-gov-west-1.amazonaws.com"}, "forwards us-gov-west-1.amazonaws.com"},
		"isolated":      {[]string{"c2s.ic.gov"}, "forwards c2s.ic.gov"},
		"sovereign":     {[]string{"amazonaws.eu"}, "forwards amazonaws.eu"},
		"a like name":   {[]string{"notamazonaws.com", "amazonaws.com.example"}, ""},
		"all names":     {[]string{"com"}, "forwards com"},
		"another zone":  {[]string{"corp.example"}, ""},
		"unknown zones": {nil, "new ones through the resolver of their node"},
	} {
		objects := []client.Object{class, pod}
		if tc.zones != nil {
			dns.Spec.Servers[0].Zones = tc.zones
			objects = append(objects, dns.DeepCopy())
		}
		m := newMove(t, awsefs.Driver(), objects...)
		m.Accepts = m.Driver.Accepts.At("3.4.1")
		plan := Plan{}
		if err := m.previewChanged(t.Context(), nil, &plan); err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, change := range plan.Changes {
			text += change.Object + ": " + change.What + "\n"
			if change.Object == "DNS default" && change.Refused {
				t.Errorf("%s: a guess holds", name)
			}
		}
		if !strings.Contains(text, `StorageClass tagged: the new driver refuses parameter enableTagging "false"`) {
			t.Errorf("%s: no word of the class:\n%s", name, text)
		}
		if (tc.want == "") == strings.Contains(text, "DNS default") || !strings.Contains(text, tc.want) {
			t.Errorf("%s: want %q:\n%s", name, tc.want, text)
		}
	}
}

func TestAPlanSaysWhichRefusedValuesAreInUse(t *testing.T) {
	withPath := func(name, class string, phase corev1.PersistentVolumePhase, claimed bool) client.Object {
		volume := &corev1.PersistentVolume{ObjectMeta: named("", name)}
		volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: awsefs.Name, VolumeHandle: "fs-12345678", VolumeAttributes: map[string]string{"path": "/a"}}
		if volume.Spec.StorageClassName, volume.Status.Phase = class, phase; claimed {
			volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: name}
		}
		return volume
	}
	tagging := func(name string, annotations map[string]string) client.Object {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Provisioner: awsefs.Name,
			Parameters: map[string]string{"enableTagging": "false"}}
	}
	m := newMove(t, awsefs.Driver(), installed("efs-csi-node", "amazon/aws-efs-csi-driver:v2.3.1"),
		withPath("bound", "named", corev1.VolumeBound, true), withPath("promised", "", corev1.VolumeAvailable, true),
		withPath("free", "", corev1.VolumeAvailable, false), withPath("released", "", corev1.VolumeReleased, true),
		withPath("failed", "", corev1.VolumeFailed, true), tagging("named", nil), tagging("other", nil),
		tagging("default", map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}))
	m.Accepts = m.Driver.Accepts.At("3.4.1")
	plan := Plan{}
	if err := m.previewChanged(t.Context(), nil, &plan); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, change := range plan.Changes {
		got[change.Object] = change.Unused
		if strings.Contains(change.String(), ", not in use: the new driver refuses ") != change.Unused {
			t.Errorf("%s", change)
		}
	}
	want := map[string]bool{
		"PersistentVolume bound": false, "PersistentVolume promised": false, "PersistentVolume free": true, "PersistentVolume released": true,
		"PersistentVolume failed": true, "StorageClass named": false, "StorageClass other": true, "StorageClass default": false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unused (-want +got):\n%s", diff)
	}
}

// The chart and the EKS add-on write controller.tags into the flag of the driver.
func TestAPlanNamesTheTagsOfTheChartsController(t *testing.T) {
	controller := func(namespace, name, image string, args ...string) *appsv1.Deployment {
		made := &appsv1.Deployment{ObjectMeta: named(namespace, name)}
		made.Spec.Template.Spec.Containers = []corev1.Container{{Name: "efs-plugin", Image: image, Args: args}}
		return made
	}
	chart := func(tags string) client.Object {
		return controller("kube-system", "efs-csi-controller", "public.ecr.aws/efs-csi-driver/amazon/aws-efs-csi-driver:v3.4.1", "--v=2", "--tags="+tags)
	}
	ours := controller(here, "aws-efs-csi-driver-controller", "unknown", "--tags=team:storage kubernetes.io/cluster/x:owned")
	labelled := controller("kube-system", "efs", "mirror.example/efs@sha256:00", "--tags=cost:12")
	labelled.Labels = map[string]string{"app.kubernetes.io/name": "aws-efs-csi-driver"}
	for name, tc := range map[string]struct {
		object client.Object
		want   string
	}{
		"tags":                     {chart(`team:storage cost:12 escaped\:key:a\ b`), `"cost"="12", "escaped:key"="a b", and the new`},
		"another value":            {chart("team:other"), `"team"="other", and the new`},
		"ours have all":            {chart("team:storage"), ""},
		"none":                     {controller("kube-system", "efs-csi-controller", "aws-efs-csi-driver:v3.4.1", "--v=2"), ""},
		"a mirror":                 {labelled, `"cost"="12", and the new`},
		"the flag of others":       {controller("kube-system", "balancer", "example.com/balancer:v1", "--tags=cost:12"), ""},
		"in a tenant's namespace":  {controller("shop", "efs-csi-controller", "aws-efs-csi-driver:v3.4.1", "--tags=cost:12"), ""},
		"the driver can't read it": {controller("kube-system", "efs-csi-controller", "aws-efs-csi-driver:v2.1.5", "--tags=no-colon"), ""},
	} {
		m := newMove(t, awsefs.Driver(), installed("efs-csi-node", "amazon/aws-efs-csi-driver:v2.3.1"), tc.object)
		m.Accepts = m.Driver.Accepts.At("3.4.1")
		plan := Plan{}
		if err := m.previewChanged(t.Context(), []client.Object{ours}, &plan); err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, change := range plan.Changes {
			text += change.String() + "\n"
			if change.Refused {
				t.Errorf("%s: a tag holds", name)
			}
		}
		if (tc.want == "") != (text == "") || !strings.Contains(text, tc.want) {
			t.Errorf("%s: want %q:\n%s", name, tc.want, text)
		}
	}
}

// An accepted remount does not accept that pods lose their volumes.
func TestNodesWithRefusedVolumesStay(t *testing.T) {
	for name, tc := range map[string]struct {
		// path is the value of attribute path. image is that of the predecessor's driver, if it is known.
		path, image   string
		remount, lose bool
		// waits says that the pod waits for its volume.
		waits bool
		// named says that the message names the volume, and held that its node keeps the pod.
		named, held, replaced bool
	}{
		"nothing is accepted":                      {path: "/a", named: true, held: true},
		"a remount is":                             {path: "/a", remount: true, named: true, held: true},
		"both are":                                 {path: "/a", remount: true, lose: true, named: true, replaced: true},
		"only the loss is":                         {path: "/a", lose: true, named: true},
		"the new driver mounts the volume":         {remount: true, replaced: true},
		"the pod has not mounted it":               {path: "/a", remount: true, waits: true, named: true, replaced: true},
		"the predecessor mounted it":               {path: "/a", image: "aws-efs-csi-driver:v1.7.7", remount: true, named: true, held: true},
		"the predecessor's driver refused it, too": {path: "a", image: "aws-efs-csi-driver:v1.7.7", remount: true, replaced: true},
	} {
		t.Run(name, func(t *testing.T) {
			used := inUse("node-1")
			volume := used[0].(*corev1.PersistentVolume) //nolint:forcetypeassert // inUse made it.
			volume.Spec.AccessModes, volume.Spec.CSI.VolumeHandle = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, "fs-12345678"
			if tc.path != "" {
				volume.Spec.CSI.VolumeAttributes = map[string]string{"path": tc.path}
			}
			user := used[1].(*corev1.Pod) //nolint:forcetypeassert // inUse made it.
			if user.Status.Phase = corev1.PodRunning; tc.waits {
				user.Status.Phase = corev1.PodPending
			}
			one, daemonSet := nodePod(here, "a", "efs-csi-node", "node-1"), ourNodes()
			daemonSet.Status.DesiredNumberScheduled = 1
			if tc.image != "" {
				one.Spec.Containers = []corev1.Container{{Name: "efs-plugin", Image: tc.image}}
			}
			m := newMove(t, awsefs.Driver(), append(used, daemonSet, one, node("node-1"))...)
			m.Accepts = m.Driver.Accepts.At("3.4.1")
			moved, err := m.Advance(t.Context(), State{Old: []corev1.Pod{*one}, accepted: tc.remount, acceptsRefused: tc.lose}, nil, nil)
			if err != nil || (len(m.cache.Writes) == 1) != tc.replaced {
				t.Errorf("%v, sent %v", err, m.cache.Writes)
			}
			const named = `the new driver refuses to mount these PersistentVolumes: pv: volume attribute path, which it does not know; ` +
				`write a new PersistentVolume with volumeHandle "fs-12345678:/a", and without attribute path`
			if strings.Contains(moved.Message, named) != tc.named {
				t.Errorf("message %q", moved.Message)
			}
			holds := strings.Contains(moved.Message, "Pods use them on node-1 (shop/web)") && strings.Contains(moved.Message, "set annotation "+AcceptRefusedAnnotation+"=true")
			if holds != tc.held {
				t.Errorf("message %q", moved.Message)
			}
		})
	}
}
