package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// An operator that is ended while it looks at the cluster has not failed: a roll-out of its Deployment may do that.
func TestAnEndBeforeTheBeginningIsNoFailure(t *testing.T) {
	for _, image := range []string{"DRIVER", "PROVISIONER", "KUBE_RBAC_PROXY", "LIVENESS_PROBE", "NODE_DRIVER_REGISTRAR"} {
		t.Setenv(image+"_IMAGE", "example.com/image")
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
