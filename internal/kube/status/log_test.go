package status

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/google/go-cmp/cmp"
)

func TestTheLogSaysWhatIsWaitedForOnce(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	ctx := log.IntoContext(t.Context(), logger)
	before := []operatorv1.OperatorCondition{Condition("Progressing", true, "Waiting", "for a"), Condition("Degraded", false, "", "")}
	LogChanges(ctx, before, []operatorv1.OperatorCondition{
		Condition("Upgradeable", true, "", ""), Condition("Progressing", true, "Waiting", "for b"), Condition("Degraded", false, "", ""),
	})
	LogChanges(ctx, before, before)
	want := `"level"=0 "msg"="condition changed" "condition"="Progressing" "status"="True" "reason"="Waiting" "message"="for b"`
	if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
