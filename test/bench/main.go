// Command bench measures what the operator costs and how fast it is, on a control plane of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

func main() {
	nodes := flag.Int("nodes", 12, "number of `nodes`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *nodes)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// row is one line of the table.
type row struct{ name, value string }

func run(ctx context.Context, nodes int) (failure error) {
	cluster, err := env.Start(ctx, "--nodes", fmt.Sprint(nodes))
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, cluster.Stop(context.Background())) }()
	cluster.Operator = env.OperatorName
	if err := cluster.InstallRBAC(ctx); err != nil {
		return err
	}
	operator, err := cluster.StartOperator(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, operator.Stop()) }()
	err = env.Await(ctx, "operator ready", func() error {
		if !strings.Contains(operator.Output(), "Starting workers") {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows := []row{{"cores, nodes", fmt.Sprintf("%d, %d", runtime.NumCPU(), nodes)}}
	for _, measure := range []func(context.Context, *env.Cluster, *env.Operator) ([]row, error){converge, memory, repair, remove} {
		measured, err := measure(ctx, cluster, operator)
		if err != nil {
			return err
		}
		rows = append(rows, measured...)
	}
	return print(rows)
}

// converge installs the driver.
func converge(ctx context.Context, cluster *env.Cluster, _ *env.Operator) ([]row, error) {
	mark, err := cluster.Audit.Now()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := cluster.Client.Create(ctx, env.EFS(operatorv1.Managed)); err != nil {
		return nil, fmt.Errorf("create the ClusterCSIDriver: %w", err)
	}
	if err := env.Await(ctx, "driver installed", func() error { return cluster.Settled(ctx) }); err != nil {
		return nil, err
	}
	took := time.Since(began)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	if err != nil {
		return nil, err
	}
	requests = env.Filter(requests, func(r env.Request) bool { return !r.IsLease() && r.Verb != "watch" })
	writes := env.Filter(requests, env.Request.IsWrite)
	return []row{
		{"installed and available after", milliseconds(took)},
		{"requests, writes to install", fmt.Sprintf("%d, %d", len(requests), len(writes))},
	}, nil
}

// memory reads the resident memory of the operator where the system tells it.
func memory(_ context.Context, _ *env.Cluster, operator *env.Operator) ([]row, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", operator.PID()))
	if err != nil {
		return []row{{"resident memory", "not known on this system"}}, nil //nolint:nilerr // Only Linux tells it.
	}
	for _, line := range strings.Split(string(text), "\n") {
		var kibibytes int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kibibytes); err == nil {
			return []row{{"resident memory", fmt.Sprintf("%d MiB", kibibytes/1024)}}, nil
		}
	}
	return nil, errors.New("no VmRSS in the operator's status")
}

// repair deletes every object, one by one, and measures until it is there again.
func repair(ctx context.Context, cluster *env.Cluster, _ *env.Operator) ([]row, error) {
	owned, err := cluster.Owned(ctx)
	if err != nil {
		return nil, err
	}
	type result struct {
		name string
		took time.Duration
	}
	var results []result
	for i := range owned {
		object := &owned[i]
		name := object.GetKind() + " " + object.GetName()
		began := time.Now()
		if err := cluster.Client.Delete(ctx, object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			return nil, fmt.Errorf("delete %s: %w", name, err)
		}
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		err := env.Await(ctx, name+" repaired", func() error {
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
				return fmt.Errorf("read: %w", err)
			}
			if live.GetUID() == object.GetUID() {
				return errors.New("it is still the old one")
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		results = append(results, result{name, time.Since(began)})
	}
	sort.Slice(results, func(i, j int) bool { return results[i].took < results[j].took })
	slowest := results[len(results)-1]
	return []row{
		{fmt.Sprintf("repair of each of %d deleted objects, median", len(results)), milliseconds(results[len(results)/2].took)},
		{"slowest repair", milliseconds(slowest.took) + " (" + slowest.name + ")"},
	}, nil
}

// remove uninstalls the driver.
func remove(ctx context.Context, cluster *env.Cluster, _ *env.Operator) ([]row, error) {
	if err := env.Await(ctx, "driver settled", func() error { return cluster.Settled(ctx) }); err != nil {
		return nil, err
	}
	cr := env.EFS("")
	began := time.Now()
	if err := cluster.Client.Delete(ctx, cr); err != nil {
		return nil, fmt.Errorf("delete the ClusterCSIDriver: %w", err)
	}
	if err := env.Await(ctx, "driver removed", func() error { return cluster.Gone(ctx, cr) }); err != nil {
		return nil, err
	}
	return []row{{"removed after", milliseconds(time.Since(began))}}, nil
}

func milliseconds(took time.Duration) string {
	return fmt.Sprintf("%d ms", took.Milliseconds())
}

func print(rows []row) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintf(table, "%s\t%s\n", row.name, row.value); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
