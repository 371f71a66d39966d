package nodes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// drainInterval is how often it is looked for nodes that are drained. A node that the cluster updates is cordoned for some minutes.
const drainInterval = 45 * time.Second

// survey is who uses volumes of the driver, where, and which nodes are cordoned or down. It is asked anew the less often the longer a roll-out
// stays as it is.
type survey struct {
	// at is when users were asked, and drains when cordoned nodes were.
	at, drains time.Time
	patience   status.Patience
	pvcs       map[client.ObjectKey]bool
	// users are the pods that use volumes, by node.
	users    map[string][]string
	cordoned map[string]bool
	answers  map[string]answer
}

// answer is the health of a node, and when it was read. It holds for drainInterval.
type answer struct {
	health health
	at     time.Time
}

// note puts the users of one node into a survey.
func (s *survey) note(node string, users []corev1.Pod) {
	delete(s.users, node)
	for i := range users {
		s.users[node] = append(s.users[node], client.ObjectKeyFromObject(&users[i]).String())
	}
}

// ask fills in the survey as far as it is too old.
func (u *Updater) ask(ctx context.Context, pods []corev1.Pod, outdated map[string]*corev1.Pod) error {
	if pause := u.survey.patience.Pause(u.Now(), u.last.Reason); u.survey.at.IsZero() || u.Now().Sub(u.survey.at) >= pause {
		first := u.survey.at.IsZero()
		if err := u.askUsers(ctx); err != nil {
			return err
		}
		if first {
			if err := u.recall(ctx, pods, outdated); err != nil {
				return err
			}
		}
	}
	if u.survey.cordoned == nil || u.Now().Sub(u.survey.drains) >= drainInterval {
		return u.askDrains(ctx, outdated)
	}
	return nil
}

// askUsers reads the PVCs that are bound to volumes of the driver, and the pods of their namespaces.
func (u *Updater) askUsers(ctx context.Context) error {
	began := u.Now()
	pvcs, err := volume.BoundPVCs(ctx, u.Live, u.Driver)
	if err != nil {
		return err
	}
	users, err := volume.UsersOf(ctx, u.Live, pvcs)
	if err != nil {
		return err
	}
	u.survey.at, u.survey.pvcs, u.survey.users = began, pvcs, map[string][]string{}
	for _, user := range users {
		u.survey.users[user.Node] = append(u.survey.users[user.Node], user.Pod)
	}
	return nil
}

// askDrains reads which nodes are cordoned, and the pods of those of them that wait.
func (u *Updater) askDrains(ctx context.Context, outdated map[string]*corev1.Pod) error {
	found := map[string]bool{}
	err := volume.EachPage(ctx, u.Live, &corev1.NodeList{}, func(page *corev1.NodeList) {
		for i := range page.Items {
			found[page.Items[i].Name] = true
		}
	}, client.MatchingFields{"spec.unschedulable": "true"})
	if err != nil {
		return fmt.Errorf("list the nodes that are cordoned: %w", err)
	}
	for node := range found {
		if outdated[node] == nil || len(u.survey.users[node]) == 0 {
			continue
		}
		users, err := u.usersOn(ctx, node)
		if err != nil {
			return err
		}
		u.survey.note(node, users)
	}
	u.survey.cordoned, u.survey.drains = found, u.Now()
	return nil
}

// usersOn are the pods on a node that use volumes of the driver. One that came after the survey, with a PVC that is not in it, may be one.
func (u *Updater) usersOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	var found []corev1.Pod
	err := volume.EachPage(ctx, u.Live, &corev1.PodList{}, func(page *corev1.PodList) {
		for _, pod := range page.Items {
			pvcs := volume.PVCsOf(&pod)
			known := slices.ContainsFunc(pvcs, func(pvc string) bool {
				return u.survey.pvcs[client.ObjectKey{Namespace: pod.Namespace, Name: pvc}]
			})
			if !volume.IsFinished(&pod) && (known || (len(pvcs) > 0 && u.isNew(&pod))) {
				found = append(found, pod)
			}
		}
	}, client.MatchingFields{"spec.nodeName": node})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	return found, nil
}

// skew is by how much the clocks of a cluster may differ.
const skew = time.Minute

// isNew tells whether a pod may have been scheduled after the survey.
func (u *Updater) isNew(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Add(skew).After(u.survey.at)
		}
	}
	return true
}

// healthOf is that of a node, which may be as old as drainInterval.
func (u *Updater) healthOf(ctx context.Context, name string) (health, error) {
	if u.survey.answers == nil {
		u.survey.answers = map[string]answer{}
	}
	maps.DeleteFunc(u.survey.answers, func(_ string, old answer) bool { return u.Now().Sub(old.at) >= drainInterval })
	if known, found := u.survey.answers[name]; found {
		return known.health, nil
	}
	health, err := healthOf(ctx, u.Live, name)
	if err == nil {
		u.survey.answers[name] = answer{health: health, at: u.Now()}
	}
	return health, err
}

// health is what becomes of a node pod that is deleted.
type health int

const (
	// up means that the pod ends, and another one comes.
	up health = iota
	// down means that the node is not ready: the pod does not end, and another one does not start.
	down
	// departed means that the cluster has no such node: Kubernetes deletes the pod, and makes no other.
	departed
)

// healthOf reads a node from the cluster.
func healthOf(ctx context.Context, reader client.Reader, name string) (health, error) {
	node := &corev1.Node{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, node)
	isReady := func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	}
	switch {
	case apierrors.IsNotFound(err):
		return departed, nil
	case err != nil:
		return up, fmt.Errorf("read Node %s: %w", name, err)
	case slices.ContainsFunc(node.Status.Conditions, isReady):
		return up, nil
	default:
		return down, nil
	}
}
