package awsebs

import (
	"errors"

	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

// addTags sets the tags of volumes and snapshots. When the installer destroys the cluster, it finds volumes and snapshots by the tag with the
// cluster's ID.
func addTags(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload != driver.Controller {
		return nil
	}
	if err := pods.AddValue("--extra-tags", accepts().List(accept.Tag).Text(cfg.Tags)); err != nil {
		return err
	}
	return pods.AddValue("--k8s-tag-cluster-id", cfg.InfrastructureID)
}

// addRegion sets the controller's region and endpoint. The controller is on the pod network, so it can't ask the instance metadata. FIPS mode changes
// no endpoint (decision 0024). Some private clusters can reach only the plain endpoints, so FIPS endpoints would break their storage. Administrators
// set FIPS endpoints in the Infrastructure, as for all of OpenShift.
func addRegion(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload != driver.Controller {
		return nil
	}
	problems := []error{pods.AddVariable(driver.Container, "AWS_REGION", cfg.Region)}
	if cfg.Platform != nil && cfg.Platform.AWS != nil {
		for _, endpoint := range cfg.Platform.AWS.ServiceEndpoints {
			if endpoint.Name == driver.EC2 {
				problems = append(problems, pods.AddVariable(driver.Container, "AWS_EC2_ENDPOINT", endpoint.URL))
			}
		}
	}
	return errors.Join(problems...)
}

// encrypt sets the KMS key of the ClusterCSIDriver in the StorageClasses.
func encrypt(cfg driver.Config, class *storagev1.StorageClass) error {
	config := cfg.Spec.DriverConfig
	if config.DriverType == operatorv1.AWSDriverType && config.AWS != nil && config.AWS.KMSKeyARN != "" {
		class.Parameters["kmsKeyId"] = config.AWS.KMSKeyARN
	}
	return nil
}
