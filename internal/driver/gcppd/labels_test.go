package gcppd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

// The API of OpenShift accepts each of these tags. The driver splits its flag at commas, and ends when a part is no tag.
func TestLabelsAndTagsReachTheDriverOrAreRefused(t *testing.T) {
	tag := func(value string) configv1.GCPResourceTag {
		return configv1.GCPResourceTag{ParentID: "123456789012", Key: "owners", Value: value}
	}
	const own = "--extra-labels=kubernetes-io-cluster-dev-x7k2p=owned"
	for name, tc := range map[string]struct {
		label         configv1.GCPResourceLabel
		tag           configv1.GCPResourceTag
		flags, refuse string
	}{
		"plain": {
			label: configv1.GCPResourceLabel{Key: "owner", Value: "storage"}, tag: tag("team-a"),
			flags: "--extra-labels=kubernetes-io-cluster-dev-x7k2p=owned,owner=storage --extra-tags=123456789012/owners/team-a",
		},
		"a comma in a tag":    {tag: tag("team-a,team-b"), flags: own, refuse: `"123456789012/owners"="team-a,team-b"`},
		"all characters":      {tag: tag("a_.@%=+:*#&()[]{}-a"), flags: own + " --extra-tags=123456789012/owners/a_.@%=+:*#&()[]{}-a"},
		"a project as parent": {tag: configv1.GCPResourceTag{ParentID: "project-1", Key: "a", Value: "b"}, flags: own + " --extra-tags=project-1/a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			change := gcp(func(gcp *configv1.GCPPlatformStatus) {
				if tc.label.Key != "" {
					gcp.ResourceLabels = []configv1.GCPResourceLabel{tc.label}
				}
				if tc.tag.Key != "" {
					gcp.ResourceTags = []configv1.GCPResourceTag{tc.tag}
				}
			})
			var flags []string
			for _, object := range variants.Render(t, Driver(), func(cfg *driver.Config) {
				change(cfg)
				if problems := Driver().Problems(*cfg); (tc.refuse == "") != (len(problems) == 0) || !strings.Contains(strings.Join(problems, " "), tc.refuse) {
					t.Errorf("problems %q, want %q", problems, tc.refuse)
				}
			}) {
				if deployment, ok := object.(*appsv1.Deployment); ok {
					for _, argument := range deployment.Spec.Template.Spec.Containers[0].Args {
						if strings.HasPrefix(argument, "--extra-") {
							flags = append(flags, argument)
						}
					}
				}
			}
			if diff := cmp.Diff(tc.flags, strings.Join(flags, " ")); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLabelsAndTagsAreReadAsTheDriverReadsThem(t *testing.T) {
	variants.CompareParser(t, accepts().List(accept.Label), "parsed-labels.json")
	variants.CompareParser(t, accepts().List(accept.Tag), "parsed-tags.json")
}
