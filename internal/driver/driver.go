// Package driver describes a CSI driver as data and renders every object that installs it.
//
// Rendering is pure: it reads no cluster and has no memory. The same Config always gives the same objects, so golden files show the whole effect of a
// change. render.go goes from placeholders to objects: shared ones, those of sidecars, the driver's own. Then come sidecars and their metrics
// (sidecar.go), CredentialsRequests, the driver's mutations, our label, and the order of applying. Any mistake is an error, and then nothing is
// applied.
package driver

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/kube/manifest"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// Container is the name of the container in both pods that runs the driver itself.
const Container = "csi-driver"

// Workload tells the two pods of a driver apart.
type Workload string

const (
	// Controller is the Deployment that provisions volumes.
	Controller Workload = "controller"
	// Node is the DaemonSet that mounts volumes.
	Node Workload = "node"
)

// WorkloadOf tells which of the two workloads an object is; empty for all other objects, other Deployments and DaemonSets of the driver
// included.
func (d Driver) WorkloadOf(object client.Object) Workload {
	switch object.(type) {
	case *appsv1.Deployment:
		if object.GetName() == d.Deployment {
			return Controller
		}
	case *appsv1.DaemonSet:
		if object.GetName() == d.DaemonSet {
			return Node
		}
	}
	return ""
}

// Holds say why a workload is not applied for the moment: what its pods need is not there yet.
type Holds map[Workload]string

// Driver is everything the operator knows about one CSI driver.
type Driver struct {
	// Name is the CSI name, which is also the name of the ClusterCSIDriver.
	Name string
	// Operator is the program that manages the driver: field manager, label value and prefix of the finalizer.
	Operator string
	// Prefix starts the names of namespaced objects, for instance "aws-efs-csi-driver".
	Prefix string
	// ShortPrefix starts the names of cluster-scoped RBAC objects, for instance "efs".
	ShortPrefix string
	// ConditionPrefix starts the condition types that other tools read, for instance "AWSEFS".
	ConditionPrefix string
	// Platform is where the driver runs; empty is every platform. Its node pods share the nodes with those of all drivers of the same platform,
	// and of every platform.
	Platform configv1.PlatformType
	// Namespace, if set, is where the driver runs; else it runs where its operator does. It is there before the operator is.
	Namespace string
	// DaemonSet and Deployment are the names of the two workloads.
	DaemonSet, Deployment string
	// DaemonSets are the names of further ones, without which the node pods do not become ready. Nothing waits for them.
	DaemonSets []string
	// Deployments are the names of further ones. They have as many pods as the controller, in the same places and restricted alike. Nothing
	// waits for them.
	Deployments []string
	// Selectors, if set, are the labels by which the two workloads know their pods, label app among them. Else it is that label alone, with the
	// name of the workload.
	Selectors map[Workload]map[string]string
	// Webhook, if set, is the name of the ValidatingWebhookConfiguration among the assets.
	Webhook string
	// StorageClass, if set, is the only one. Earlier versions have made it; it is kept where they have, and never created: the name is the
	// administrator's. Else all StorageClasses among the assets are the driver's own, and kept as they are here.
	StorageClass string
	// PrivilegedController says that the controller pods need OpenShift's privileged SCC. Others are restricted as far as
	// Kubernetes can, and reach the cloud through the pod network unless their asset says otherwise.
	PrivilegedController bool
	// CloudCAVariable, if set, says that the driver's cloud may have a CA of its own: it is the environment variable by which the
	// controller's container gets the file with its certificates. Such a driver has no dashboard.
	CloudCAVariable string
	// Metrics are those of the driver's own container.
	Metrics map[Workload]Metrics
	// FurtherMetrics are those of other containers among the assets, which serve them where they want.
	FurtherMetrics map[Workload][]Metrics
	// Payload, if set, says what a release of OpenShift knows of the driver. Without it, administrators install the driver by OLM.
	Payload *Payload
	// Removable says whether managementState Removed and deletion of the ClusterCSIDriver remove the driver.
	Removable bool
	// RemovedByState says that managementState Removed removes the driver, but the deletion of the ClusterCSIDriver does not: that has no
	// finalizer, and the cluster-storage-operator makes it again.
	RemovedByState bool
	// LegacyFinalizers are the finalizers of predecessors on the ClusterCSIDriver. A removal drops them.
	LegacyFinalizers []string
	// Assets has the driver's own objects in its folder assets (*.yaml); the objects that every driver has come from this package.
	Assets fs.FS
	// Sidecars are appended to the workloads, in this order.
	Sidecars []Sidecar
	// FurtherLeases are the names of Leases that containers among the assets make, in the driver's namespace.
	FurtherLeases []string
	// Credentials are the CredentialsRequests of the driver.
	Credentials []Credentials
	// Derived, if set, is a Secret that pods mount and that the operator makes of others.
	Derived *Derived
	// Cloud, if set, is what the driver has to know of its cloud.
	Cloud *Cloud
	// CloudClasses, if set, are the StorageClasses that follow from Config.Cloud.
	CloudClasses *CloudClasses
	// KeptSecrets, if set, are Secrets that the driver keeps for volumes of some StorageClasses, outside of its namespace. Nothing that this
	// package renders lets it do so.
	KeptSecrets *KeptSecrets
	// NamedSecrets, if set, is what to do where StorageClasses name Secrets that the controller may not read. Nothing that this package renders
	// lets it read them.
	NamedSecrets string
	// MountsInPods means that mounts of a node go through processes in its node pod, and stall while that is replaced. Node pods are then
	// replaced by who uses volumes; else Kubernetes does it, a tenth of the nodes at a time.
	MountsInPods bool
	// LongWait, if set, says what PVCs of a StorageClass with these parameters may lack that wait for long, and what to do; empty is nothing.
	LongWait func(parameters map[string]string) (advice string)
	// Settings are read from the operator's environment.
	Settings []Setting
	// FeatureGates are the gates of the API server on which rendering depends.
	FeatureGates []FeatureGate
	// Obsolete is what a predecessor of the same names has left that the driver needs no more.
	Obsolete Obsolete
	// LegacyConditions are condition types that predecessors may have left on the ClusterCSIDriver.
	LegacyConditions []string
	// Predecessors are the operators from which the driver is taken over.
	Predecessors []Predecessor
	// Wanted, if set, tells which of the rendered objects a cluster gets. The others are pruned.
	Wanted func(cfg Config, object client.Object) bool
	// Disabled, if set, says why there is nothing to drive in a cluster; empty if there is. A driver that is there stays.
	Disabled func(Config) string
	// Accepts is what the driver takes, by version: what the cluster gives it, and what users do. Rendering leaves out all else.
	Accepts accept.Table
	// Check, if set, lists what the driver can't follow of a Config besides, a sentence each. Rendering leaves it out.
	Check func(Config) []string
	// Mutations change rendered objects as the Config says, in this order.
	Mutations []Mutation
}

