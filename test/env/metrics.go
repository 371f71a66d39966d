package env

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Metric sums the values of a metric of the operator over all its labels.
func (o *Operator) Metric(ctx context.Context, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.Metrics, nil)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
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
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += value
	}
	return sum, nil
}

// Quiet waits until the controller has seen every event: nothing queued or running, and no reconcile between two looks
// at the metrics.
func Quiet(t *testing.T, operator *Operator) {
	t.Helper()
	last, calm := -1.0, 0
	Eventually(t, "a quiet controller", func() error {
		depth, err := operator.Metric(t.Context(), "workqueue_depth")
		if err != nil {
			return err
		}
		active, err := operator.Metric(t.Context(), "controller_runtime_active_workers")
		if err != nil {
			return err
		}
		now, err := operator.Metric(t.Context(), "controller_runtime_reconcile_total")
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
