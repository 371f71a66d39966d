package fakeaws_test

import (
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

// The user who runs the tests may be logged in to AWS.
func TestNoOperatorReachesAWSUnlessATestWantsItTo(t *testing.T) {
	for key, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIAREAL", "AWS_PROFILE": "production", "AWS_ENDPOINT_URL_EFS": "https://efs.example", "AWS_CONFIG_FILE": "/real",
	} {
		t.Setenv(key, value)
	}
	for want, environment := range map[string][]string{
		"http://127.0.0.1:1":    nil,
		"http://127.0.0.1:2345": fakeaws.With(&fakeaws.Proxy{URL: "http://127.0.0.1:2345"}, "AWS_REGION=us-east-1"),
	} {
		program, err := env.RunFile("env", nil, environment)
		env.Must(t, err)
		<-program.Done()
		got := program.Output()
		env.Must(t, program.Stop())
		for _, line := range []string{"AWS_ENDPOINT_URL=" + want, "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null"} {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("the environment has no %s:\n%s", line, got)
			}
		}
		for _, wrong := range []string{"AKIAREAL", "AWS_PROFILE", "AWS_ENDPOINT_URL_EFS"} {
			if strings.Contains(got, wrong) {
				t.Errorf("the environment has %s:\n%s", wrong, got)
			}
		}
	}
}
