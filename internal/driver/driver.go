// Package driver describes a CSI driver as data and renders every object that installs it.
//
// Rendering is pure: it reads no cluster and has no state. The same Config always gives the same objects, so golden files show the whole effect of
// a change. render.go turns placeholders into objects: shared ones, those of sidecars, and the driver's own. Then it adds sidecars and their metrics
// (sidecar.go) and CredentialsRequests, applies the mutations of the driver, sets our label, and sorts. After any error, nothing is applied.
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

// Container is the name of the driver's own container in both pods.
const Container = "csi-driver"

// Workload is one of the two workloads of a driver.
type Workload string

const (
	// Controller is the Deployment that provisions volumes.
	Controller Workload = "controller"
	// Node is the DaemonSet that mounts volumes.
	Node Workload = "node"
)

// WorkloadOf returns which workload an object is; empty for all other objects, including further Deployments and DaemonSets of the
// driver.
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

// Holds maps a workload to the reason why it is not applied yet: something that its pods need is missing.
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
	// Platform of the driver; empty means every platform. Its node pods share nodes and host ports with the drivers of the same
	// platform and of every platform.
	Platform configv1.PlatformType
	// Namespace, if set, is the driver's; else it uses its operator's. It exists before the operator starts.
	Namespace string
	// DaemonSet and Deployment are the names of the two workloads.
	DaemonSet, Deployment string
	// DaemonSets are the names of further DaemonSets. Node pods become ready only with them, so nothing else waits for them.
	DaemonSets []string
	// Deployments are the names of further Deployments. They have the replicas, the placement and the restrictions of the controller. Nothing
	// waits for them.
	Deployments []string
	// Selectors, if set, are the pod selectors of the two workloads, including label app. Else the selector is label app with the name of the
	// workload.
	Selectors map[Workload]map[string]string
	// Webhook, if set, is the name of the ValidatingWebhookConfiguration among the assets.
	Webhook string
	// StorageClass, if set, names the only class. Earlier versions created it; the operator keeps it where it exists, and never creates it:
	// the administrator owns the name. If empty, all StorageClasses among the assets belong to the driver.
	StorageClass string
	// PrivilegedController: the controller pods need OpenShift's privileged SCC. Other controllers are restricted as far as
	// possible, and use the pod network unless their asset says otherwise.
	PrivilegedController bool
	// CloudCAVariable, if set, is the environment variable with the path of the CA certificates of the driver's cloud, for the
	// controller's container. Such a driver has no dashboard.
	CloudCAVariable string
	// Metrics of the driver's own container.
	Metrics map[Workload]Metrics
	// FurtherMetrics of other containers in the assets, which choose their own ports.
	FurtherMetrics map[Workload][]Metrics
	// Payload, if set, describes a driver of the OpenShift payload. Without it, administrators install the driver by OLM.
	Payload *Payload
	// Removable: managementState Removed and the deletion of the ClusterCSIDriver remove the driver.
	Removable bool
	// RemovedByState: managementState Removed removes the driver, but the deletion of the ClusterCSIDriver does not: it has no
	// finalizer, and the cluster-storage-operator creates it again.
	RemovedByState bool
	// LegacyFinalizers are finalizers of predecessors on the ClusterCSIDriver. A removal drops them.
	LegacyFinalizers []string
	// Assets has the driver's own objects in its folder assets (*.yaml); the objects that every driver has come from this package.
	Assets fs.FS
	// Sidecars are appended to the workloads, in this order.
	Sidecars []Sidecar
	// FurtherLeases are the names of Leases that containers in the assets create, in the driver's namespace.
	FurtherLeases []string
	// Credentials are the CredentialsRequests of the driver.
	Credentials []Credentials
	// Derived, if set, is a Secret for pods that the operator computes from other objects.
	Derived *Derived
	// Cloud, if set, lists the facts that the driver needs from its cloud.
	Cloud *Cloud
	// CloudClasses, if set, are the StorageClasses that depend on Config.Cloud.
	CloudClasses *CloudClasses
	// KeptSecrets, if set, are Secrets that the driver stores for volumes of some StorageClasses, outside of its namespace. No rendered RBAC
	// allows that.
	KeptSecrets *KeptSecrets
	// NamedSecrets, if set, are the Secrets that StorageClasses of the driver may name.
	NamedSecrets *NamedSecrets
	// MountsInPods: mounts of a node depend on processes in its node pod, and stall while the pod is replaced. The operator then replaces
	// node pods, idle nodes first; else Kubernetes does, a tenth of the nodes at a time.
	MountsInPods bool
	// LongWait, if set, returns advice for PVCs of a StorageClass with these parameters that stay Pending for long; empty if there is none.
	LongWait func(parameters map[string]string) (advice string)
	// Settings are read from the operator's environment.
	Settings []Setting
	// FeatureGates are the gates of the API server that rendering depends on.
	FeatureGates []FeatureGate
	// Obsolete lists objects of predecessors and earlier versions that the driver no longer needs.
	Obsolete Obsolete
	// LegacyConditions are condition types that predecessors may have left on the ClusterCSIDriver.
	LegacyConditions []string
	// Predecessors are the operators from which the driver can be migrated.
	Predecessors []Predecessor
	// Wanted, if set, reports whether a cluster gets a rendered object. Others are pruned.
	Wanted func(cfg Config, object client.Object) bool
	// Disabled, if set, says why a cluster does not need the driver; empty if it does. An installed driver stays.
	Disabled func(Config) string
	// Accepts is what the driver accepts from the cluster and from users, by version. Rendering omits everything else.
	Accepts accept.Table
	// Check, if set, reports further settings of a Config without effect, a sentence each. Rendering omits them.
	Check func(Config) []string
	// Mutations change rendered objects as the Config says, in this order.
	Mutations []Mutation
}