// Sidecar is a container that is added to a workload. Its text is assets/sidecars/<Name>.yaml; the objects that it
// needs besides, such as RBAC, are in assets/sidecars/<Name>/.
type Sidecar struct {
	Name     string
	Workload Workload
	// Args are appended to the arguments of the asset, and after them what Options, if set, makes of the Config.
	Args    []string
	Options func(Config) []string
	// Rights names files of assets/rights: what the sidecar may do besides what it always may.
	Rights []string
	// Needs, if set, is an optional kind. A cluster without it gets no such sidecar, and none of its objects.
	Needs schema.GroupKind
	// HealthPort is ${HEALTH_PORT} of the asset: where the sidecar serves its own or the driver's health on loopback.
	HealthPort int32
	// ProbeTimeout is how long the driver may take to answer the liveness probe; empty is 3s. The probes of its container wait as long.
	ProbeTimeout string
	// Metrics, if set, are scraped through a kube-rbac-proxy.
	Metrics *Metrics
}

// Metrics is a plain HTTP endpoint on loopback and the port on which kube-rbac-proxy offers it over HTTPS.
type Metrics struct {
	// Name is that of the port, "<Name>-m", and of the proxy's container, "<Name>-kube-rbac-proxy". The proxy of the driver's own metrics is
	// "kube-rbac-proxy-<Loopback>", as in openshift/csi-operator f7f9dc59 assets/overlays/*/generated/standalone/controller.yaml.
	Name string
	// Loopback is the port of the plain endpoint, Port the one that Prometheus scrapes.
	Loopback, Port int32
	// Flag is the container's flag for the address of the plain endpoint; empty means --http-endpoint, which all CSI sidecars have.
	Flag string
	// Fixed says that the container has no such flag: Loopback is the port that it always takes.
	Fixed bool
}

