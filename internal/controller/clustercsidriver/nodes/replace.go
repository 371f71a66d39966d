package nodes

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// Replace deletes the pods of the next nodes. Right before each deletion, it checks the node for new users, because new users would lose their
// mounts.
func (u *Updater) Replace(ctx context.Context, plan Plan) (apply.ChangeSet, error) {
	var deleted apply.ChangeSet
	for i := range plan.Unscheduled {
		deleted = append(deleted, apply.Delete(ctx, u.Client, &plan.Unscheduled[i]))
	}
	next := plan.Next()
	if plan.Migrates && len(next) > 0 {
		volumes, err := volume.OfDriver(ctx, u.Live, u.Driver)
		if err != nil {
			return deleted, err
		}
		u.survey.pvcs = volumes.PVCs
	}
	for _, name := range next {
		node := plan.Nodes[name]
		users, err := u.lastCheck(ctx, plan, name)
		if err != nil {
			return deleted, err
		}
		if len(users) > 0 && !node.InUse() {
			// The node is in use now, so the operator skips it.
			u.survey.note(name, users)
			continue
		}
		change := apply.Delete(ctx, u.Client, node.pod())
		deleted = append(deleted, change)
		if change.Action != apply.Failed && !plan.Migrates {
			made := replacement{pod: node.pod().UID, at: u.Now()}
			made.note(users, u.state.replaced[name])
			u.state.replaced[name] = made
		}
	}
	return deleted, nil
}

// lastCheck reads which pods on the next node use volumes, if the decision depends on that.
func (u *Updater) lastCheck(ctx context.Context, plan Plan, name string) ([]corev1.Pod, error) {
	node := plan.Nodes[name]
	switch {
	case plan.Migrates && (plan.Now || len(u.survey.pvcs) == 0), !plan.Migrates && !node.Serves && !node.InUse():
		return nil, nil
	default:
		return u.usersOn(ctx, name, plan.Migrates)
	}
}
