package main

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

// The operator and the driver are in the same network, with the same credentials: what one can't reach, the other can't.
func TestTheOperatorCallsTheSameEndpointsAsTheDriver(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/efs"
	used := 0
	for _, fips := range []bool{false, true} {
		for _, wanted := range []string{"", "true", "false"} {
			for _, region := range []string{"us-east-1", "ca-central-1", "us-gov-west-1", "us-iso-east-1", "eu-west-1", "cn-north-1", ""} {
				for _, endpoint := range []string{"", "ec2", "elasticfilesystem", "sts", "s3"} {
					for _, sts := range []string{"", role} {
						settings := map[string]string{"AWS_USE_FIPS_ENDPOINT": wanted}
						options := aws.Options{Region: region, Secret: &aws.Secret{RoleARN: sts}, Endpoints: map[string]string{}}
						cfg := driver.Config{
							FIPS: fips, Region: region, Settings: settings, RoleARNs: map[string]string{"ROLEARN": sts},
							Kinds:    map[schema.GroupKind]bool{driver.CredentialsRequestKind(): true},
							Platform: &configv1.PlatformStatus{AWS: &configv1.AWSPlatformStatus{}},
						}
						if sts != "" {
							cfg.CredentialsMode = operatorv1.CloudCredentialsModeManual
						}
						if endpoint != "" {
							options.Endpoints[endpoint] = "https://vpce.example.com"
							cfg.Platform.AWS.ServiceEndpoints = []configv1.AWSServiceEndpoint{{Name: endpoint, URL: "https://vpce.example.com"}}
						}
						operator := fipsEndpoints(clustercsidriver.Environment{FIPS: fips, Settings: settings}, options)
						if pods, _ := awsefs.UsesFIPSEndpoints(cfg); pods != operator {
							t.Errorf("FIPS %v, wanted %q, region %q, endpoint of %q, role %q: the driver %v, the operator %v", fips, wanted, region, endpoint, sts, pods, operator)
						}
						if operator {
							used++
						}
					}
				}
			}
		}
	}
	// FIPS mode without a wish, or the wish with or without the mode, in us, gov, and ca without STS; with no endpoint, one of s3, and without a
	// role one of STS.
	if want := 3 * (2*(3+2) + 3); used != want {
		t.Errorf("%d of all cases use FIPS endpoints, want %d", used, want)
	}
}
