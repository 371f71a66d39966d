package reports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/controller/efshealth/mounts"
	"github.com/csi-operators/csi-operators/internal/kube/prometheus"
)

const (
	uidWeb = "0f6a4a0e-8a6e-4f0b-9c57-5b0f1c2d3e4f"
	uidJob = "1c2d3e4f-8a6e-4f0b-9c57-0f6a4a0e5b0f"
)

// recording has the answer of Prometheus 2.42.0 to each query, while it scraped the nodes of scrapedNodes.
const recording = "testdata/recorded.json"

// recorded replays the recording. It has an answer only to the queries that were recorded: who changes a query must record again.
func recorded(t *testing.T) *prometheus.Client {
	t.Helper()
	text, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &answers); err != nil {
		t.Fatal(err)
	}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, known := answers[r.URL.Query().Get("query")]
		if !known {
			http.Error(w, "no recording", http.StatusNotFound)
			return
		}
		_, _ = w.Write(text)
	})
}

// scrapedNodes are the answers of the programs on the nodes to a scrape: mounts that hang, a report that is too old, no answer, and no mount.
func scrapedNodes(now time.Time) map[string]http.HandlerFunc {
	mount := func(volume, pod string) mounts.Mount { return mounts.Mount{Volume: volume, Pod: pod} }
	reports := func(report mounts.Report) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			_ = mounts.WriteMetrics(w, mounts.Status{Known: true, Report: report}, now)
		}
	}
	return map[string]http.HandlerFunc{
		"worker-1": reports(mounts.Report{Time: now.Add(-7 * time.Second), Mounts: 5, Problems: []mounts.Problem{
			{Kind: mounts.Stalled, Mount: mount("pv-data", uidWeb), Age: 75 * time.Second},
			{Kind: mounts.Stalled, Mount: mount("pv-more", uidWeb), Age: 70 * time.Second},
			{Kind: mounts.TunnelDead, Mount: mount("pv-job", uidJob), Age: 80 * time.Second},
			{Kind: mounts.WithoutPod, Mount: mount("pv-gone", uidJob), Age: time.Hour},
		}}),
		"worker-2": reports(mounts.Report{Time: now.Add(-700 * time.Second), Mounts: 2, Problems: []mounts.Problem{
			{Kind: mounts.Stalled, Mount: mount("pv-old", uidJob), Age: 900 * time.Second},
		}}),
		"worker-3": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
		"worker-4": reports(mounts.Report{Time: now.Add(-3 * time.Second)}),
	}
}

// TestRecordPrometheus writes the recording again if UPDATE_RECORDING=1, with a program prometheus in PATH.
func TestRecordPrometheus(t *testing.T) {
	if os.Getenv("UPDATE_RECORDING") != "1" {
		t.Skip("UPDATE_RECORDING is not set")
	}
	base := startPrometheus(t, scrapedNodes(time.Now()))
	answers := map[string]json.RawMessage{}
	for _, query := range []string{queryTargets, queryHanging, queryNames, queryMounted} {
		text, err := get(t.Context(), base+"/api/v1/query?"+url.Values{"query": {query}}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		answers[query] = text
	}
	text, err := json.MarshalIndent(answers, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recording, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

// startPrometheus starts a Prometheus that scrapes nodes, waits until it has scraped all, and returns its address.
func startPrometheus(t *testing.T, nodes map[string]http.HandlerFunc) string {
	t.Helper()
	const address = "127.0.0.1:18390"
	dir := t.TempDir()
	config := "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: aws-efs-node-health-metrics\n  static_configs:\n"
	for node, handle := range nodes {
		server := httptest.NewServer(handle)
		t.Cleanup(server.Close)
		config += fmt.Sprintf("  - {targets: [%q], labels: {node: %s, namespace: openshift-cluster-csi-drivers}}\n",
			strings.TrimPrefix(server.URL, "http://"), node)
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "prometheus", "--config.file="+file, "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+address)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Wait() })
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		text, err := get(t.Context(), "http://"+address+"/api/v1/query?query=count(count_over_time(up[1m])>1)")
		if err == nil && strings.Contains(string(text), fmt.Sprintf(`"%d"`, len(nodes))) {
			return "http://" + address
		}
		select {
		case <-t.Context().Done():
			t.Fatal("Prometheus did not scrape")
		case <-ticker.C:
		}
	}
}

func get(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(response.Body)
	return text, errors.Join(err, response.Body.Close())
}
