package driver

import (
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// Services of AWS, by the names of their endpoints in an Infrastructure.
const (
	EC2 = "ec2"
	EFS = "elasticfilesystem"
	STS = "sts"
)

// fipsEndpoints reports whether a program that calls these services of AWS can use FIPS endpoints. If the program can't, result "why" is the reason.
// One variable, AWS_USE_FIPS_ENDPOINT, switches all services of a program. The SDK constructs the name of a FIPS host for every region, even if AWS
// has no such host. The SDK rejects FIPS with a custom endpoint ("FIPS and custom endpoint are not supported"). Argument "named" maps a service to
// its endpoint in the Infrastructure.
//
// Source of the hosts: https://aws.amazon.com/compliance/fips/, and internal/endpoints/endpoints.go of the modules
// aws-sdk-go-v2/service/{ec2 v1.344.1, efs v1.41.18, sts v1.51.8}.
func fipsEndpoints(region string, named map[string]string, services []string) (use bool, why string) {
	for _, service := range services {
		if named[service] != "" {
			return false, fmt.Sprintf("the Infrastructure sets an endpoint of %s, which the AWS SDK can't combine with FIPS", service)
		}
	}
	switch {
	case region == "":
		return false, "the region is unknown"
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

// awsEndpoints returns the endpoints in the Infrastructure, by service.
func (c Config) awsEndpoints() map[string]string {
	named := map[string]string{}
	if c.Platform != nil && c.Platform.AWS != nil {
		for _, endpoint := range c.Platform.AWS.ServiceEndpoints {
			named[endpoint.Name] = endpoint.URL
		}
	}
	return named
}

// WantsFIPSEndpoints reports whether pods that call these services use FIPS endpoints. If a setting asks for FIPS endpoints that the pods can't use,
// result "refused" says why. If the setting is empty, pods use FIPS endpoints if the cluster is in FIPS mode and AWS has the hosts.
// WantsFIPSEndpoints adds STS to the services if a Secret can name a role.
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
		refused = fmt.Sprintf("%s=true is ignored: %s; remove it, or set FIPS endpoints in spec.platformSpec.aws.serviceEndpoints "+
			"of the Infrastructure cluster", setting, why)
	}
	return use, refused
}

// mayAssumeRoles reports whether a Secret can name a role. It returns true if a role is configured, or if an administrator creates Secrets by hand or
// with ccoctl.
func (c Config) mayAssumeRoles() bool {
	for _, role := range c.RoleARNs {
		if role != "" {
			return true
		}
	}
	return c.CredentialsMode == operatorv1.CloudCredentialsModeManual || !c.Kinds[CredentialsRequestKind()]
}
