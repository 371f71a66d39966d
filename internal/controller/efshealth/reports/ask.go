// Package reports asks the cluster's Prometheus for the nodes' reports about their mounts of EFS, and makes a condition from the answers. Program
// aws-efs-node-health on each node writes the reports, see internal/controller/efshealth/mounts. The reasons are in docs/decisions/0069.
//
// ask.go has the queries, and reads the answers. names.go finds file systems and pods. condition.go makes the condition from the last answers, and
// watch.go decides when to ask. The controller of package efshealth writes the condition.
package reports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/controller/efshealth/mounts"
	"github.com/csi-operators/csi-operators/internal/kube/prometheus"
)

// Prometheus answers queries.
type Prometheus interface {
	Query(ctx context.Context, query string) ([]prometheus.Sample, error)
}

const (
	// job selects the metrics of aws-efs-node-health by the label of its Service. Other pods of the namespace could have metrics of the same names.
	job = `job="aws-efs-node-health-metrics"`
	// targets selects the pods that Prometheus scrapes.
	targets = `up{` + job + `}`
	age     = mounts.MetricAge + `{` + job + `}`
	// fresh selects the reports that are younger than two minutes. The present age is the time since the scrape plus the age at the scrape. Prometheus
	// scrapes each 30 seconds.
	fresh = `(time() - timestamp(` + age + `) + ` + age + ` < 120)`
	// hanging are the problems with which programs hang.
	hanging = `{` + job + `,problem=~"stalled|tunnel_dead"}`
)

// The queries. queryHanging and queryMounted have a value for each node with a fresh report, also 0. A node without a value is unknown. So one answer
// says of each node what is known: with a second query about fresh reports, a report between the two would get lost.
const (
	queryTargets = `count by (node) (` + targets + `)`
	// A mount can be stalled and have a dead tunnel. A sum would count such a mount twice, so the query takes the larger number.
	queryHanging = `max by (node) (` + mounts.MetricProblems + hanging + ` and on (node) ` + fresh + `)`
	// The query takes at most two mounts from each node, so that no node crowds out others.
	queryNames   = `topk(20, topk by (node) (2, ` + mounts.MetricProblem + hanging + ` and on (node) ` + fresh + `))`
	queryMounted = `max by (node) (` + mounts.MetricMounts + `{` + job + `} and on (node) ` + fresh + `)`
)

// errNoTargets means that Prometheus scrapes none of the pods.
var errNoTargets = errors.New("no pod of DaemonSet aws-efs-node-health is a target of Prometheus: label the namespace with " +
	"openshift.io/cluster-monitoring=true")

// answer is what the nodes report. It is immutable.
type answer struct {
	at time.Time
	// hanging has the minimum number of mounts that do not work, by node.
	hanging map[string]int
	// silent are the nodes without a fresh report, sorted.
	silent []string
	// named are some of the mounts, sorted.
	named []mount
}

// namedOn returns the named mounts of a node.
func (a *answer) namedOn(node string) []mount {
	return slices.DeleteFunc(slices.Clone(a.named), func(one mount) bool { return one.node != node })
}

// mount is a mount that does not work. Node comes from Prometheus. The other fields come from the node, where root can write what it likes. volume
// and podUID are empty if the node reports an invalid value.
type mount struct {
	node, volume, podUID string
	kind                 mounts.Kind
}

// mostMounts is more than a node can have. A larger number is not right, and would not fit into the text.
const mostMounts = 1_000_000

// ask sends two queries, and a third if mounts hang. Argument "expected" has the nodes that must report.
func ask(ctx context.Context, from Prometheus, now time.Time, expected []string) (*answer, error) {
	found := &answer{at: now, hanging: map[string]int{}}
	counts, silent, err := askReports(ctx, from, queryHanging, expected)
	// A driver without node pods has no targets, and no mounts that could hang.
	if err != nil && (len(expected) > 0 || !errors.Is(err, errNoTargets)) {
		return nil, err
	}
	found.silent = silent
	for node, count := range counts {
		if count > 0 {
			found.hanging[node] = int(min(count, mostMounts))
		}
	}
	if len(found.hanging) > 0 {
		// The condition can do without the names of mounts, because it still names the nodes. So an error here is only logged.
		if found.named, err = askNames(ctx, from); err != nil {
			ctrl.LoggerFrom(ctx).Info("could not ask Prometheus which mounts of EFS hang", "error", err.Error())
		}
	}
	return found, nil
}

// askReports returns the answer to a query that has a value for each node with a fresh report. It also returns the nodes without a value, sorted. It
// checks the nodes whose pod is a target of Prometheus. It also checks the expected nodes, because a pod without an address is no target. If it
// returns an error, it may not have checked the targets.
func askReports(ctx context.Context, from Prometheus, query string, expected []string) (reported map[string]float64, silent []string, err error) {
	reported, err = askNodes(ctx, from, query)
	var scraped map[string]float64
	if err == nil {
		scraped, err = askNodes(ctx, from, queryTargets)
	}
	if err == nil && len(reported)+len(scraped) == 0 {
		err = errNoTargets
	}
	for _, node := range slices.AppendSeq(slices.Clone(expected), maps.Keys(scraped)) {
		if _, reports := reported[node]; !reports {
			silent = append(silent, node)
		}
	}
	slices.Sort(silent)
	return reported, slices.Compact(silent), err
}

// askNodes returns the values in the answer to a query, by node.
func askNodes(ctx context.Context, from Prometheus, query string) (map[string]float64, error) {
	samples, err := from.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	nodes := make(map[string]float64, len(samples))
	for _, sample := range samples {
		node, err := nodeOf(sample)
		if err != nil {
			return nil, err
		}
		nodes[node] = sample.Value
	}
	return nodes, nil
}

func askNames(ctx context.Context, from Prometheus) ([]mount, error) {
	samples, err := from.Query(ctx, queryNames)
	if err != nil {
		return nil, err
	}
	isUID := regexp.MustCompile(`^[0-9a-f-]{32,36}$`).MatchString
	var named []mount
	for _, sample := range samples {
		node, err := nodeOf(sample)
		if err != nil {
			return nil, err
		}
		one := mount{node: node, kind: mounts.Kind(sample.Labels["problem"])}
		if volume := sample.Labels["volume"]; len(validation.IsDNS1123Subdomain(volume)) == 0 {
			one.volume = volume
		}
		if uid := sample.Labels["pod_uid"]; isUID(uid) {
			one.podUID = uid
		}
		named = append(named, one)
	}
	slices.SortFunc(named, func(a, b mount) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.volume, b.volume), cmp.Compare(a.podUID, b.podUID), cmp.Compare(b.kind, a.kind))
	})
	// If a mount is stalled and has a dead tunnel, only the dead tunnel stays, because it is the cause.
	return slices.CompactFunc(named, func(a, b mount) bool { return a.node == b.node && a.volume == b.volume && a.podUID == b.podUID }), nil
}

// nodeOf returns the node that Prometheus has named.
func nodeOf(sample prometheus.Sample) (string, error) {
	node := sample.Labels["node"]
	if problems := validation.IsDNS1123Subdomain(node); len(problems) > 0 {
		return "", fmt.Errorf("the answer of Prometheus has label node=%.253q, which is not the name of a node: "+
			"check ServiceMonitor aws-efs-node-health-monitor", node)
	}
	return node, nil
}
