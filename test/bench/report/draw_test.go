package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write makes a file of a report with one number of SharedVolumes and one of nodes.
func write(t *testing.T, shared, nodes int) string {
	t.Helper()
	exist := float64(shared)
	report := Report{
		Shared: []SharedReport{{SharedVolumes: shared, Results: []Result{{Operator: Ours, Rounds: []Round{{
			Share: &ShareCost{Exist: &exist, ResidentKibibytes: 1024 * shared}, Unshare: &UnshareCost{PeakKibibytes: 2048 * shared},
		}}}}}},
		Scenarios: []ScenarioReport{{Scenario: Scenario{Nodes: nodes}, Results: []Result{
			{Operator: Ours, Converge: &ConvergeCost{Requests: 40, PeakKibibytes: 4096}, Idle: &IdleCost{ResidentKibibytes: 1024}},
			{Operator: "other", Converge: &ConvergeCost{Requests: 400}, Idle: &IdleCost{}},
		}}},
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPlotsShowWhatWasMeasured(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "plots")
	first, second := write(t, 100, 12), write(t, 300, 100)
	if err := Draw(folder, []string{second, first}); err != nil {
		t.Fatal(err)
	}
	for file, lines := range map[string][]string{
		"shared-memory.svg": {"all are Ready", "peak"}, "shared-time.svg": {"volumes and PVCs exist"},
		"nodes-memory.svg": {"at rest", "peak"}, "nodes-requests.svg": {"install"},
	} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !strings.Contains(string(text), ">"+line+"<") {
				t.Errorf("%s has no line %q", file, line)
			}
		}
		// Nothing was measured of these.
		for _, line := range []string{"all are deleted", "change of all node pods"} {
			if strings.Contains(string(text), line) {
				t.Errorf("%s has a line %q", file, line)
			}
		}
	}
	var points []float64
	for _, point := range sharedPictures(read(t, second, first))[0].curves[1].sorted() {
		points = append(points, point.X, point.Y)
	}
	if diff := cmp.Diff([]float64{100, 200, 300, 600}, points); diff != "" {
		t.Errorf("MiB at the peak (-want +got):\n%s", diff)
	}
}

func read(t *testing.T, files ...string) []Report {
	t.Helper()
	reports, err := readReports(files)
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

func TestOnePointIsNoPlot(t *testing.T) {
	folder := t.TempDir()
	if err := Draw(folder, []string{write(t, 100, 12)}); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestWhatIsNoReportIsRefused(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string][]string{"name the files of reports": nil, "read a report": {"missing.json"}, "read report": {broken}} {
		if err := Draw(t.TempDir(), files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
