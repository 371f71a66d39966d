package env

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Metric sums the values of a metric of the operator over all its labels. A name with labels is that one series.
func (o *Operator) Metric(ctx context.Context, name string) (float64, error) {
	values, err := o.metrics(ctx, name)
	return values[name], err
}

// metrics looks at the metrics once, and sums each of these over all its labels.
func (o *Operator) metrics(ctx context.Context, names ...string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.Metrics, nil)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	// To compress them would be the most that an operator with the race detector does.
	request.Header.Set("Accept-Encoding", "identity")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	defer response.Body.Close()
	sums := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		for _, name := range names {
			if !strings.HasPrefix(lines.Text(), name+"{") && !strings.HasPrefix(lines.Text(), name+" ") {
				continue
			}
			words := strings.Fields(lines.Text())
			value, err := strconv.ParseFloat(words[len(words)-1], 64)
			if err != nil {
				return nil, fmt.Errorf("metric %s: %w", name, err)
			}
			sums[name] += value
		}
	}
	return sums, nil
}

// Quiet waits until the controller has seen every event: nothing queued or running, and no reconcile between looks at the metrics for most
// of a second. A look is dear with the race detector.
func Quiet(t *testing.T, operator *Operator) {
	t.Helper()
	const depth, active, total = "workqueue_depth", "controller_runtime_active_workers", "controller_runtime_reconcile_total"
	const between, looks = 150 * time.Millisecond, 6
	last, calm := -1.0, 0
	err := wait.PollUntilContextTimeout(t.Context(), between, Patience, true, func(ctx context.Context) (bool, error) {
		now, err := operator.metrics(ctx, depth, active, total)
		if err == nil && now[depth] == 0 && now[active] == 0 && now[total] == last {
			calm++
		} else {
			calm = 0
		}
		last = now[total]
		return calm == looks, nil
	})
	if err != nil {
		t.Fatalf("the controller is still at work: %v", err)
	}
}