// KeptSecrets are Secrets that a driver keeps in namespaces of users, where these let it.
type KeptSecrets struct {
	// Namespace tells whether the driver keeps any for a StorageClass with these parameters, and where; empty is the namespace of the PVC.
	Namespace func(parameters map[string]string) (namespace string, keeps bool)
	// Advice says what to do about PVCs that wait because it may not.
	Advice string
}

// Obsolete are names of objects that go when nothing needs them.
type Obsolete struct {
	// ClusterRoleBindings gave the controller's ServiceAccount, and nobody else, RBAC. They go once our workloads are applied, and then the
	// ClusterRoles, which were bound by them only.
	ClusterRoleBindings, ClusterRoles []string
	// ConfigMaps are mounted by the pods of predecessors, perhaps of several drivers. They go once no workload in the namespace mounts them.
	ConfigMaps []string
}

// FeatureGate is a gate of the API server. Without it, the API server drops the fields that belong to it.
type FeatureGate struct {
	Name string
	// OnSince is the minor version of Kubernetes 1 from which on it is on where nobody says otherwise.
	OnSince int
}

// Mutation changes the rendered objects of a driver that are of one Go type.
type Mutation func(d Driver, cfg Config, object client.Object) error

// Mutate makes a Mutation for all objects of type T out of a typed function.
func Mutate[T client.Object](change func(cfg Config, object T) error) Mutation {
	return func(_ Driver, cfg Config, object client.Object) error {
		typed, ok := object.(T)
		if !ok {
			return nil
		}
		return change(cfg, typed)
	}
}

// Config is everything that rendering may depend on. It is read once per reconcile.
type Config struct {
	// Namespace is where the operands go.
	Namespace string
	// Images maps the name of an environment variable, such as DRIVER_IMAGE, to an image reference.
	Images map[string]string
	// Kinds are the optional kinds that this cluster serves; objects of other optional kinds are left out.
	Kinds map[schema.GroupKind]bool
	// ServingCertificates is true where the cluster signs certificates for Services, as OpenShift does.
	ServingCertificates bool
	// InfrastructureID names the cluster in tags, empty if unknown.
	InfrastructureID string
	// ControlPlaneTopology is that of the Infrastructure.
	ControlPlaneTopology configv1.TopologyMode
	// InfrastructureTopology is that of the workers; it counts where the control plane is external.
	InfrastructureTopology configv1.TopologyMode
	// CredentialsMode is that of the CloudCredential; it is manual on a cluster with STS.
	CredentialsMode operatorv1.CloudCredentialsMode
	// Minting is what is known of the default mode, which leaves it to the cloud-credential-operator whether it makes keys.
	Minting Minting
	// RoleARNs maps the name of an environment variable, such as ROLEARN, to the IAM role for STS.
	RoleARNs map[string]string
	// Proxy is the way to the cloud; empty means that there is none.
	Proxy configv1.ProxyStatus
	// TLS is the cluster's profile for servers.
	TLS openshift.TLSProfile
	// FIPS means that the cluster's nodes run in FIPS mode.
	FIPS bool
	// Region is that of the cloud, empty if unknown.
	Region string
	// CloudCA are the certificates in PEM of the cloud's own CA, empty if it has none. The controller is restarted when its hash
	// among the DependencyHashes changes.
	CloudCA string
	// Platform is what the Infrastructure tells about the cloud; nil if nothing.
	Platform *configv1.PlatformStatus
	// VSphere are the vCenters and failure domains that the administrator wrote into the Infrastructure; nil if there are none.
	VSphere *configv1.VSpherePlatformSpec
	// Classes are the StorageClasses in the cluster, and the VolumeSnapshotClasses of this driver.
	Classes []Class
	// Cloud is what the cloud has answered to the questions of Driver.Cloud.
	Cloud CloudFacts
	// ClassesInUse has the StorageClasses of Driver.CloudClasses of which there are PersistentVolumes, as far as Config.Cloud speaks against them.
	ClassesInUse map[string]bool
	// ResourceTags are what the administrator wants on everything that the cluster makes in AWS.
	ResourceTags []configv1.AWSResourceTag
	// Tags and Labels are those of the Infrastructure that the driver takes; Render fills them in by Driver.Accepts.
	Tags, Labels []accept.Pair
	// DependencyHashes are hashes of the Secrets and ConfigMaps that the pods of a workload read when they start, by name. The pods
	// are restarted when one changes. The trusted CA bundle is mounted where it is among them.
	DependencyHashes map[Workload]map[string]string
	// Migrating means that pods of a predecessor still run.
	Migrating bool
	// Rollout is how node pods are replaced, of a driver with MountsInPods.
	Rollout RolloutPolicy
	// FeatureGates are those of Driver.FeatureGates that are on.
	FeatureGates map[string]bool
	// Settings maps the name of an environment variable to its value; Driver.ReadSettings makes it.
	Settings map[string]string
	// Spec is the desired state that the user wrote.
	Spec operatorv1.ClusterCSIDriverSpec
}

