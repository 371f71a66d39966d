package awsefs

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

// parsers are the versions in which the driver's parser changed, the last version with each, and what was recorded of it.
var parsers = []struct{ first, last, recorded string }{
	{"1.7.7", "2.1.11", "parsed-tags-2.1.11.json"}, {"2.1.12", "2.1.15", "parsed-tags-2.1.15.json"}, {"2.2.0", "3.4.1", "parsed-tags-3.4.1.json"},
}

func TestTagsAreReadAsEachVersionOfTheDriverReadsThem(t *testing.T) {
	for _, parser := range parsers {
		for _, version := range []string{parser.first, parser.last} {
			variants.CompareParser(t, accepts().At(version).List(accept.Tag), parser.recorded)
		}
	}
}

// with returns the flag of a driver version for one tag, and the message.
func with(image, version, key, value string) (tags map[string]string, problems string) {
	cfg := driver.Config{
		InfrastructureID: "dev-x7k2p", ResourceTags: []configv1.AWSResourceTag{{Key: key, Value: value}},
		Images: map[string]string{"DRIVER_IMAGE": image}, Settings: map[string]string{driver.VersionVariable: version},
	}
	problems = strings.Join(Driver().Problems(cfg), "\n")
	cfg.Tags = Driver().ResourceTags(cfg)
	tags, err := Driver().Accepted(cfg).List(accept.Tag).Read(flagTags(cfg))
	if err != nil {
		problems += err.Error()
	}
	return tags, problems
}

