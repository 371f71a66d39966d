package awsebs

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

// What the controller is told about endpoints in FIPS mode: those of the Infrastructure, and nothing else. With both, the AWS SDK refuses every
// call ("FIPS and custom endpoint are not supported"); where AWS has no FIPS host, the SDK makes one up; and a private cluster may have
// a way to the plain hosts only (decision 0024). OpenShift's operator says the same (openshift/csi-operator f7f9dc59, aws_ebs.go:281).
func TestFIPSModeChangesNoEndpoint(t *testing.T) {
	for name, tc := range map[string]struct {
		region, endpoint string
		sts              bool
		want             string
	}{
		"us: a private cluster has no way to others": {region: "us-east-1", want: "AWS_REGION=us-east-1"},
		"us with STS: the same":                      {region: "us-east-1", sts: true, want: "AWS_REGION=us-east-1"},
		"us with an endpoint":                        {region: "us-east-1", endpoint: "https://vpce.example.com", want: "AWS_REGION=us-east-1 AWS_EC2_ENDPOINT=https://vpce.example.com"},
		"us with the FIPS endpoint by name": {
			region: "us-east-1", endpoint: "https://ec2-fips.us-east-1.amazonaws.com", sts: true,
			want: "AWS_REGION=us-east-1 AWS_EC2_ENDPOINT=https://ec2-fips.us-east-1.amazonaws.com",
		},
		"ca with STS: STS has no FIPS host":            {region: "ca-central-1", sts: true, want: "AWS_REGION=ca-central-1"},
		"ca with an endpoint":                          {region: "ca-central-1", endpoint: "https://vpce.example.com", want: "AWS_REGION=ca-central-1 AWS_EC2_ENDPOINT=https://vpce.example.com"},
		"gov: the plain hosts of EC2 and STS are FIPS": {region: "us-gov-west-1", want: "AWS_REGION=us-gov-west-1"},
		"gov with STS and an endpoint":                 {region: "us-gov-west-1", endpoint: "https://vpce.example.com", sts: true, want: "AWS_REGION=us-gov-west-1 AWS_EC2_ENDPOINT=https://vpce.example.com"},
		"iso: EC2 has no FIPS host":                    {region: "us-iso-east-1", sts: true, want: "AWS_REGION=us-iso-east-1"},
		"iso with an endpoint":                         {region: "us-isob-east-1", endpoint: "https://vpce.example.com", want: "AWS_REGION=us-isob-east-1 AWS_EC2_ENDPOINT=https://vpce.example.com"},
		"eu: EC2 has no FIPS host":                     {region: "eu-west-1", sts: true, want: "AWS_REGION=eu-west-1"},
		"eu with an endpoint":                          {region: "eu-west-1", endpoint: "https://vpce.example.com", want: "AWS_REGION=eu-west-1 AWS_EC2_ENDPOINT=https://vpce.example.com"},
		"cn: EC2 has no FIPS host":                     {region: "cn-north-1", want: "AWS_REGION=cn-north-1"},
		"cn with an endpoint":                          {region: "cn-north-1", endpoint: "https://vpce.example.com", sts: true, want: "AWS_REGION=cn-north-1 AWS_EC2_ENDPOINT=https://vpce.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := variants.Render(t, Driver(), func(cfg *driver.Config) {
				cfg.FIPS, cfg.Region = true, tc.region
				cfg.Platform.AWS = &configv1.AWSPlatformStatus{}
				if tc.endpoint != "" {
					cfg.Platform.AWS.ServiceEndpoints = []configv1.AWSServiceEndpoint{{Name: "ec2", URL: tc.endpoint}}
				}
				if tc.sts {
					cfg.CredentialsMode = operatorv1.CloudCredentialsModeManual
				}
			})
			for _, object := range objects {
				deployment, isDeployment := object.(*appsv1.Deployment)
				if !isDeployment {
					continue
				}
				var told []string
				for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
					if strings.Contains(variable.Name, "FIPS") || strings.Contains(variable.Name, "REGION") || strings.Contains(variable.Name, "ENDPOINT") && variable.Name != "CSI_ENDPOINT" {
						told = append(told, variable.Name+"="+variable.Value)
					}
				}
				if got := strings.Join(told, " "); got != tc.want {
					t.Errorf("the driver is told %s, want %s", got, tc.want)
				}
			}
		})
	}
}
