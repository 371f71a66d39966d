package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

// An operator that is ended while it looks at the cluster has not failed: a roll-out of its Deployment may do that.
func TestAnEndBeforeTheBeginningIsNoFailure(t *testing.T) {
	for _, image := range awsefs.Driver().Images() {
		t.Setenv(image, "example.com/image")
	}
	discovery := map[string]string{
		"/api":    `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":   `{"kind": "APIGroupList", "apiVersion": "v1"}`,
		"/api/v1": `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "namespaces", "kind": "Namespace", "verbs": ["get"]}]}`,
	}
	ctx, end := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/api/v1/namespaces/a" {
			end()
			<-request.Context().Done()
			return
		}
		answer.Header().Set("Content-Type", "application/json")
		_, _ = answer.Write([]byte(discovery[request.URL.Path]))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}],
		clusters: [{name: a, cluster: {server: "` + server.URL + `"}}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(ctx, []string{"start", "--kubeconfig", file, "--namespace", "a"}); err != nil {
		t.Errorf("the operator ended with: %v", err)
	}
	if ctx.Err() == nil {
		t.Error("the operator ended by itself")
	}
}

func TestVariablesOfAWSAreCheckedBeforeTheBeginning(t *testing.T) {
	images := map[string]string{}
	for _, image := range awsefs.Driver().Images() {
		images[image] = "example.com/image"
	}
	for variable, values := range map[string]struct{ right, wrong []string }{
		"AWS_REGION": {[]string{"", "us-gov-west-1"}, []string{"us-east-1 ", "us east 1", "us-east-1.amazonaws.com", "us-east-1\n"}},
		"AWS_WEB_IDENTITY_TOKEN_FILE": {
			[]string{"", tokenFile}, []string{"token", tokenFile + " ", "~/token", "file://" + tokenFile},
		},
		"AWS_ENDPOINT_URL": {
			[]string{"", "http://127.0.0.1:5000", "https://vpce.example.com/path"},
			[]string{"vpce.example.com", "https://", "https://user:secret@vpce.example.com/ ", "ftp://vpce.example.com", "https://vpce.example.com\n"},
		},
		"AWS_ENDPOINT_URL_EFS": {nil, []string{"vpce.example.com"}},
		"AWS_ENDPOINT_URL_STS": {nil, []string{"vpce.example.com"}},
	} {
		with := func(value string) error {
			_, err := fromEnvironment(func(asked string) string {
				if asked == variable {
					return value
				}
				return images[asked]
			})
			return err
		}
		for _, value := range values.right {
			if err := with(value); err != nil {
				t.Errorf("%s=%q: %v", variable, value, err)
			}
		}
		for _, value := range values.wrong {
			if err := with(value); err == nil || !strings.HasPrefix(err.Error(), "environment variable "+variable+": must be ") || strings.Contains(err.Error(), "secret@") {
				t.Errorf("%s=%q: %v", variable, value, err)
			}
		}
	}
}

func TestADeploymentFromBeforeTheNodeHealthImageStarts(t *testing.T) {
	for setting, want := range map[string]string{"": "", "false": "", "true": "NODE_HEALTH_IMAGE"} {
		_, err := fromEnvironment(func(asked string) string {
			switch {
			case asked == "WATCH_MOUNTS":
				return setting
			case strings.HasSuffix(asked, "_IMAGE") && asked != "NODE_HEALTH_IMAGE":
				return "example.com/image"
			}
			return ""
		})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("WATCH_MOUNTS=%q: error %v, want %q", setting, err, want)
		}
	}
}