// Sidecar is a container that is added to a workload. Its asset is assets/sidecars/<Name>.yaml; its other objects, such as
// RBAC, are in assets/sidecars/<Name>/.
type Sidecar struct {
	Name     string
	Workload Workload
	// Args are appended to the arguments of the asset, followed by the flags of Metrics and the result of Options, if set.
	Args    []string
	Options func(Config) []string
	// Rights names files of assets/rights with further RBAC of the sidecar.
	Rights []string
	// Needs, if set, is an optional kind. A cluster without it gets neither the sidecar nor its objects.
	Needs schema.GroupKind
	// HealthPort is ${HEALTH_PORT} of the asset: the loopback port on which the sidecar serves its own or the driver's health.
	HealthPort int32
	// ProbeTimeout is the timeout of the liveness probe, and of the driver container's probes; empty means 3s.
	ProbeTimeout string
	// Metrics, if set, are scraped through a kube-rbac-proxy.
	Metrics *Metrics
}

// Metrics is a plain HTTP endpoint on loopback and the port on which kube-rbac-proxy offers it over HTTPS.
type Metrics struct {
	// Name is part of the names of the port, "<Name>-m", and of the proxy's container, "<Name>-kube-rbac-proxy". The proxy of the driver's own metrics
	// is "kube-rbac-proxy-<Loopback>", as in openshift/csi-operator f7f9dc59 assets/overlays/*/generated/standalone/controller.yaml.
	Name string
	// Loopback is the port of the plain endpoint, Port the HTTPS port that Prometheus scrapes.
	Loopback, Port int32
	// Flag is the container's flag for the address of the plain endpoint; empty means --http-endpoint, which all CSI sidecars have.
	Flag string
	// Fixed: the container has no such flag, and always uses port Loopback.
	Fixed bool
}

// KeptSecrets are Secrets that a driver stores in namespaces of users, if their RBAC allows it.
type KeptSecrets struct {
	// Namespace reports whether the driver stores Secrets for a StorageClass with these parameters, and where; empty means the namespace of the PVC.
	Namespace func(parameters map[string]string) (namespace string, keeps bool)
	// Advice says what to do about PVCs that wait for the permission.
	Advice string
}

// NamedSecrets are Secrets that StorageClasses name, and that the controller's sidecars read.
type NamedSecrets struct {
	// Granted is the Secret in the driver's namespace that rendered RBAC lets the controller read; empty if there is none.
	Granted string
	// Advice says what to do about other Secrets, which the controller may not read.
	Advice string
}

// Obsolete names objects to delete when nothing needs them.
type Obsolete struct {
	// ClusterRoleBindings granted RBAC to the controller's ServiceAccount only. They are deleted once our workloads are applied, and then the
	// ClusterRoles, which only they bound.
	ClusterRoleBindings, ClusterRoles []string
	// ConfigMaps may be mounted by predecessors of several drivers. They are deleted once no workload in the namespace mounts them.
	ConfigMaps []string
}

// FeatureGate is a gate of the API server. Without it, the API server drops the fields that belong to it.
type FeatureGate struct {
	Name string
	// OnSince is the minor version of Kubernetes 1 since which it is on by default.
	OnSince int
}

// Mutation changes rendered objects of one Go type.
type Mutation func(d Driver, cfg Config, object client.Object) error

