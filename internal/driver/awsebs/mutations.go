package awsebs

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// addTags tells the driver what to put on volumes and snapshots. By the tag with the cluster's ID they are found when the cluster is
// destroyed.
func addTags(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload != driver.Controller {
		return nil
	}
	var tags, id []string
	for _, tag := range cfg.ResourceTags {
		if refused(tag) == "" {
			tags = append(tags, tag.Key+"="+tag.Value)
		}
	}
	if cfg.InfrastructureID != "" {
		id = []string{cfg.InfrastructureID}
	}
	return pods.AddLists(map[string][]string{"--k8s-tag-cluster-id": id, "--extra-tags": tags})
}

// check lists the resource tags that the driver can't put on volumes.
func check(cfg driver.Config) []string {
	var problems []string
	for _, tag := range cfg.ResourceTags {
		if why := refused(tag); why != "" {
			problems = append(problems, fmt.Sprintf("resource tag %q=%q of the Infrastructure cluster is not put on volumes: %s", tag.Key, tag.Value, why))
		}
	}
	slices.Sort(problems)
	return problems
}

// refused says why a tag can't be used, or nothing. The driver would not start with it, or read another one (kubernetes-sigs/aws-ebs-csi-driver
// v1.64.0, pkg/driver/validation.go validateExtraTags; options.go parses the flag with MapStringString of k8s.io/component-base).
func refused(tag configv1.AWSResourceTag) string {
	reserved := func(prefix string) bool { return strings.HasPrefix(strings.ToLower(tag.Key), prefix) }
	switch {
	case tag.Key == "" || len(tag.Key) > 128 || len(tag.Value) > 256:
		return "AWS allows keys of 1 to 128 and values of up to 256 characters"
	case reserved("aws:"):
		return "AWS reserves keys that begin with aws:"
	case reserved("kubernetes.io") || reserved("ebs.csi.aws.com") || tag.Key == "CSIVolumeName" || tag.Key == "CSIVolumeSnapshotName":
		return "the driver sets keys of this kind itself"
	case strings.ContainsAny(tag.Key+tag.Value, ",\n") || strings.Contains(tag.Key, "="):
		return "the driver's flag --extra-tags separates tags by commas, and keys from values by ="
	case strings.TrimSpace(tag.Key) != tag.Key || strings.TrimSpace(tag.Value) != tag.Value:
		return "the driver's flag --extra-tags drops spaces at both ends"
	default:
		return ""
	}
}

// addRegion tells the controller where AWS is. The metadata of its instance can't be reached from the pod network. FIPS mode changes no
// endpoint (decision 0024): a private cluster may have a way to the plain ones only, and nobody could tell this operator so before storage
// is lost. Whoever wants FIPS endpoints names them in the Infrastructure, as for all of OpenShift.
func addRegion(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload != driver.Controller {
		return nil
	}
	container, err := pods.Container(driver.Container)
	if err != nil {
		return err
	}
	add := func(name, value string) {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
	}
	if cfg.Region != "" {
		add("AWS_REGION", cfg.Region)
	}
	if cfg.Platform != nil && cfg.Platform.AWS != nil {
		for _, endpoint := range cfg.Platform.AWS.ServiceEndpoints {
			if endpoint.Name == "ec2" {
				add("AWS_EC2_ENDPOINT", endpoint.URL)
			}
		}
	}
	return nil
}

// encrypt names the key of the ClusterCSIDriver in the StorageClasses.
func encrypt(cfg driver.Config, class *storagev1.StorageClass) error {
	config := cfg.Spec.DriverConfig
	if config.DriverType == operatorv1.AWSDriverType && config.AWS != nil && config.AWS.KMSKeyARN != "" {
		class.Parameters["kmsKeyId"] = config.AWS.KMSKeyARN
	}
	return nil
}
