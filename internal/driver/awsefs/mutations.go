package awsefs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/csi-operators/csi-operators/internal/driver"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
)

func mutations() []driver.Mutation {
	return []driver.Mutation{
		driver.MutatePods(configureController),
		driver.MutatePods(allowMounts),
		driver.MutatePods(addMountIdentity),
		driver.MutatePods(configureNodes),
		// The driver copies the second variable into the configuration of the mount helper, because some helpers read neither variable (driver v3.4.1,
		// pkg/driver/efs_watch_dog.go updateConfig).
		driver.NameRegion(driverContainer, "AWS_REGION", "AWS_DEFAULT_REGION"),
		driver.MutatePods(enableFIPS),
		driver.MutatePods(serveHealth),
		driver.Mutate(allowMountsInEFS),
		driver.Mutate(nameProvisionerBinding),
		driver.Mutate(restrictToCluster),
		driver.ReadNodes("get"),
	}
}

// nameProvisionerBinding gives the provisioner's binding a name that OpenShift's operator does not use. That operator binds another role under the
// common name, and never recreates a binding to change its roleRef. If our binding had the common name, that operator would stay Degraded after a
// rollback (library-go 2026-07-21, pkg/operator/resource/resourceapply/rbac.go ApplyClusterRoleBinding).
func nameProvisionerBinding(_ driver.Config, binding *rbacv1.ClusterRoleBinding) error {
	if binding.Name == commonProvisionerBinding {
		binding.Name = "efs-csi-provisioner-binding"
	}
	return nil
}

// configureController adds the arguments of the driver that depend on the cluster.
func configureController(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload != driver.Controller {
		return nil
	}
	container, err := pods.Container(driverContainer)
	if err != nil {
		return err
	}
	container.Args = append(container.Args, "--delete-access-point-root-dir="+cfg.Settings[deleteRootDir])
	return pods.AddValue("--tags", flagTags(cfg))
}

// allowMounts makes the controller's driver container privileged if this container mounts file systems. The provisioner then needs the same
// privileges, because it uses the driver's socket.
func allowMounts(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload != driver.Controller || cfg.Settings[deleteRootDir] != "true" {
		return nil
	}
	yes := true
	for name, readOnly := range map[string]*bool{driverContainer: nil, "csi-provisioner": &yes} {
		container, err := pods.Container(name)
		if err != nil {
			return err
		}
		container.SecurityContext = &corev1.SecurityContext{Privileged: &yes, ReadOnlyRootFilesystem: readOnly}
	}
	return nil
}

// configureNodes adds the memory limit, the limit of volumes and the volume metrics to the node pods.
func configureNodes(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload != driver.Node {
		return nil
	}
	container, err := pods.Container(driverContainer)
	if err != nil {
		return err
	}
	if limit := cfg.Settings[nodeMemoryLimit]; limit != "" {
		quantity, err := resource.ParseQuantity(limit)
		if err != nil {
			return fmt.Errorf("%s: %w", nodeMemoryLimit, err)
		}
		container.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: quantity}
	}
	if limit := cfg.Settings[volumeAttachLimit]; limit != "" {
		container.Args = append(container.Args, "--volume-attach-limit-opt-in=true", "--volume-attach-limit="+limit)
	}
	container.Args = append(container.Args, volumeMetrics(cfg.Spec.DriverConfig)...)
	return nil
}

// volumeMetrics returns the arguments for spec.driverConfig.aws.efsVolumeMetrics. For unset fields, it uses the defaults that OpenShift's API
// documents.
func volumeMetrics(config operatorv1.CSIDriverConfigSpec) []string {
	if config.DriverType != operatorv1.AWSDriverType || config.AWS == nil || config.AWS.EFSVolumeMetrics == nil ||
		config.AWS.EFSVolumeMetrics.State != operatorv1.AWSEFSVolumeMetricsRecursiveWalk {
		return nil
	}
	refreshMinutes, rateLimit := int32(240), int32(5)
	if walk := config.AWS.EFSVolumeMetrics.RecursiveWalk; walk != nil {
		if walk.RefreshPeriodMinutes != 0 {
			refreshMinutes = walk.RefreshPeriodMinutes
		}
		if walk.FSRateLimit != 0 {
			rateLimit = walk.FSRateLimit
		}
	}
	return []string{
		"--vol-metrics-opt-in=true",
		fmt.Sprintf("--vol-metrics-refresh-period=%d", refreshMinutes),
		fmt.Sprintf("--vol-metrics-fs-rate-limit=%d", rateLimit),
	}
}

// enableFIPS switches the tunnels of both pods to FIPS. It also switches the driver's calls to AWS to FIPS endpoints, where AWS has such endpoints.
func enableFIPS(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload == "" {
		return nil
	}
	container, err := pods.Container(driverContainer)
	if err != nil {
		return err
	}
	if cfg.FIPS {
		container.Env = append(container.Env, corev1.EnvVar{Name: "FIPS_ENABLED", Value: "true"})
	}
	if use, _ := UsesFIPSEndpoints(cfg); use {
		container.Env = append(container.Env, corev1.EnvVar{Name: useFIPSEndpoint, Value: "true"})
	}
	return nil
}

// UsesFIPSEndpoints reports whether the driver's pods use FIPS endpoints of AWS. If the administrator wants FIPS endpoints, but the pods don't use
// them, result "refused" says why. Drivers from 3.1 on exit in regions without FIPS endpoints (kubernetes-sigs/aws-efs-csi-driver v3.4.1,
// pkg/cloud/cloud.go, validateFIPSRegion).
func UsesFIPSEndpoints(cfg driver.Config) (use bool, refused string) {
	return cfg.WantsFIPSEndpoints(useFIPSEndpoint, driver.EFS, driver.EC2)
}

// restrictToCluster limits the controller to access points with the tag of this cluster. Without this limit, the controller could change the access
// points of all clusters in the account.
func restrictToCluster(cfg driver.Config, request *cloudcredentialv1.CredentialsRequest) error {
	id := cfg.Settings[iamClusterID]
	if id == "" || (cfg.InfrastructureID != "" && cfg.InfrastructureID != id) || request.Spec.SecretRef.Name != controllerSecret {
		return nil
	}
	for _, entry := range request.Spec.ProviderSpec.StatementEntries {
		for _, condition := range entry.PolicyCondition {
			for _, key := range slices.Collect(maps.Keys(condition)) {
				if scope, isTag := strings.CutSuffix(key, DriverTag); isTag {
					condition[scope+driver.ClusterTag(id)] = "owned"
				}
			}
		}
	}
	return nil
}
