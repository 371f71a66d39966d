package vspherehealth

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

func storageClass(name, provisioner string, parameters map[string]string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, Parameters: parameters}
}

func inTreeVolume(name, path string) *corev1.PersistentVolume {
	made := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	made.Spec.VsphereVolume = &corev1.VsphereVirtualDiskVolumeSource{VolumePath: path}
	return made
}

func csiVolume(name, driver, handle string, zonal bool) *corev1.PersistentVolume {
	made := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	made.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	if zonal {
		made.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}}
	}
	return made
}

func TestWantIsWhatTheClusterHasSorted(t *testing.T) {
	r := newTrip(t, infrastructure(),
		storageClass("b", driverName, map[string]string{"DatastoreURL": "ds:///b/", "storagePolicyName": "gold"}),
		storageClass("a", "kubernetes.io/vsphere-volume", map[string]string{"datastore": "ds"}),
		storageClass("x", "ebs.csi.aws.com", map[string]string{"datastore": "other"}),
		inTreeVolume("pv", "[old ds] kubevols/pv.vmdk"), inTreeVolume("strange", "no path"), csiVolume("new", driverName, "1", false),
	)
	want, err := r.Want(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(vsphere.Want{
		InfrastructureID: "dev-x", FailureDomains: healthy().want.FailureDomains, UUIDs: []string{"dc1-1", "dc1-2", "dc2-1", "dc2-2"},
		Datastores: []string{"ds", "ds:///b/", "old ds"},
	}, want); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAllThatPollsLookAtMakesThemOutdated(t *testing.T) {
	group := domainWithGroup()
	same := vsphere.Want{FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{domainWithGroup()}}
	before := hashOf(vsphere.Want{FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{group}}, cluster{})
	if before != hashOf(same, cluster{}) || before != hashOf(same, cluster{classes: []class{{name: "a", datastore: "in the datastores"}}}) {
		t.Error("the same has another hash")
	}
	gold, silver := class{name: "a", policy: "gold"}, class{name: "b", policy: "silver"}
	with := hashOf(same, cluster{classes: []class{gold, silver}})
	if with != hashOf(same, cluster{classes: []class{silver, gold}}) || with == hashOf(same, cluster{classes: []class{gold}}) || with == before {
		t.Error("the policy of a class does not count, or its place does")
	}
	other := domainWithGroup()
	other.ZoneAffinity.HostGroup.HostGroup = "others"
	moved := domainWithGroup()
	moved.Topology.Datastore = "/dc1/datastore/other"
	for name, want := range map[string]vsphere.Want{
		"a node":           {FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{group}, UUIDs: []string{"a"}},
		"a datastore":      {FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{group}, Datastores: []string{"a"}},
		"its ID":           {FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{group}, InfrastructureID: "a"},
		"a host group":     {FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{other}},
		"where it is":      {FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{moved}},
		"a failure domain": {},
	} {
		if hashOf(want, cluster{}) == before {
			t.Errorf("%s: the same hash", name)
		}
	}
}

func TestNodesThatTheDriverDoesNotRunOnAreNotFollowed(t *testing.T) {
	labelled := func(key, value string) client.Object {
		made := nodeObject("n", "vsphere://A ")
		made.Labels = map[string]string{key: value}
		return made
	}
	linux := node{name: "n", uuid: "a", providerID: "vsphere://A ", created: noon().Add(-time.Hour)}
	for name, test := range map[string]struct {
		object client.Object
		want   node
		kept   bool
	}{
		"Linux":                    {labelled("kubernetes.io/os", "linux"), linux, true},
		"Windows":                  {labelled("kubernetes.io/os", "windows"), node{}, false},
		"of vSphere":               {labelled("node.openshift.io/platform-type", "vsphere"), linux, true},
		"as in the Infrastructure": {labelled("node.openshift.io/platform-type", "VSphere"), linux, true},
		"an empty label":           {labelled("node.openshift.io/platform-type", ""), linux, true},
		"of bare metal": {
			labelled("node.openshift.io/platform-type", "baremetal"),
			node{name: "n", providerID: "vsphere://A ", platform: "baremetal", created: linux.created}, true,
		},
		"no node":          {&corev1.Pod{}, node{}, false},
		"another platform": {nodeObject("n", "aws:///i"), node{name: "n", providerID: "aws:///i", created: linux.created}, true},
	} {
		got, kept := nodeOf(test.object)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(node{})); diff != "" || kept != test.kept {
			t.Errorf("%s: kept %t (-want +got):\n%s", name, kept, diff)
		}
	}
}

func TestVolumesAreReduced(t *testing.T) {
	for name, test := range map[string]struct {
		object *corev1.PersistentVolume
		want   volume
		kept   bool
	}{
		"of the driver":      {csiVolume("a", driverName, "1-2", false), volume{name: "a"}, true},
		"shared and zonal":   {csiVolume("a", driverName, "file:1-2", true), volume{name: "a", shared: true, zonal: true}, true},
		"of the plugin":      {inTreeVolume("a", "[pod/ds 1] x/y.vmdk"), volume{name: "a", inTree: true, datastore: "pod/ds 1"}, true},
		"of another driver":  {csiVolume("a", "ebs.csi.aws.com", "1", false), volume{}, false},
		"of nobody's driver": {&corev1.PersistentVolume{}, volume{}, false},
	} {
		got, kept := volumeOf(test.object, driverName)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(volume{})); diff != "" || kept != test.kept {
			t.Errorf("%s: kept %t (-want +got):\n%s", name, kept, diff)
		}
	}
}

