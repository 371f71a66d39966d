package status

import (
	"context"

	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// LogChanges logs changed conditions, so that the log shows what the operator waits for.
func LogChanges(ctx context.Context, before, after []operatorv1.OperatorCondition) {
	for _, now := range sorted(after) {
		old := Find(before, now.Type)
		isSame := old != nil && old.Status == now.Status && old.Reason == now.Reason && old.Message == now.Message
		if isSame || old == nil && now.Reason == AsExpected && now.Message == "" {
			continue
		}
		log.FromContext(ctx).Info("condition changed", "condition", now.Type, "status", now.Status, "reason", now.Reason, "message", now.Message)
	}
}