func TestResourceTagsReachTheDriverUnchangedOrAreRefused(t *testing.T) {
	cases := map[string]struct {
		key, value, refused string
	}{
		"plain":                         {key: "owner", value: "storage"},
		"colons":                        {key: "cost:center", value: "arn:aws:x"},
		"a colon at the end":            {key: "a:", value: ":"},
		"all characters":                {key: "a-_.:/=+@1", value: "Z+-@=/"},
		"no value":                      {key: "empty", value: ""},
		"a space in the value":          {key: "name", value: "John Doe"},
		"a space in the key":            {key: "cost center", value: "42"},
		"both":                          {key: " cost center:x ", value: " team a:b"},
		"a space at the end":            {key: "a", value: "b ", refused: "trims a space at the end of a value"},
		"a character that AWS refuses":  {key: "a", value: "b<c", refused: "AWS allows letters"},
		"a letter that ends as a space": {key: "a", value: "\u0120", refused: "outside of ASCII"},
		"a backslash":                   {key: `a\`, value: "b", refused: "AWS allows letters"},
		"a reserved key":                {key: "AWS:x", value: "b", refused: "reserves"},
		"the driver's own key":          {key: "efs.csi.aws.com/cluster", value: "false", refused: "sets this key itself"},
		"the key that marks ownership":  {key: "kubernetes.io/cluster/dev-x7k2p", value: "shared", refused: "sets this key itself"},
		"a key that is too long":        {key: strings.Repeat("k", 129), value: "b", refused: "1 to 128"},
		"a value that is too long":      {key: "a", value: strings.Repeat("v", 257), refused: "up to 256"},
		"a line break, in a hostile CR": {key: "a", value: "b\n--x", refused: "AWS allows letters"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tags, problems := with("registry.example/driver:v1", "", tc.key, tc.value)
			if tags["kubernetes.io/cluster/dev-x7k2p"] != "owned" {
				t.Errorf("the cluster's own tag is not there: %q", tags)
			}
			if tc.refused != "" {
				if len(tags) != 1 || !strings.Contains(problems, tc.refused) {
					t.Errorf("tags %q, problems %q; want it refused: %s", tags, problems, tc.refused)
				}
				return
			}
			if got, found := tags[tc.key]; !found || got != tc.value || len(tags) != 2 || problems != "" {
				t.Errorf("tags %q, problems %q", tags, problems)
			}
		})
	}
}

// Drivers of 2.1.0 to 2.1.11 read key "cost\" of a colon with a backslash, which AWS forbids: no volume could be made (issue 1689 of the driver).
// Newer ones read spaces as well (issue 1374).
func TestOneRuleForColonsAndSpacesFollowsTheVersionOfTheDriver(t *testing.T) {
	const colons, spaces = "have no way to write a colon", "have no way to write a space"
	for name, tc := range map[string]struct{ image, setting, key, value, refused string }{
		"colons, 2.1.0":             {"public.ecr.aws/efs-csi-driver/amazon/aws-efs-csi-driver:v2.1.0", "", "cost:center", "a=1:b", colons},
		"colons, 2.1.11":            {"mirror.example:5000/driver:v2.1.11", "", "cost:center", "a=1:b", colons},
		"a colon in the value":      {"mirror.example:5000/driver:v2.1.11-eksbuild.1", "", "a", "b:c", colons},
		"colons, 2.1.12":            {"mirror.example/driver:v2.1.12", "", "cost:center", "a=1:b", ""},
		"spaces, 2.1.15":            {"mirror.example/driver:2.1.15", "", "Cost Center", "Team A", spaces},
		"spaces, 2.2.0":             {"mirror.example/driver:v2.2.0", "", "Cost Center", "Team A", ""},
		"spaces, the shipped image": {"quay.io/csi-operators/aws-efs-csi-driver:v5.3.0", "", "Cost Center", "Team A", ""},
		"a digest":                  {"mirror.example/driver@sha256:0123", "", "Cost Center", "Team: A", ""},
		"a digest with its version": {"mirror.example/driver@sha256:0123", "2.1.3", "a", "b:c", colons},
		"a tag beside a digest":     {"mirror.example/driver:v2.1.3@sha256:0123", "", "a", "b:c", colons},
		"the setting counts":        {"mirror.example/driver:v2.1.3", "3.4.1", "a", "b:c", ""},
		"a tag of OpenShift":        {"registry.example/ose-aws-efs-csi-driver-rhel9:v4.20", "", "a", "b:c", ""},
		"plain, the oldest":         {"mirror.example/driver:v2.1.0", "", "owner", "storage", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tags, problems := with(tc.image, tc.setting, tc.key, tc.value)
			value, found := tags[tc.key]
			if tags["kubernetes.io/cluster/dev-x7k2p"] != "owned" || found != (tc.refused == "") || value != tc.value && found {
				t.Errorf("tags %q", tags)
			}
			if (problems == "") != (tc.refused == "") || !strings.Contains(problems, tc.refused) {
				t.Errorf("problems %q, want %q", problems, tc.refused)
			}
		})
	}
}

func TestTheOrderOfResourceTagsDoesNotMatter(t *testing.T) {
	one := []configv1.AWSResourceTag{{Key: "b", Value: "1"}, {Key: "a", Value: "2"}}
	other := []configv1.AWSResourceTag{{Key: "a", Value: "2"}, {Key: "b", Value: "1"}}
	flag := func(tags []configv1.AWSResourceTag) string {
		return flagTags(driver.Config{Tags: Driver().ResourceTags(driver.Config{ResourceTags: tags})})
	}
	if a, b := flag(one), flag(other); a != b || a != "a:2 b:1" {
		t.Errorf("%q and %q", a, b)
	}
}

func TestIAMConditionsAreThoseOfThisClusterOnly(t *testing.T) {
	for id, want := range map[string]string{
		"":          "",
		"dev-x7k2p": "",
		"other":     `IAM_CLUSTER_ID=other is ignored: the Infrastructure "cluster" has another infrastructureName, dev-x7k2p`,
	} {
		cfg := config(t, set("IAM_CLUSTER_ID", id))
		if got := strings.Join(Driver().Problems(cfg), "\n"); got != want {
			t.Errorf("%q: problems %q, want %q", id, got, want)
		}
		conditions := 0
		for _, object := range render(t, cfg) {
			request, isRequest := object.(*cloudcredentialv1.CredentialsRequest)
			if !isRequest {
				continue
			}
			for _, entry := range request.Spec.ProviderSpec.StatementEntries {
				for _, condition := range entry.PolicyCondition {
					for key, value := range condition {
						if strings.Contains(key, "kubernetes.io/cluster/") && value == "owned" {
							conditions++
						}
					}
				}
			}
		}
		if wanted := map[string]int{"dev-x7k2p": 2}[id]; conditions != wanted {
			t.Errorf("%q: %d conditions on the tag of the cluster, want %d", id, conditions, wanted)
		}
	}
}
