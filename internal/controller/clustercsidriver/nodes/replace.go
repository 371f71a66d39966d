package nodes

import (
	"context"
	"slices"

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
		if _, err := u.readVolumes(ctx); err != nil {
			return deleted, err
		}
	}
	for _, name := range next {
		node := plan.Nodes[name]
		users, keeps, err := u.lastCheck(ctx, plan, name)
		if err != nil {
			return deleted, err
		}
		if keeps {
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

// lastCheck reads which pods on the next node use volumes. It reads nothing if the decision does not depend on these pods. Result "keeps" is true if
// the node must keep its node pod: pods on an idle node have begun to use volumes, or pods use volumes that the new driver refuses.
func (u *Updater) lastCheck(ctx context.Context, plan Plan, name string) (users []corev1.Pod, keeps bool, err error) {
	node, anyway := plan.Nodes[name], plan.Migrates && plan.Now
	switch {
	case anyway && (plan.Refused || len(u.survey.lost) == 0 || node.Old == nil), plan.Migrates && len(u.survey.pvcs) == 0,
		!plan.Migrates && !node.Serves && !node.InUse():
		return nil, false, nil
	}
	users, err = u.usersOn(ctx, name, plan.Migrates)
	if anyway {
		users = slices.DeleteFunc(users, func(pod corev1.Pod) bool {
			return !volume.HasStarted(&pod) || len(volume.Among(u.survey.lost, &pod)) == 0
		})
		return users, len(users) > 0, err
	}
	return users, len(users) > 0 && !node.InUse(), err
}
