package clustercsidriver

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// clouded is a driver with a class for each share type; the class has the name of the type.
func clouded() driver.Driver {
	d := disk()
	d.Removable, d.StorageClass = false, ""
	d.Cloud = &driver.Cloud{Secret: "disk-keys", ShareTypes: true}
	d.CloudClasses = &driver.CloudClasses{
		IsMade: func(class driver.Class) bool { return class.Provisioner == diskName && class.Parameters["type"] != "" },
		Make: func(cfg driver.Config) []*storagev1.StorageClass {
			var made []*storagev1.StorageClass
			add := func(name string) {
				made = append(made, &storagev1.StorageClass{
					ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: diskName, Parameters: map[string]string{"type": name},
				})
			}
			for _, name := range cfg.Cloud.ShareTypes {
				add(name)
			}
			for _, class := range cfg.Classes {
				isOld := class.Parameters["type"] != "" && class.Provisioner == diskName && !slices.Contains(cfg.Cloud.ShareTypes, class.Name)
				if isOld && (!cfg.Cloud.Repeated || cfg.ClassesInUse[class.Name]) {
					add(class.Name)
				}
			}
			return made
		},
	}
	return d
}

// typed is a class that was made for a share type.
func typed(name string) *storagev1.StorageClass {
	class := ours(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
	class.Provisioner, class.Parameters = diskName, map[string]string{"type": name}
	return class
}

func volumeOf(class string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}, Spec: corev1.PersistentVolumeSpec{StorageClassName: class}}
}

// What is not known removes nothing, nor does what one answer lacks, nor what is in use. No other class is touched.
func TestAClassGoesOnlyWhenItsShareTypeHas(t *testing.T) {
	theirs := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Provisioner: "other.example.com", Parameters: map[string]string{"type": "x"}}
	gold := func(repeated bool, types ...string) func() driver.CloudFacts {
		return func() driver.CloudFacts { return driver.CloudFacts{Known: true, Repeated: repeated, ShareTypes: types} }
	}
	for name, tc := range map[string]struct {
		facts   func() driver.CloudFacts
		objects []client.Object
		state   operatorv1.StorageClassStateName
		// deletes are the classes that are deleted; asks tells whether the volumes are listed, again whether to look once more.
		deletes []string
		asks    bool
		again   bool
	}{
		"nobody asks the cloud":     {nil, nil, "", nil, false, false},
		"the cloud did not answer":  {func() driver.CloudFacts { return driver.CloudFacts{} }, nil, "", nil, false, false},
		"the type is there":         {gold(true, "gold"), nil, "", nil, false, false},
		"one answer lacks it":       {gold(false), nil, "", nil, false, false},
		"two answers lack it":       {gold(true), nil, "", []string{"gold"}, true, false},
		"there are others":          {gold(true, "silver"), nil, "", []string{"gold"}, true, false},
		"a volume of it":            {gold(true), []client.Object{volumeOf("gold")}, "", nil, true, true},
		"a volume of another class": {gold(true), []client.Object{volumeOf("theirs")}, "", []string{"gold"}, true, false},
		"nobody wants classes":      {gold(true, "gold"), nil, operatorv1.RemovedStorageClass, []string{"gold"}, false, false},
		"they are the user's":       {gold(true), nil, operatorv1.UnmanagedStorageClass, nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTrip(t, clouded(), append(tc.objects, typed("gold"), theirs.DeepCopy(), infrastructure(), ours(deployment()), ours(daemonSet()))...)
			if tc.facts != nil {
				s.Derived.Cloud = &cannedCloud{facts: tc.facts()}
			}
			cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName, UID: "cr-1"}}
			cr.Spec.StorageClassState = tc.state
			seen, err := s.observe(t.Context(), cr, s.found(t))
			if err != nil {
				t.Fatal(err)
			}
			objects, err := s.Driver.Render(s.Client.Scheme(), seen.config)
			if err != nil {
				t.Fatal(err)
			}
			s.set(t.Context(), seen, objects)
			var deleted []string
			for _, write := range s.cluster.Sent() {
				if class, is := strings.CutPrefix(write, "delete StorageClass "); is && !strings.HasPrefix(class, "disk-sc") {
					deleted = append(deleted, strings.Fields(class)[0])
				}
			}
			if diff := cmp.Diff(tc.deletes, deleted); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
			asked := slices.ContainsFunc(s.cluster.Reads, func(read string) bool { return strings.HasPrefix(read, "list PersistentVolume") })
			if inUse := seen.config.ClassesInUse["gold"]; asked != tc.asks || inUse != tc.again || (inUse && seen.again == 0) {
				t.Errorf("volumes are listed: %t; in use %t, it looks again in %s", asked, inUse, seen.again)
			}
		})
	}
}

// Before the cloud has answered, nobody knows whether it has what the driver is for. What is there is kept up all the same.
func TestNothingIsInstalledBeforeTheCloudHasAnswered(t *testing.T) {
	d := clouded()
	d.Disabled = func(cfg driver.Config) string {
		if cfg.Cloud.NoService {
			return "no shares"
		}
		return ""
	}
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName, UID: "cr-1"}}
	cr.Spec.ManagementState = operatorv1.Managed
	reconcile := func(facts driver.CloudFacts, objects ...client.Object) (int, map[string]string) {
		s := newTrip(t, d, append(objects, cr.DeepCopy(), infrastructure())...)
		s.Derived.Cloud = &cannedCloud{facts: facts}
		if _, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: diskName}}); err != nil {
			t.Fatal(err)
		}
		return len(s.cluster.Sent()), texts(s.written(t).Conditions)
	}
	const waiting = "waiting for Secret storage-system/disk-keys: the operator needs it"
	sent, said := reconcile(driver.CloudFacts{})
	if sent != 1 || !strings.Contains(said["Progressing"], waiting) || said["DiskDriverDisabled"] != "False AsExpected" {
		t.Errorf("%d writes; it says %q, disabled %q", sent, said["Progressing"], said["DiskDriverDisabled"])
	}
	if sent, said = reconcile(driver.CloudFacts{Known: true, NoService: true}); sent != 1 || said["DiskDriverDisabled"] != "True DriverDisabled: no shares" {
		t.Errorf("without shares: %d writes, disabled %q", sent, said["DiskDriverDisabled"])
	}
	if sent, said = reconcile(driver.CloudFacts{Known: true}); sent < 5 || strings.Contains(said["Progressing"], waiting) {
		t.Errorf("with shares: %d writes; it says %q", sent, said["Progressing"])
	}
	if sent, said = reconcile(driver.CloudFacts{}, ours(daemonSet())); sent < 5 || strings.Contains(said["Progressing"], waiting) {
		t.Errorf("one that is there: %d writes; it says %q", sent, said["Progressing"])
	}
}
