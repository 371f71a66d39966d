package levels

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
)

const header = "# Made by \"UPDATE=1 go test ./internal/release/levels\". Do not edit.\n"

// The manifests of the release are made by "make manifests", these files here.
func TestTheFilesOfConfigAreOfTheLevels(t *testing.T) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(EFS(awsefs.Name, kube.DefaultNamespace).Rules())
	if err != nil {
		t.Fatal(err)
	}
	delete(fields, "status")
	rules, err := yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	grafana, err := Grafana()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{
		"prometheus/service-levels.yaml":         append([]byte(header), rules...),
		"grafana/csi-driver-service-levels.json": grafana,
	} {
		path := filepath.Join("..", "..", "..", "config", name)
		if os.Getenv("UPDATE") != "" {
			if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("config/%s is not as the levels make it; UPDATE=1 writes it", name)
		}
	}
}

func TestADriverIsSelectedByItsNameOnly(t *testing.T) {
	for want, drivers := range map[string][]string{
		`driver="a.example.com"`:                        {"a.example.com"},
		`driver=~"a[.]example[.]com|b[.]example[.]com"`: {"a.example.com", "b.example.com"},
	} {
		if got := matcher("driver", drivers); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The rules read the setting from a metric. The objective that the bench compares with is its default.
func TestTheObjectiveOfARolloutIsTheDefaultOfItsSetting(t *testing.T) {
	settings := map[string]string{}
	for _, setting := range awsefs.Driver().Settings {
		settings[setting.Variable] = setting.Default
	}
	if got := driver.RolloutLimit(settings); got != rolloutWithin {
		t.Errorf("the default is %s, want %s", got, rolloutWithin)
	}
}