func TestOnlyChangesThatMatterWake(t *testing.T) {
	r := newTrip(t)
	for i, step := range []struct {
		do   func() error
		want int
	}{
		{func() error { return r.nodes.Add(nodeObject("dc1-1", "vsphere://DC1-1")) }, 0},
		{func() error { return r.nodes.Add(nodeObject("dc1-1", "vsphere://other")) }, 1},
		{func() error { return r.volumes.Add(csiVolume("a", driverName, "1", false)) }, 1},
		{func() error { return r.volumes.Add(csiVolume("b", "ebs.csi.aws.com", "1", false)) }, 0},
		{func() error { return r.csiNodes.Add(registered("a", "ebs.csi.aws.com")) }, 0},
		{func() error { return r.csiNodes.Add(registered("a", driverName)) }, 1},
	} {
		queue := &counted{}
		r.nodes.Queue, r.volumes.Queue, r.csiNodes.Queue = queue, queue, queue
		if err := step.do(); err != nil || queue.added != step.want {
			t.Errorf("step %d: error %v, woken %d times, want %d", i, err, queue.added, step.want)
		}
	}
}

func registered(name, driver string) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver}}}}
}

func TestWhoseDriverIsThere(t *testing.T) {
	theirs := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}}
	annotated := func(value string) client.Object {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName, Annotations: map[string]string{"csi.openshift.io/managed": value}}}
	}
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "vmware-vsphere-csi-driver-node"}}
	nodes := []client.Object{registered("b", driverName), registered("a", driverName), registered("c", "ebs.csi.aws.com")}
	for name, test := range map[string]struct {
		objects    []client.Object
		installed  bool
		thirdParty string
	}{
		"nobody's":                           {nil, false, ""},
		"ours":                               {append(nodes, ours()), true, ""},
		"that of OpenShift's operator":       {append(nodes, annotated("true")), true, ""},
		"not OpenShift's":                    {append(nodes, annotated("False")), false, "CSIDriver " + driverName},
		"another's":                          {append(nodes, theirs), false, "CSIDriver " + driverName},
		"another's without a CSIDriver":      {nodes, false, "on nodes a, b"},
		"ours, somebody deleted its object":  {append(nodes, daemonSet), true, ""},
		"ours, somebody replaced its object": {append(nodes, daemonSet, theirs), true, "CSIDriver " + driverName},
	} {
		r := newTrip(t, append([]client.Object{clusterCSIDriver(operatorv1.Managed), infrastructure()}, test.objects...)...)
		var found cluster
		if err := r.readDriver(t.Context(), &found); err != nil || found.installed != test.installed || found.thirdParty != test.thirdParty {
			t.Errorf("%s: installed %t, of a third party %q, error %v", name, found.installed, found.thirdParty, err)
		}
	}
}

func TestTheSettingsOfTheClusterCSIDriverAreRead(t *testing.T) {
	r := newTrip(t, infrastructure(), storageClass("plain", driverName, nil))
	cr := clusterCSIDriver(operatorv1.Managed)
	cr.Spec.DriverConfig.VSphere = &operatorv1.VSphereCSIDriverConfigSpec{MaxAllowedBlockVolumesPerNode: 100, TopologyCategories: []string{"a", "b"}}
	in, err := r.read(t.Context(), cr)
	if err != nil || in.cluster.maxVolumes != 100 || len(in.cluster.categories) != 2 || len(in.cluster.vCenters) != 2 || len(in.cluster.nodes) != 4 ||
		len(in.cluster.classes) != 1 || len(in.config.VCenters) != 2 || !in.now.Equal(noon()) {
		t.Errorf("read %+v, error %v", in, err)
	}
}