// Mutate makes a Mutation for all objects of type T.
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
	// Namespace of the operands.
	Namespace string
	// Images maps the name of an environment variable, such as DRIVER_IMAGE, to an image reference.
	Images map[string]string
	// Kinds are the optional kinds that this cluster serves. Objects of other optional kinds are not rendered.
	Kinds map[schema.GroupKind]bool
	// ServingCertificates: the cluster signs certificates for Services, as OpenShift does.
	ServingCertificates bool
	// InfrastructureID names the cluster in tags, empty if unknown.
	InfrastructureID string
	// ControlPlaneTopology of the Infrastructure.
	ControlPlaneTopology configv1.TopologyMode
	// InfrastructureTopology of the workers; used with an external control plane.
	InfrastructureTopology configv1.TopologyMode
	// CredentialsMode of the CloudCredential; Manual on a cluster with STS.
	CredentialsMode operatorv1.CloudCredentialsMode
	// Minting says whether the cloud-credential-operator mints keys in default mode.
	Minting Minting
	// RoleARNs maps the name of an environment variable, such as ROLEARN, to the IAM role for STS.
	RoleARNs map[string]string
	// Proxy is the cluster's proxy; empty without one.
	Proxy configv1.ProxyStatus
	// TLS is the cluster's TLS profile for servers.
	TLS openshift.TLSProfile
	// FIPS: the cluster's nodes run in FIPS mode.
	FIPS bool
	// Region of the cloud; empty if unknown.
	Region string
	// CloudCA are the CA certificates of the cloud in PEM; empty if it has no CA of its own. A change of its hash in DependencyHashes
	// restarts the controller.
	CloudCA string
	// Platform is the platformStatus of the Infrastructure; nil if it has none.
	Platform *configv1.PlatformStatus
	// VSphere are the vCenters and failure domains that the administrator wrote into the Infrastructure; nil if there are none.
	VSphere *configv1.VSpherePlatformSpec
	// Classes are the StorageClasses in the cluster, and the VolumeSnapshotClasses of this driver.
	Classes []Class
	// Cloud has the answers of the cloud to Driver.Cloud.
	Cloud CloudFacts
	// ClassesInUse has the StorageClasses that Driver.CloudClasses would remove, but PersistentVolumes use.
	ClassesInUse map[string]bool
	// ResourceTags are the administrator's tags for all AWS resources of the cluster.
	ResourceTags []configv1.AWSResourceTag
	// Tags and Labels are the tags and labels of the Infrastructure that the driver accepts; Render fills them in by Driver.Accepts.
	Tags, Labels []accept.Pair
	// DependencyHashes are hashes of the Secrets and ConfigMaps that the pods of a workload read when they start, by name. A change
	// restarts the pods. The trusted CA bundle is mounted if it is among them.
	DependencyHashes map[Workload]map[string]string
	// Migrating: pods of a predecessor still run.
	Migrating bool
	// Rollout is the policy for replacing node pods of a driver with MountsInPods.
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

// metrics reports whether metrics can be scraped: without a certificate, the proxy in front of them does not start.
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

// OperandNamespace is the driver's namespace, given that of its operator.
func (d Driver) OperandNamespace(operators string) string { return cmp.Or(d.Namespace, operators) }

// Attaches reports whether volumes of the driver are attached to nodes, so that they have VolumeAttachments.
func (d Driver) Attaches() bool {
	return slices.ContainsFunc(d.Sidecars, func(sidecar Sidecar) bool { return sidecar.Name == "attacher" })
}

// TrustedCABundle is the name of the ConfigMap with the CA certificates that the cluster trusts.
func (d Driver) TrustedCABundle() string { return d.Prefix + "-trusted-ca-bundle" }

// Finalizer is the one finalizer of the operator on the ClusterCSIDriver.
func (d Driver) Finalizer() string {
	return d.Operator + ".operator.openshift.io/remove-driver"
}

// IsLegacy reports whether a finalizer belongs to a predecessor.
func (d Driver) IsLegacy(finalizer string) bool {
	return slices.Contains(d.LegacyFinalizers, finalizer)
}

// CheckImages returns one error. It names the image variables with spaces; without any, the empty ones.
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
		return fmt.Errorf("environment variables %s: an image reference must not contain spaces: correct them in the operator's Deployment "+
			"or in spec.config.env of its Subscription", strings.Join(blank, ", "))
	}
	if len(missing) > 0 {
		return fmt.Errorf("environment variables %v are empty: set each to the image that %s is to run, "+
			"in the operator's Deployment or in spec.config.env of its Subscription", missing, d.Name)
	}
	return nil
}
