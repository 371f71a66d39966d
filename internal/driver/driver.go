// Package driver describes a CSI driver as data and renders every object that installs it.
//
// Rendering is pure: it reads no cluster and has no state. The same Config always gives the same objects, so golden files show the whole effect of a
// change. render.go fills the placeholders in the assets of all drivers, of the sidecars and of the driver itself, and decodes the objects. Then it
// adds sidecars and their metrics (sidecar.go) and CredentialsRequests, applies the mutations of the driver, sets our label, and sorts. After any
// error, nothing is applied.
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

// WorkloadOf returns the workload that an object is: Controller or Node. It returns an empty Workload for all other objects, and for further
// Deployments and DaemonSets of the driver.
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

// Holds maps a workload to the reason why the operator does not apply the workload yet. The reason names what the workload's pods need and what is
// missing.
type Holds map[Workload]string

// Driver describes one CSI driver. The code of the operator is the same for all drivers.
type Driver struct {
	// Name is the CSI name, which is also the name of the ClusterCSIDriver.
	Name string
	// Operator is the name of the program that manages the driver. The same name is the field manager, the value of our label, and the prefix of the
	// finalizer.
	Operator string
	// Prefix is the beginning of the names of namespaced objects, for instance "aws-efs-csi-driver".
	Prefix string
	// ShortPrefix is the beginning of the names of cluster-scoped RBAC objects, for instance "efs".
	ShortPrefix string
	// ConditionPrefix is the beginning of the condition types that other tools read, for instance "AWSEFS".
	ConditionPrefix string
	// Platform is the platform of the driver; empty means every platform. Node pods of drivers of one platform share nodes and host ports. They also
	// share nodes and host ports with the drivers of every platform.
	Platform configv1.PlatformType
	// Namespace, if set, is the namespace of the driver, and exists before the operator starts. Without it, the driver uses the namespace of its
	// operator.
	Namespace string
	// DaemonSet and Deployment are the names of the two workloads.
	DaemonSet, Deployment string
	// DaemonSets are the names of further DaemonSets. The operator need not wait for them, because a node pod becomes ready only if the pods that it
	// needs run on its node.
	DaemonSets []string
	// Deployments are the names of further Deployments. The operator gives them the same replicas, placement and restrictions as the controller, and
	// does not wait for them.
	Deployments []string
	// Selectors, if set, are the pod selectors of the two workloads, including label app. Without them, the selector is label app with the name of the
	// workload.
	Selectors map[Workload]map[string]string
	// Webhook, if set, is the name of the ValidatingWebhookConfiguration among the assets.
	Webhook string
	// StorageClass, if set, names the driver's only StorageClass. Earlier versions of the operator created this class. The operator keeps the class
	// where it exists, but never creates it, because the administrator owns the name. If StorageClass is empty, all StorageClasses among the assets
	// belong to the driver.
	StorageClass string
	// PrivilegedController means that the controller pods need OpenShift's privileged SCC. The controller pods of other drivers are restricted as far as
	// possible. Controller pods use the pod network, unless the driver's asset sets hostNetwork.
	PrivilegedController bool
	// CloudCAVariable, if set, is an environment variable of the controller's driver container. The operator sets it to the path of the CA certificates
	// of the driver's cloud. A driver with this variable has no dashboard, because the cache can hold only one ConfigMap of ManagedNamespace.
	CloudCAVariable string
	// Metrics are the metrics of the driver's own container, by workload.
	Metrics map[Workload]Metrics
	// FurtherMetrics are the metrics of other containers in the assets, by workload. These containers choose their own ports.
	FurtherMetrics map[Workload][]Metrics
	// Payload, if set, describes a driver of the OpenShift payload. Without it, administrators install the driver by OLM.
	Payload *Payload
	// Removable means that the operator removes the driver if managementState is Removed, or if the ClusterCSIDriver is deleted.
	Removable bool
	// RemovedByState means that managementState Removed removes the driver, but the deletion of the ClusterCSIDriver does not. This ClusterCSIDriver has
	// no finalizer, and the cluster-storage-operator creates it again.
	RemovedByState bool
	// LegacyFinalizers are finalizers of predecessors on the ClusterCSIDriver. When the operator removes the driver, it also removes these finalizers.
	LegacyFinalizers []string
	// Assets has the driver's own objects in its folder assets (*.yaml). The objects that every driver has are in this package.
	Assets fs.FS
	// Sidecars are appended to the workloads, in this order.
	Sidecars []Sidecar
	// FurtherLeases are the names of Leases that containers in the assets create, in the driver's namespace.
	FurtherLeases []string
	// Credentials are the CredentialsRequests of the driver.
	Credentials []Credentials
	// Derived, if set, is a Secret that pods mount. The operator computes its content from other objects.
	Derived *Derived
	// Cloud, if set, lists the facts that the driver needs from its cloud.
	Cloud *Cloud
	// CloudClasses, if set, are the StorageClasses that depend on Config.Cloud.
	CloudClasses *CloudClasses
	// KeptSecrets, if set, are Secrets that the driver stores in other namespaces, for volumes of some StorageClasses. Rendered RBAC does not allow the
	// driver to store these Secrets.
	KeptSecrets *KeptSecrets
	// NamedSecrets, if set, are the Secrets that StorageClasses of the driver can name.
	NamedSecrets *NamedSecrets
	// MountsInPods means that mounts of a node depend on processes in the node's pod, and stall during the replacement of this pod. Unless the policy is
	// RollingUpdate, the operator itself replaces the node pods of such a driver, beginning with the pods of idle nodes. For all other drivers,
	// Kubernetes replaces node pods, on a tenth of the nodes at a time.
	MountsInPods bool
	// StartupTaint, if set, is the key of a taint with which new nodes can register. The taint repels pods until the driver runs on the node. The
	// operator removes the taint from a node as soon as the CSINode lists the driver.
	StartupTaint string
	// LongWait, if set, returns advice for PVCs that are Pending for several minutes. The advice depends on the parameters of the StorageClass of these
	// PVCs. LongWait returns an empty text if it has no advice.
	LongWait func(parameters map[string]string) (advice string)
	// Settings are read from the operator's environment.
	Settings []Setting
	// FeatureGates are feature gates of the API server on which the rendering of this driver depends. Gates also returns the gate on which the rendering
	// of all drivers depends.
	FeatureGates []FeatureGate
	// Obsolete lists objects of predecessors and earlier versions that the driver no longer needs.
	Obsolete Obsolete
	// LegacyConditions are condition types that predecessors may have left on the ClusterCSIDriver.
	LegacyConditions []string
	// Predecessors are the operators from which the driver can be migrated.
	Predecessors []Predecessor
	// OptionalImages maps the variable of an image to the name of a setting. The driver needs the image only if the setting is true.
	OptionalImages map[string]string
	// Wanted, if set, reports whether the operator applies a rendered object. The operator prunes objects for which Wanted returns false.
	Wanted func(cfg Config, object client.Object) bool
	// Disabled, if set, says why a cluster does not need the driver. It returns an empty text if the cluster needs the driver. Disabled can only prevent
	// an installation: the operator never removes an installed driver because of Disabled.
	Disabled func(Config) string
	// Accepts says which values of the cluster and of users the driver accepts, by version. Rendering omits values that the driver does not accept.
	Accepts accept.Table
	// Changes lists values that newer versions of the driver accept, but treat in another way. Installers are other programs that install the driver,
	// with the versions that they install. A migration reads Changes and Installers.
	Changes    []accept.Change
	Installers []Installer
	// Zones are DNS domains, one for each partition of the cloud. Node pods resolve the names of the cloud's servers in these domains.
	Zones []string
	// Check, if set, returns one sentence for each setting that has no effect. It does not report values that Accepts rejects. Rendering omits the
	// settings without effect.
	Check func(Config) []string
	// Mutations change the rendered objects, one after the other, as the Config requires.
	Mutations []Mutation
}

