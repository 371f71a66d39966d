package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// metric sums the values of a metric of the operator over all its labels.
func metric(t *testing.T, operator *env.Operator, name string) (float64, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, operator.Metrics, nil)
	env.Must(t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	defer response.Body.Close()
	sum := 0.0
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), name+"{") && !strings.HasPrefix(lines.Text(), name+" ") {
			continue
		}
		words := strings.Fields(lines.Text())
		value, err := strconv.ParseFloat(words[len(words)-1], 64)
		env.Must(t, err)
		sum += value
	}
	return sum, nil
}

// reconciles is how often the controller has run.
func reconciles(t *testing.T, operator *env.Operator) float64 {
	t.Helper()
	count, err := metric(t, operator, "controller_runtime_reconcile_total")
	env.Must(t, err)
	return count
}

// costOf returns the requests that the operator makes because of a change; a watch that is opened again is none.
func costOf(t *testing.T, cluster *env.Cluster, operator *env.Operator, change func() error) []env.Request {
	t.Helper()
	quiet(t, operator)
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	before := reconciles(t, operator)
	env.Must(t, change())
	env.Eventually(t, "a reconcile", func() error {
		if reconciles(t, operator) == before {
			return errors.New("none yet")
		}
		return nil
	})
	quiet(t, operator)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	return env.Filter(requests, func(r env.Request) bool { return r.Verb != "watch" })
}

// quiet waits until the controller has seen every event: nothing queued or running, and no reconcile between two looks
// at the metrics.
func quiet(t *testing.T, operator *env.Operator) {
	t.Helper()
	last, calm := -1.0, 0
	env.Eventually(t, "a quiet controller", func() error {
		depth, err := metric(t, operator, "workqueue_depth")
		if err != nil {
			return err
		}
		active, err := metric(t, operator, "controller_runtime_active_workers")
		if err != nil {
			return err
		}
		now, err := metric(t, operator, "controller_runtime_reconcile_total")
		if err != nil {
			return err
		}
		if depth == 0 && active == 0 && now == last {
			calm++
		} else {
			calm = 0
		}
		last = now
		if calm < 25 {
			return errors.New("the controller is still at work")
		}
		return nil
	})
}
