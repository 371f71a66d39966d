package awsefs

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// What the two pods are told about FIPS: the mode of the tunnels, and the endpoints of AWS. The hosts are those of
// https://aws.amazon.com/compliance/fips/ and of the endpoint tables of aws-sdk-go-v2.
func TestFIPSModeInEachRegion(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/efs"
	for name, tc := range map[string]struct {
		fips     bool
		region   string
		endpoint string
		// sts means that the Secret has a role, and that the SDK uses a token.
		sts bool
		// wanted is the administrator's setting for FIPS endpoints.
		wanted string
		// endpoints means that FIPS endpoints are used. refused is the message if the administrator requests them in vain.
		endpoints bool
		refused   string
	}{
		"no FIPS mode": {region: "us-east-1"},
		"no FIPS mode, and the administrator wants it":         {region: "us-east-1", wanted: "true", endpoints: true},
		"us: EFS, EC2 and STS have hosts":                      {fips: true, region: "us-east-1", endpoints: true},
		"us with STS: STS has one, too":                        {fips: true, region: "us-west-2", sts: true, endpoints: true},
		"us with a private network: the administrator says so": {fips: true, region: "us-east-1", wanted: "false"},
		"us with an endpoint of EFS: the SDK refuses both":     {fips: true, region: "us-east-1", endpoint: "elasticfilesystem"},
		"us with an endpoint of EC2: the same":                 {fips: true, region: "us-east-1", endpoint: "ec2"},
		"us with STS and an endpoint of it: the same":          {fips: true, region: "us-east-1", endpoint: "sts", sts: true},
		"us with an endpoint of STS that nobody calls":         {fips: true, region: "us-east-1", endpoint: "sts", endpoints: true},
		"us with an endpoint of another service":               {fips: true, region: "us-east-1", endpoint: "s3", sts: true, endpoints: true},
		"us with an endpoint, and FIPS is wanted": {
			fips: true, region: "us-east-1", endpoint: "ec2", wanted: "true", refused: "sets an endpoint of ec2",
		},
		"ca: EFS and EC2 have hosts":              {fips: true, region: "ca-central-1", endpoints: true},
		"ca with STS: STS has none":               {fips: true, region: "ca-west-1", sts: true},
		"ca with STS, and FIPS is wanted":         {fips: true, region: "ca-central-1", sts: true, wanted: "true", refused: "STS has no FIPS endpoint in region ca-central-1"},
		"ca with an endpoint":                     {fips: true, region: "ca-central-1", endpoint: "elasticfilesystem"},
		"gov: the plain hosts of EC2 and STS are": {fips: true, region: "us-gov-west-1", endpoints: true},
		"gov with STS":                            {fips: true, region: "us-gov-east-1", sts: true, endpoints: true},
		"gov with an endpoint":                    {fips: true, region: "us-gov-west-1", endpoint: "elasticfilesystem"},
		"iso: EC2 and STS have none":              {fips: true, region: "us-iso-east-1"},
		"iso with STS":                            {fips: true, region: "us-iso-east-1", sts: true},
		"iso with an endpoint":                    {fips: true, region: "us-isob-east-1", endpoint: "ec2"},
		"iso, and FIPS is wanted":                 {fips: true, region: "us-iso-east-1", wanted: "true", refused: "AWS has no FIPS endpoints in region us-iso-east-1"},
		"eu: drivers from 3.1 on end there":       {fips: true, region: "eu-west-1"},
		"eu with STS":                             {fips: true, region: "eu-west-1", sts: true},
		"eu with an endpoint":                     {fips: true, region: "eu-west-1", endpoint: "ec2"},
		"eu, and FIPS is wanted":                  {fips: true, region: "eu-west-1", wanted: "true", refused: "AWS has no FIPS endpoints in region eu-west-1"},
		"cn: none":                                {fips: true, region: "cn-north-1"},
		"cn with STS":                             {fips: true, region: "cn-northwest-1", sts: true},
		"cn with an endpoint":                     {fips: true, region: "cn-north-1", endpoint: "sts", sts: true},
		"a region that nobody knows":              {fips: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, func(cfg *driver.Config) {
				cfg.FIPS, cfg.Region, cfg.Settings[useFIPSEndpoint] = tc.fips, tc.region, tc.wanted
				cfg.Platform = &configv1.PlatformStatus{AWS: &configv1.AWSPlatformStatus{}}
				if tc.endpoint != "" {
					cfg.Platform.AWS.ServiceEndpoints = []configv1.AWSServiceEndpoint{{Name: tc.endpoint, URL: "https://vpce.example.com"}}
				}
				if tc.sts {
					cfg.CredentialsMode, cfg.RoleARNs["ROLEARN"] = operatorv1.CloudCredentialsModeManual, role
				}
			})
			if got := environmentOf(t, cfg); got != environment(tc.fips, tc.endpoints)+"; "+environment(tc.fips, tc.endpoints) {
				t.Errorf("the pods are told %s, want %s", got, environment(tc.fips, tc.endpoints))
			}
			problems := strings.Join(check(cfg), "\n")
			if (problems == "") != (tc.refused == "") || !strings.Contains(problems, tc.refused) {
				t.Errorf("problems %q, want %q", problems, tc.refused)
			}
		})
	}
}

// Secrets that administrators create can have a role, which the cluster does not show.
func TestSecretsMadeByHandMayHoldARole(t *testing.T) {
	for name, change := range map[string]func(*driver.Config){
		"manual mode":                  func(cfg *driver.Config) { cfg.CredentialsMode = operatorv1.CloudCredentialsModeManual },
		"no cloud-credential-operator": func(cfg *driver.Config) { cfg.Kinds[driver.CredentialsRequestKind()] = false },
	} {
		cfg := config(t, change)
		cfg.FIPS, cfg.Region = true, "ca-central-1"
		if use, _ := UsesFIPSEndpoints(cfg); use {
			t.Errorf("%s: FIPS endpoints in Canada, where STS has none", name)
		}
	}
}

func environment(fips, endpoints bool) string {
	var all []string
	if fips {
		all = append(all, "FIPS_ENABLED=true")
	}
	if endpoints {
		all = append(all, "AWS_USE_FIPS_ENDPOINT=true")
	}
	return strings.Join(all, " ")
}

// environmentOf returns the FIPS variables of the driver's containers in both pods.
func environmentOf(t *testing.T, cfg driver.Config) string {
	t.Helper()
	var pods []string
	for _, object := range render(t, cfg) {
		pod := podOf(object)
		if pod == nil {
			continue
		}
		if _, isDaemonSet := object.(*appsv1.DaemonSet); isDaemonSet != (len(pods) == 0) {
			t.Fatalf("%s comes out of order", object.GetName())
		}
		var told []string
		for _, variable := range pod.Containers[0].Env {
			if strings.Contains(variable.Name, "FIPS") {
				told = append(told, variable.Name+"="+variable.Value)
			}
		}
		pods = append(pods, strings.Join(told, " "))
	}
	return strings.Join(pods, "; ")
}
