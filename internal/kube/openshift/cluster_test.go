package openshift

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

func TestThePlatformIsReadFromTheFieldOfTodayOrFromThatOfOldClusters(t *testing.T) {
	for name, tc := range map[string]struct {
		today     *configv1.PlatformStatus
		old, want configv1.PlatformType
	}{
		"today":                  {&configv1.PlatformStatus{Type: "AWS"}, "", "AWS"},
		"both, which may differ": {&configv1.PlatformStatus{Type: "AWS"}, "None", "AWS"},
		"an old cluster":         {nil, "GCP", "GCP"},
		"an old cluster whose new field is empty": {&configv1.PlatformStatus{}, "GCP", "GCP"},
		"nothing": {nil, "", ""},
	} {
		status := configv1.InfrastructureStatus{PlatformStatus: tc.today}
		status.Platform = tc.old //nolint:staticcheck // Old clusters have only this one.
		if got := PlatformOf(status); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