// Sidecar is a container that is added to a workload. Its asset is assets/sidecars/<Name>.yaml; its other objects, such as
// RBAC, are in assets/sidecars/<Name>/.
type Sidecar struct {
	Name     string
	Workload Workload
	// Args are further arguments of the container. They come after the arguments in the asset, and before the flags of Metrics and the result of
	// Options.
	Args    []string
	Options func(Config) []string
	// Rights names files of assets/rights with further RBAC of the sidecar.
	Rights []string
	// Needs, if set, is an optional kind. A cluster that does not serve this kind gets neither the sidecar nor its objects.
	Needs schema.GroupKind
	// HealthPort is ${HEALTH_PORT} in the asset: the port on which the sidecar serves its own or the driver's health. On the host network, it is a
	// loopback port.
	HealthPort int32
	// ProbeTimeout is the timeout of the livenessprobe sidecar, and of the probes of the driver's container; empty means 3s.
	ProbeTimeout string
	// Metrics, if set, are scraped through a kube-rbac-proxy.
	Metrics *Metrics
}

// KeptSecrets are Secrets that a driver stores in namespaces of users. The driver can store them only if RBAC of the users allows it.
type KeptSecrets struct {
	// Namespace reports whether the driver stores Secrets for a StorageClass with these parameters (result keeps). It also returns the namespace of the
	// Secrets. An empty namespace means the namespace of the PVC.
	Namespace func(parameters map[string]string) (namespace string, keeps bool)
	// Advice says what to do about PVCs that wait for the permission.
	Advice string
}