// LogVerbosity is the klog level for logLevel as OpenShift maps it; unknown and empty mean Normal.
func LogVerbosity(level operatorv1.LogLevel) int {
	switch level {
	case operatorv1.Debug:
		return 4
	case operatorv1.Trace:
		return 6
	case operatorv1.TraceAll:
		return 8
	default:
		return 2
	}
}

// metrics tells whether metrics can be scraped: without a certificate the proxy in front of them does not start.
func (c Config) metrics() bool {
	return c.ServingCertificates && c.Kinds[ServiceMonitorKind()]
}

// Images lists the environment variables with the images that the driver needs, in the order in which its assets and sidecars name them.
func (d Driver) Images() []string {
	var variables []string
	add := func(assets fs.FS, pattern string) {
		for _, name := range manifest.Placeholders(assets, pattern) {
			if strings.HasSuffix(name, "_IMAGE") && !slices.Contains(variables, name) {
				variables = append(variables, name)
			}
		}
	}
	add(d.Assets, "assets/*.yaml")
	if len(d.Metrics) > 0 {
		add(shared, sidecarAsset(rbacProxy))
	}
	for _, sidecar := range d.Sidecars {
		add(shared, sidecarAsset(sidecar.Name))
		if sidecar.Metrics != nil {
			add(shared, sidecarAsset(rbacProxy))
		}
	}
	return variables
}

// OperandNamespace is where the driver runs whose operator runs in a namespace.
func (d Driver) OperandNamespace(operators string) string { return cmp.Or(d.Namespace, operators) }

// TrustedCABundle is the name of the ConfigMap with the CA certificates that the cluster trusts.
func (d Driver) TrustedCABundle() string { return d.Prefix + "-trusted-ca-bundle" }

// Finalizer is the one finalizer of the operator on the ClusterCSIDriver.
func (d Driver) Finalizer() string {
	return d.Operator + ".operator.openshift.io/remove-driver"
}

// IsLegacy tells whether a predecessor has set a finalizer.
func (d Driver) IsLegacy(finalizer string) bool {
	return slices.Contains(d.LegacyFinalizers, finalizer)
}

// CheckImages returns one error that names every missing image variable, or else those with blanks, which no pod may have.
func (d Driver) CheckImages(images map[string]string) error {
	var missing, blank []string
	for _, name := range d.Images() {
		switch image := images[name]; {
		case image == "":
			missing = append(missing, name)
		case strings.ContainsFunc(image, unicode.IsSpace):
			blank = append(blank, fmt.Sprintf("%s=%q", name, image))
		}
	}
	if len(blank) > 0 {
		return fmt.Errorf("environment variables %s: the name of an image must have no blanks: correct them in the operator's Deployment "+
			"or in spec.config.env of its Subscription", strings.Join(blank, ", "))
	}
	if len(missing) > 0 {
		return fmt.Errorf("environment variables %v are empty: set each to the image that %s is to run, "+
			"in the operator's Deployment or in spec.config.env of its Subscription", missing, d.Name)
	}
	return nil
}
