package clustercsidriver

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const isDefaultClass = "storageclass.kubernetes.io/is-default-class"

// A class has the key of the ClusterCSIDriver. A class is immutable: it is made anew, and says the same of being the default.
func TestADriverOfThePayloadMakesItsClassesForAKey(t *testing.T) {
	keys := map[string]operatorv1.CSIDriverConfigSpec{
		"ebs.csi.aws.com": {
			DriverType: operatorv1.AWSDriverType, AWS: &operatorv1.AWSCSIDriverConfigSpec{KMSKeyARN: "arn:aws:kms:us-east-1:123456789012:key/1234"},
		},
		"pd.csi.storage.gke.io": {
			DriverType: operatorv1.GCPDriverType,
			GCP:        &operatorv1.GCPCSIDriverConfigSpec{KMSKey: &operatorv1.GCPKMSKeyReference{Name: "key", KeyRing: "ring", ProjectID: "project"}},
		},
		"disk.csi.azure.com": {
			DriverType: operatorv1.AzureDriverType,
			Azure: &operatorv1.AzureCSIDriverConfigSpec{DiskEncryptionSet: &operatorv1.AzureDiskEncryptionSet{
				SubscriptionID: "f2007bbf-f802-4a47-9336-cf7c6b89b378", ResourceGroup: "keys", Name: "set",
			}},
		},
	}
	everyPayloadDriver(t, func(t *testing.T, d driver.Driver) {
		key, hasKey := keys[d.Name]
		if !hasKey {
			return
		}
		cr := payloadCR(d, operatorv1.Managed)
		cr.Spec.DriverConfig = key
		_, objects := appliedObjects(t, d)
		// before has the number of parameters of each class, and said what it says about being the default.
		before, said := map[string]int{}, map[string]string{}
		for _, object := range objects {
			if class, isClass := object.(*storagev1.StorageClass); isClass {
				if class.Annotations[isDefaultClass] != "" {
					metav1.SetMetaDataAnnotation(&class.ObjectMeta, isDefaultClass, "false")
				}
				before[class.Name], said[class.Name] = len(class.Parameters), class.Annotations[isDefaultClass]
			}
		}
		s := tripOf(t, d, append(objects, cr, payloadKeys(d))...)
		s.cluster.Fail = onceUnfit(s)
		writes, _ := s.reconciled(t)
		for name, parameters := range before {
			class := canned.Written[storagev1.StorageClass](t, s.cluster, "apply StorageClass "+name)
			if class == nil || len(class.Parameters) != parameters+1 || class.Annotations[isDefaultClass] != said[name] {
				t.Errorf("class %s is made as %+v", name, class)
			}
			if !slices.ContainsFunc(writes, func(write string) bool { return strings.HasPrefix(write, "delete StorageClass "+name) }) {
				t.Errorf("class %s is not made anew: %v", name, writes)
			}
		}
	})
}

// An operator before this one has left classes without a label and with other parameters, as gp2-csi without encryption. They are made anew.
func TestADriverOfThePayloadMakesClassesOfItsPredecessorAnew(t *testing.T) {
	everyPayloadDriver(t, func(t *testing.T, d driver.Driver) {
		if d.CloudClasses != nil {
			// internal/driver/manila knows which classes were made for a share type.
			return
		}
		_, objects := appliedObjects(t, d)
		rendered := map[string]map[string]string{}
		for _, object := range objects {
			if class, isClass := object.(*storagev1.StorageClass); isClass {
				rendered[class.Name] = class.Parameters
				class.Parameters = map[string]string{"left": "by a predecessor"}
				class.Labels, class.ManagedFields = nil, nil
			}
		}
		s := tripOf(t, d, append(objects, payloadCR(d, operatorv1.Managed), payloadKeys(d))...)
		s.cluster.Fail = onceUnfit(s)
		writes, _ := s.reconciled(t)
		for name, parameters := range rendered {
			class := canned.Written[storagev1.StorageClass](t, s.cluster, "apply StorageClass "+name)
			if class == nil || cmp.Diff(parameters, class.Parameters) != "" || class.Labels[openshift.ManagedByLabel] != d.Operator {
				t.Errorf("class %s is made as %+v, want parameters %v", name, class, parameters)
			}
			if !slices.ContainsFunc(writes, func(write string) bool { return strings.HasPrefix(write, "delete StorageClass "+name) }) {
				t.Errorf("class %s is not made anew: %v", name, writes)
			}
		}
		if len(rendered) == 0 {
			t.Error("no class is rendered")
		}
	})
}

// onceUnfit refuses a class as an API server does, as long as that of before is there.
func onceUnfit(s *trip) func(string) error {
	return func(request string) error {
		name, isClass := strings.CutPrefix(request, "apply StorageClass ")
		if !isClass || slices.ContainsFunc(s.cluster.Writes, func(write string) bool { return strings.HasPrefix(write, "delete StorageClass "+name) }) {
			return nil
		}
		return apierrors.NewInvalid(storagev1.SchemeGroupVersion.WithKind("StorageClass").GroupKind(), name, field.ErrorList{
			field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden"),
		})
	}
}
