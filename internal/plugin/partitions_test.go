package plugin_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/plugin"
)

func TestThePartitionsAreThoseOfTheSDK(t *testing.T) {
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go-v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "internal", "endpoints", "awsrulesfn", "partitions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Partitions []struct {
			ID string `json:"id"`
		} `json:"partitions"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, one := range file.Partitions {
		want = append(want, one.ID)
	}
	slices.Sort(want)
	if got := plugin.Partitions(); !slices.Equal(got, want) {
		t.Errorf("%v, but the SDK knows %v", got, want)
	}
}
