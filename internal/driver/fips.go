package driver

import (
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// The services of AWS, as an Infrastructure names their endpoints.
const (
	EC2 = "ec2"
	EFS = "elasticfilesystem"
	STS = "sts"
)

// fipsEndpoints tells whether a program that calls these services of AWS can use FIPS endpoints, and if not, why. One
// variable, AWS_USE_FIPS_ENDPOINT, switches all services of a program. The SDK makes up a host for every region, and refuses FIPS for a
// service whose endpoint is named ("FIPS and custom endpoint are not supported"). Named are the endpoints of the Infrastructure, by
// service.
//
// Where AWS has which host: https://aws.amazon.com/compliance/fips/, and internal/endpoints/endpoints.go of the modules
// aws-sdk-go-v2/service/{ec2 v1.344.1, efs v1.41.18, sts v1.51.8}.
func fipsEndpoints(region string, named map[string]string, services []string) (use bool, why string) {
	for _, service := range services {
		if named[service] != "" {
			return false, fmt.Sprintf("the Infrastructure names an endpoint of %s, and the AWS SDK refuses FIPS beside that", service)
		}
	}
	switch {
	case region == "":
		return false, "the region is not known"
	case strings.HasPrefix(region, "us-east-"), strings.HasPrefix(region, "us-west-"), strings.HasPrefix(region, "us-gov-"):
		return true, ""
	case strings.HasPrefix(region, "ca-") && slices.Contains(services, STS):
		return false, "STS has no FIPS endpoint in region " + region
	case strings.HasPrefix(region, "ca-"):
		return true, ""
	default:
		return false, "AWS has no FIPS endpoints in region " + region
	}
}

// awsEndpoints are the endpoints that the Infrastructure names, by service.
func (c Config) awsEndpoints() map[string]string {
	named := map[string]string{}
	if c.Platform != nil && c.Platform.AWS != nil {
		for _, endpoint := range c.Platform.AWS.ServiceEndpoints {
			named[endpoint.Name] = endpoint.URL
		}
	}
	return named
}

// WantsFIPSEndpoints tells whether pods that call these services use FIPS endpoints, and why they can't although the administrator wants it
// by a setting. If that is empty, they do in FIPS mode where AWS has the hosts. They call STS where a Secret may name a role.
func (c Config) WantsFIPSEndpoints(setting string, services ...string) (use bool, refused string) {
	wanted := c.Settings[setting]
	if wanted == "false" || (wanted == "" && !c.FIPS) {
		return false, ""
	}
	if c.mayAssumeRoles() {
		services = append(slices.Clone(services), STS)
	}
	use, why := fipsEndpoints(c.Region, c.awsEndpoints(), services)
	if wanted == "true" && !use {
		refused = fmt.Sprintf("%s=true is not followed: %s; leave it out, or name FIPS endpoints in spec.platformSpec.aws.serviceEndpoints "+
			"of the Infrastructure cluster", setting, why)
	}
	return use, refused
}

// mayAssumeRoles tells whether a Secret may hold a role: where one is configured, and where somebody makes Secrets by hand or with ccoctl.
func (c Config) mayAssumeRoles() bool {
	for _, role := range c.RoleARNs {
		if role != "" {
			return true
		}
	}
	return c.CredentialsMode == operatorv1.CloudCredentialsModeManual || !c.Kinds[CredentialsRequestKind()]
}
