package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/test/env"
)

// OLM installs a bundle into any namespace, and the certificate of the metrics has the name of the Service there.
func TestTheOperatorIsScrapedInTheNamespaceWhereItRuns(t *testing.T) {
	cluster := clean(t)
	root, err := env.Root()
	env.Must(t, err)
	// The one of the bundle for openshift-operators.
	text, err := os.ReadFile(filepath.Join(root, "bundle", "aws-efs-operator", "manifests", "aws-efs-csi-driver-operator_servicemonitor.yaml"))
	env.Must(t, err)
	monitor := &unstructured.Unstructured{}
	env.Must(t, yaml.Unmarshal(text, &monitor.Object))
	monitor.SetNamespace(env.OperatorNamespace)
	env.Must(t, cluster.Client.Create(t.Context(), monitor))
	t.Cleanup(func() {
		if err := cluster.Client.Delete(context.Background(), monitor); err != nil {
			t.Error(err)
		}
	})
	operate(t, cluster)
	env.Eventually(t, "the name of the Service in this namespace", func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(monitor), monitor); err != nil {
			return err
		}
		endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
		if err != nil || len(endpoints) != 1 {
			return fmt.Errorf("endpoints %v: %w", endpoints, err)
		}
		endpoint, _ := endpoints[0].(map[string]any)
		if name, _, _ := unstructured.NestedString(endpoint, "tlsConfig", "serverName"); name != "aws-efs-csi-driver-operator-metrics."+env.OperatorNamespace+".svc" {
			return fmt.Errorf("server name %s", name)
		}
		return nil
	})
}