// NamedSecrets are Secrets that StorageClasses name, and that the controller's sidecars read.
type NamedSecrets struct {
	// Granted names the Secret in the driver's namespace that rendered RBAC allows the controller to read. It is empty if rendered RBAC allows no
	// Secret.
	Granted string
	// Advice says what to do about Secrets other than Granted. Rendered RBAC does not allow the controller to read such Secrets.
	Advice string
}

// Obsolete names objects that the operator deletes when nothing needs them any more.
type Obsolete struct {
	// ClusterRoleBindings are obsolete bindings that grant rights only to the controller's ServiceAccount. ClusterRoles are roles that only these
	// bindings refer to. After the operator has applied our workloads, it deletes the bindings, and then the roles.
	ClusterRoleBindings, ClusterRoles []string
	// ConfigMaps are ConfigMaps that predecessors of several drivers can mount. The operator deletes a ConfigMap as soon as no workload in the namespace
	// mounts it.
	ConfigMaps []string
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

// Config is everything that rendering depends on. The operator reads it once per reconcile.
type Config struct {
	// Namespace is the namespace of the operands.
	Namespace string
	// Images maps the name of an environment variable, such as DRIVER_IMAGE, to an image reference.
	Images map[string]string
	// Kinds are the optional kinds that this cluster serves. Objects of other optional kinds are not rendered.
	Kinds map[schema.GroupKind]bool
	// ServingCertificates means that the cluster signs certificates for Services, as OpenShift does.
	ServingCertificates bool
	// InfrastructureID names the cluster in tags. It is empty if unknown.
	InfrastructureID string
	// ControlPlaneTopology is the field of this name in the status of the Infrastructure.
	ControlPlaneTopology configv1.TopologyMode
	// InfrastructureTopology is the topology of the workers. Rendering uses it only if the control plane is external, which means outside of the
	// cluster.
	InfrastructureTopology configv1.TopologyMode
	// CredentialsMode is the mode in the CloudCredential. It is Manual on a cluster with STS.
	CredentialsMode operatorv1.CloudCredentialsMode
	// Minting says whether the cloud-credential-operator mints keys in default mode.
	Minting Minting
	// RoleARNs maps the name of an environment variable, such as ROLEARN, to the IAM role for STS.
	RoleARNs map[string]string
	// Proxy is the cluster's proxy. It is empty if the cluster has no proxy.
	Proxy configv1.ProxyStatus
	// TLS is the cluster's TLS profile for servers.
	TLS openshift.TLSProfile
	// FIPS means that the cluster's nodes run in FIPS mode.
	FIPS bool
	// Region is the region of the cloud. It is empty if unknown.
	Region string
	// CloudCA has the CA certificates of the cloud in PEM. It is empty if the cloud has no CA of its own. The hash of CloudCA is in DependencyHashes, so
	// a change restarts the controller.
	CloudCA string
	// Platform is the platformStatus of the Infrastructure. It is nil if the Infrastructure has none.
	Platform *configv1.PlatformStatus
	// VSphere has the vCenters and failure domains that the administrator wrote into the Infrastructure. It is nil if the administrator wrote none.
	VSphere *configv1.VSpherePlatformSpec
	// Classes are the StorageClasses in the cluster, and the VolumeSnapshotClasses of this driver.
	Classes []Class
	// Cloud has what the cloud answered to the queries in Driver.Cloud.
	Cloud CloudFacts
	// ClassesInUse has the names of the StorageClasses that Driver.CloudClasses would remove, but that PersistentVolumes use.
	ClassesInUse map[string]bool
	// ResourceTags are the administrator's tags for all AWS resources of the cluster.
	ResourceTags []configv1.AWSResourceTag
	// Tags and Labels are the tags and labels of the Infrastructure that the driver accepts. Render computes them from Driver.Accepts.
	Tags, Labels []accept.Pair
	// DependencyHashes maps a workload to a map of hashes. The keys of this map are the names of the Secrets and ConfigMaps that the workload's pods
	// read when they start. A change of a hash restarts the pods. The pods mount the trusted CA bundle only if its hash is in the map.
	DependencyHashes map[Workload]map[string]string
	// Migrating means that pods of a predecessor still run.
	Migrating bool
	// Rollout is the policy for replacing node pods of a driver with MountsInPods.
	Rollout RolloutPolicy
	// FeatureGates has the gates of Driver.Gates that are on.
	FeatureGates map[string]bool
	// RequiresDriver means that the scheduler places a pod with volumes of the driver only on a node on which the driver is registered.
	RequiresDriver bool
	// Settings maps the name of an environment variable to its value. Driver.ReadSettings makes the map.
	Settings map[string]string
	// Spec is the desired state that the user wrote.
	Spec operatorv1.ClusterCSIDriverSpec
}

// LogVerbosity returns the klog level for a logLevel, as OpenShift maps it. An unknown or empty logLevel means Normal.
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

// metrics reports whether Prometheus can scrape metrics. Without a serving certificate, the proxy in front of the metrics does not start.
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

// OperandNamespace returns the namespace of the driver. Argument "operators" is the namespace of the driver's operator.
func (d Driver) OperandNamespace(operators string) string { return cmp.Or(d.Namespace, operators) }

// Attaches reports whether volumes of the driver are attached to nodes, so that they have VolumeAttachments.
func (d Driver) Attaches() bool {
	return slices.ContainsFunc(d.Sidecars, func(sidecar Sidecar) bool { return sidecar.Name == "attacher" })
}

// TrustedCABundle returns the name of the ConfigMap with the CA certificates that the cluster trusts.
func (d Driver) TrustedCABundle() string { return d.Prefix + "-trusted-ca-bundle" }

// Finalizer returns the finalizer that the operator sets on the ClusterCSIDriver.
func (d Driver) Finalizer() string {
	return d.Operator + ".operator.openshift.io/remove-driver"
}

// IsLegacy reports whether a finalizer belongs to a predecessor.
func (d Driver) IsLegacy(finalizer string) bool {
	return slices.Contains(d.LegacyFinalizers, finalizer)
}

// CheckImages returns one error for all wrong image variables. The error names the variables whose values contain spaces. If no value contains
// spaces, the error names the empty variables. An optional image may be empty if its setting is not true.
func (d Driver) CheckImages(images, settings map[string]string) error {
	var missing, blank []string
	for _, name := range d.Images() {
		setting, isOptional := d.OptionalImages[name]
		switch image := images[name]; {
		case image == "" && isOptional && settings[setting] != "true":
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
