package awsefs

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
)

// parse is what the driver does with --tags, by its documentation: tags are separated by spaces, key and value by a
// colon, and "\:" is a colon.
func parse(flag string) map[string]string {
	tags := map[string]string{}
	for _, tag := range strings.Split(flag, " ") {
		key, value, _ := strings.Cut(strings.ReplaceAll(tag, `\:`, "\x00"), ":")
		tags[strings.ReplaceAll(key, "\x00", ":")] = strings.ReplaceAll(value, "\x00", ":")
	}
	return tags
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
		"a space in the value":          {key: "name", value: "John Doe", refused: "separates tags by spaces"},
		"a space in the key":            {key: "cost center", value: "42", refused: "separates tags by spaces"},
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
			cfg := driver.Config{InfrastructureID: "dev-x7k2p", ResourceTags: []configv1.AWSResourceTag{{Key: tc.key, Value: tc.value}}}
			tags := parse(flagTags(cfg))
			if tags["kubernetes.io/cluster/dev-x7k2p"] != "owned" {
				t.Errorf("the cluster's own tag is not there: %q", tags)
			}
			problems := strings.Join(check(cfg), "\n")
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

func TestTheOrderOfResourceTagsDoesNotMatter(t *testing.T) {
	one := []configv1.AWSResourceTag{{Key: "b", Value: "1"}, {Key: "a", Value: "2"}}
	other := []configv1.AWSResourceTag{{Key: "a", Value: "2"}, {Key: "b", Value: "1"}}
	if a, b := flagTags(driver.Config{ResourceTags: one}), flagTags(driver.Config{ResourceTags: other}); a != b || a != "a:2 b:1" {
		t.Errorf("%q and %q", a, b)
	}
}

func TestIAMConditionsAreThoseOfThisClusterOnly(t *testing.T) {
	for id, want := range map[string]string{
		"":          "",
		"dev-x7k2p": "",
		"other":     "IAM_CLUSTER_ID=other is not followed: the Infrastructure cluster has infrastructureName dev-x7k2p",
	} {
		cfg := config(t, set("IAM_CLUSTER_ID", id))
		if got := strings.Join(check(cfg), "\n"); got != want {
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
