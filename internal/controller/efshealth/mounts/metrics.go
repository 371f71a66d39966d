package mounts

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// mostNamed is the maximum number of series that name a mount, for each kind of problem. So the number of a node's series is bounded, whatever runs
// on the node.
const mostNamed = 10

// The names of the metrics.
const (
	MetricMounts   = "efs_node_mounts"
	MetricProblems = "efs_node_mount_problems"
	MetricProblem  = "efs_node_mount_problem_seconds"
	MetricTimeouts = "efs_node_rpc_timeouts_total"
	MetricRestarts = "efs_node_tunnel_restarts_total"
	MetricKills    = "efs_node_tunnel_oom_kills_total"
	MetricAge      = "efs_node_report_age_seconds"
	MetricReadings = "efs_node_readings_total"
)

// WriteMetrics writes a status in the text format of Prometheus. Before the first report, it writes no metrics of mounts, because nothing is known.
func WriteMetrics(w io.Writer, status Status, now time.Time) error {
	var text bytes.Buffer
	metric := func(name, kind, help string) {
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	metric(MetricReadings, "counter", "Readings of the node, by result. A skipped one did not begin, because the one before it had not ended.")
	fmt.Fprintf(&text, "%s{result=\"read\"} %d\n%s{result=\"failed\"} %d\n%s{result=\"skipped\"} %d\n",
		MetricReadings, status.Read, MetricReadings, status.Failed, MetricReadings, status.Skipped)
	if status.Known {
		writeReport(&text, metric, status.Report, now)
	}
	if _, err := w.Write(text.Bytes()); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

func writeReport(text *bytes.Buffer, metric func(name, kind, help string), report Report, now time.Time) {
	metric(MetricAge, "gauge", "Seconds since the node was read for the metrics of its mounts.")
	fmt.Fprintf(text, "%s %.0f\n", MetricAge, max(0, now.Sub(report.Time).Seconds()))
	metric(MetricMounts, "gauge", "Mounts of EFS on the node.")
	fmt.Fprintf(text, "%s %d\n", MetricMounts, report.Mounts)
	counts := map[Kind]int{}
	for _, problem := range report.Problems {
		counts[problem.Kind]++
	}
	metric(MetricProblems, "gauge", "Mounts of EFS on the node with a problem.")
	for _, kind := range Kinds() {
		fmt.Fprintf(text, "%s{problem=%q} %d\n", MetricProblems, kind, counts[kind])
	}
	metric(MetricProblem, "gauge", "How long a mount has had a problem. Only the oldest problems of each kind have a series.")
	named := map[Kind]int{}
	for _, problem := range report.Problems {
		if named[problem.Kind]++; named[problem.Kind] <= mostNamed {
			fmt.Fprintf(text, "%s{problem=%q,volume=\"%s\",pod_uid=\"%s\"} %.0f\n",
				MetricProblem, problem.Kind, label(problem.Mount.Volume), label(problem.Mount.Pod), problem.Age.Seconds())
		}
	}
	for _, counter := range []struct {
		name, help string
		value      uint64
	}{
		{MetricTimeouts, "Major timeouts of requests to EFS.", report.Timeouts},
		{MetricRestarts, "Tunnels of mounts that another process replaced.", report.Restarts},
		{MetricKills, "Processes of pods with tunnels that the kernel killed for lack of memory.", report.Kills},
	} {
		metric(counter.name, "counter", counter.help)
		fmt.Fprintf(text, "%s %d\n", counter.name, counter.value)
	}
}

// label escapes a value, and limits its length to the maximum length of a name in Kubernetes.
func label(value string) string {
	const longest = 253
	value = strings.ToValidUTF8(value[:min(len(value), longest)], "")
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value)
}
