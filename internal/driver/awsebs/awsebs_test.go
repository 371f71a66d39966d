package awsebs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

func TestRenderMatchesReviewedFiles(t *testing.T) {
	variants.CompareAll(t, Driver(), map[string]func(*driver.Config){
		"region": func(cfg *driver.Config) { cfg.Region = "eu-west-1" },
		"endpoint": func(cfg *driver.Config) {
			cfg.Platform.AWS = &configv1.AWSPlatformStatus{ServiceEndpoints: []configv1.AWSServiceEndpoint{
				{Name: "ec2", URL: "https://ec2.example"}, {Name: "sts", URL: "https://sts.example"},
			}}
		},
		"cloud-ca": func(cfg *driver.Config) {
			cfg.CloudCA = "-----BEGIN CERTIFICATE-----\nbWFkZSB1cA==\n-----END CERTIFICATE-----\n"
			cfg.DependencyHashes = map[driver.Workload]map[string]string{driver.Controller: {Driver().CloudCABundle(): "9abc"}}
		},
		"fips":                   func(cfg *driver.Config) { cfg.FIPS, cfg.Region = true, "us-gov-west-1" },
		"allocatable-can-change": func(cfg *driver.Config) { cfg.FeatureGates = map[string]bool{driver.AllocatableGate().Name: true} },
		"taking-over":            func(cfg *driver.Config) { cfg.Migrating = true },
		"tags": func(cfg *driver.Config) {
			cfg.ResourceTags = []configv1.AWSResourceTag{{Key: "owner", Value: "storage"}, {Key: "cost:center", Value: "a=1"}}
		},
		"encryption-key": func(cfg *driver.Config) {
			cfg.Spec.DriverConfig = operatorv1.CSIDriverConfigSpec{
				DriverType: operatorv1.AWSDriverType,
				AWS:        &operatorv1.AWSCSIDriverConfigSpec{KMSKeyARN: "arn:aws:kms:us-east-1:123456789012:key/1234"},
			}
		},
	})
}

func TestTagsReachTheDriverOrAreRefused(t *testing.T) {
	cases := map[string]struct{ key, value, refused string }{
		"plain":                        {key: "owner", value: "storage"},
		"no value":                     {key: "empty"},
		"an equals sign in the value":  {key: "a", value: "b=c"},
		"a space":                      {key: "cost center", value: "John Doe"},
		"an equals sign in the key":    {key: "a=b", value: "c", refused: "separates tags by commas"},
		"a space at the end":           {key: "a", value: "b ", refused: "trims spaces"},
		"nothing but a space":          {key: " ", value: "b", refused: "trims spaces"},
		"a comma":                      {key: "a", value: "b,c", refused: "separates tags by commas"},
		"a key that AWS reserves":      {key: "AWS:x", value: "b", refused: "AWS reserves"},
		"the key that marks ownership": {key: "kubernetes.io/cluster/dev-x7k2p", value: "shared", refused: "sets keys of this kind itself"},
		"a key of the driver":          {key: "ebs.csi.aws.com/cluster", value: "true", refused: "sets keys of this kind itself"},
		"a key that is too long":       {key: strings.Repeat("k", 129), refused: "1 to 128"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var flags []string
			change := func(cfg *driver.Config) {
				cfg.ResourceTags = []configv1.AWSResourceTag{{Key: tc.key, Value: tc.value}}
				if problems := strings.Join(Driver().Problems(*cfg), "\n"); (tc.refused == "") != (problems == "") || !strings.Contains(problems, tc.refused) {
					t.Errorf("problems %q, want %q", problems, tc.refused)
				}
			}
			for _, object := range variants.Render(t, Driver(), change) {
				if deployment, ok := object.(*appsv1.Deployment); ok {
					for _, argument := range deployment.Spec.Template.Spec.Containers[0].Args {
						if strings.Contains(argument, "tag") {
							flags = append(flags, argument)
						}
					}
				}
			}
			want := []string{"--extra-tags=" + tc.key + "=" + tc.value, "--k8s-tag-cluster-id=dev-x7k2p"}
			if tc.refused != "" {
				want = want[1:]
			}
			if diff := cmp.Diff(want, flags); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
		})
	}
}

// How a cluster hands out credentials is no matter of these pods: the request comes with the release, and the SDK takes what the
// Secret has.
func TestCredentialsChangeNothing(t *testing.T) {
	base := variants.Render(t, Driver(), nil)
	for _, change := range []func(*driver.Config){
		func(cfg *driver.Config) { cfg.CredentialsMode = operatorv1.CloudCredentialsModeManual },
		func(cfg *driver.Config) { cfg.Kinds[driver.CredentialsRequestKind()] = true },
	} {
		if diff := cmp.Diff(base, variants.Render(t, Driver(), change)); diff != "" {
			t.Errorf("objects (-base +changed):\n%s", diff)
		}
	}
}

func TestTagsAreReadAsTheDriverReadsThem(t *testing.T) {
	variants.CompareParser(t, accepts().List(accept.Tag), "parsed-tags.json")
}
