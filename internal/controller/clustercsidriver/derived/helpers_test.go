package derived

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const (
	here  = "storage-system"
	plain = "s3cr3t"
)

// disk is a driver whose pods mount one Secret, made of a ConfigMap and of the Secret with its keys. It asks its cloud for share types, and
// makes a StorageClass of the same name for each.
func disk() driver.Driver {
	return driver.Driver{
		Name: "disk.example.com", Operator: "disk-operator", Prefix: "disk", CloudCAVariable: "CLOUD_CA",
		Credentials: []driver.Credentials{{Request: "disk-request", Secret: "disk-keys", Keys: [][]string{{"credentials"}, {"id", "key"}}}},
		Derived: &driver.Derived{
			Name: "disk-config", Workloads: []driver.Workload{driver.Controller, driver.Node},
			ConfigMaps: []driver.DerivedConfigMap{{ObjectKey: client.ObjectKey{Namespace: "openshift-config", Name: "cloud"}}},
			Build: func(inputs driver.DerivedInputs) (map[string][]byte, error) {
				if inputs.ConfigMaps["cloud"]["cloud"] == "" {
					return nil, errors.New("key cloud is empty: fill it in")
				}
				return map[string][]byte{"conf": []byte(inputs.ConfigMaps["cloud"]["cloud"] + " " + string(inputs.Secrets["disk-keys"]["credentials"]))}, nil
			},
		},
		Cloud: &driver.Cloud{Secret: "disk-keys", CA: client.ObjectKey{Namespace: here, Name: "cloud"}, ShareTypes: true},
		CloudClasses: &driver.CloudClasses{
			IsMade: func(class driver.Class) bool { return class.Provisioner == "disk.example.com" },
			Make: func(cfg driver.Config) []*storagev1.StorageClass {
				var made []*storagev1.StorageClass
				for _, name := range cfg.Cloud.ShareTypes {
					made = append(made, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
				}
				return made
			},
		},
	}
}

// facing is a driver whose Secret says what the cloud says, or else what it said before.
func facing() driver.Driver {
	d := disk()
	d.Derived.FromCloud = true
	d.Derived.Build = func(inputs driver.DerivedInputs) (map[string][]byte, error) {
		zones := strings.Join(inputs.Cloud.ComputeZones, " ")
		if !inputs.Cloud.Known {
			if inputs.Previous == nil {
				return nil, driver.ErrCloudUnknown
			}
			zones = string(inputs.Previous["zones"])
		}
		return map[string][]byte{"conf": []byte(inputs.ConfigMaps["cloud"]["cloud"]), "zones": []byte(zones)}, nil
	}
	return d
}

// cannedCloud answers what a test says.
type cannedCloud struct {
	facts   driver.CloudFacts
	trouble CloudFailure
	inputs  []string
}

func (c *cannedCloud) Facts() driver.CloudFacts           { return c.facts }
func (c *cannedCloud) Failure() CloudFailure              { return c.trouble }
func (c *cannedCloud) SetInputs(hash string)              { c.inputs = append(c.inputs, hash) }
func (c *cannedCloud) Changed() <-chan event.GenericEvent { return nil }

// cluster is what a Source reads. The cache and the cluster are the same.
type cluster struct {
	*Source
	*canned.Cluster
	credentials *credential.Source
}

// secretCache holds Secrets as their caches have them.
type secretCache struct {
	cache.Cache
	secrets *canned.Cluster
}

// Get reads one.
func (s secretCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return s.secrets.Get(ctx, key, object, options...)
}

// inputs are what the cloud can be asked with.
func (c *cluster) inputs(t *testing.T) string {
	t.Helper()
	hash, err := c.CloudInputs(t.Context(), c.found(t))
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func newCluster(t *testing.T, d driver.Driver, objects ...client.Object) *cluster {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	reads := canned.New(scheme, objects...)
	made := &cluster{
		Cluster: reads,
		Source: &Source{
			Client: reads, Live: reads, Driver: d, Namespace: here, Version: "1.2.3",
			Kinds: map[schema.GroupKind]bool{openshift.InfrastructureKind(): true},
		},
		credentials: &credential.Source{
			Client: reads, Driver: d, Namespace: here, Secrets: map[string]cache.Cache{"disk-keys": secretCache{secrets: reads}},
		},
	}
	made.Use(&apply.Applier{
		Client: reads, Live: reads, FieldManager: d.Operator, Labels: client.MatchingLabels{openshift.ManagedByLabel: d.Operator},
		Mutations: apply.NewMutationCache(),
	})
	return made
}

// found is what there is of the credentials.
func (c *cluster) found(t *testing.T) credential.Found {
	t.Helper()
	found, err := c.credentials.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// derive is what becomes of the Secret where no pod has any yet. It fails if the Secret with the keys is read to make nothing.
func (c *cluster) derive(t *testing.T, facts driver.CloudFacts) Secret {
	t.Helper()
	credentials := c.found(t)
	before := len(c.Reads)
	made, err := c.Secret(t.Context(), credentials, driver.Config{Cloud: facts}, "")
	if err != nil {
		t.Fatal(err)
	}
	read := slices.Contains(c.Reads[before:], "get Secret "+here+"/disk-keys")
	if tried := made.Object != nil || strings.Contains(made.Problem, "empty") || made.Waits == "the first answer from the cloud"; read != tried {
		t.Errorf("the keys are read: %t, want %t: %v", read, tried, c.Reads)
	}
	return made
}

func configMap(namespace, name, key, content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{key: content}}
}

func cloudConfig(cloud string) *corev1.ConfigMap {
	return configMap("openshift-config", "cloud", "cloud", cloud)
}

func diskKeys(value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: "disk-keys"}, Data: map[string][]byte{"credentials": []byte(value)},
	}
}

// applied is a Secret as the cluster has it once it is applied.
func applied(secret *corev1.Secret) *corev1.Secret {
	secret = secret.DeepCopy()
	secret.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "disk-operator", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1("{}"),
	}}
	return secret
}
