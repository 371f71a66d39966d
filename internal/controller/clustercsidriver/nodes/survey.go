package nodes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

const (
	// surveyInterval is how long the users of volumes are taken to be as they were, at least.
	surveyInterval = 15 * time.Second
	// startTime is how long a new pod may take before it is asked whether its node is down.
	startTime = 40 * time.Second
	// drainInterval is how often it is looked for nodes that are drained. A node that the cluster updates is cordoned for some minutes.
	drainInterval = 45 * time.Second
	// skew is by how much the clocks of a cluster may differ.
	skew = time.Minute
)

// survey is who uses volumes of the driver, where, and which nodes are cordoned or down. It is asked anew the less often the longer a roll-out
// stays as it is.
type survey struct {
	// at is when users were asked, and drains when cordoned nodes were. Recalled means that recall has run.
	at, drains time.Time
	recalled   bool
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

// observe reads the facts of a roll-out, as far as those of the last time are too old.
func (u *Updater) observe(ctx context.Context, in Input, pods []corev1.Pod, outdated map[string]*corev1.Pod) (facts, error) {
	if u.survey.at.IsZero() || u.Now().Sub(u.survey.at) >= u.survey.patience.Pause(u.Now(), u.last.Reason) {
		if err := u.askUsers(ctx); err != nil {
			return facts{}, err
		}
	}
	if !u.survey.recalled {
		if err := u.recall(ctx, in, pods, outdated); err != nil {
			return facts{}, err
		}
	}
	if u.survey.cordoned == nil || u.Now().Sub(u.survey.drains) >= drainInterval {
		if err := u.askDrains(ctx, outdated); err != nil {
			return facts{}, err
		}
	}
	state, now := in.DaemonSet.Status, in.ReplaceNow != "" && in.ReplaceNow == NumberOf(in.DaemonSet)
	seen := facts{
		Rules: Rules{Desired: Wanted(in.DaemonSet), Policy: in.Policy, Now: now, Withdrawn: in.Withdrawn},
		now:   u.Now(), driver: u.Driver, complete: state.CurrentNumberScheduled >= state.DesiredNumberScheduled,
		pods: pods, outdated: outdated, templates: u.template.all, users: u.survey.users, cordoned: u.survey.cordoned,
	}
	var err error
	if seen.healths, err = u.healths(ctx, pods, outdated); err != nil {
		return facts{}, err
	}
	return seen, u.lookAtNodes(ctx, &seen)
}

// lookAtNodes reads what step needs of single nodes: how the users are where the node pod was replaced, and whether the kubelet knows the driver
// where the newest template is tried.
func (u *Updater) lookAtNodes(ctx context.Context, seen *facts) error {
	plan := seen.plan()
	seen.looked, seen.registered = map[string][]corev1.Pod{}, map[string]bool{}
	for name, replaced := range u.state.replaced {
		if seen.healths[name] == departed || !replaced.isDue(plan.at(name), seen.now) {
			continue
		}
		var err error
		if seen.looked[name], err = u.usersOn(ctx, name, false); err != nil {
			return err
		}
	}
	for i := range seen.pods {
		pod := &seen.pods[i]
		if u.state.proven || !Serves(pod) || !seen.isTried(pod, plan) {
			continue
		}
		registered, err := u.isRegistered(ctx, pod.Spec.NodeName)
		if err != nil {
			return err
		}
		if registered {
			// One is enough.
			seen.registered[pod.Spec.NodeName] = true
			return nil
		}
	}
	return nil
}

// Survey plans a migration. The caller has read the driver's node pods from the cluster, those of predecessors included: a cache that lags would
// let too many go. Desired is how many nodes are to have a plugin. The DaemonSet is nil if it is not ours yet. Accepted means that nodes in use
// are replaced as well.
func (u *Updater) Survey(ctx context.Context, pods []corev1.Pod, daemonSet *appsv1.DaemonSet, desired int, accepted bool) (Plan, error) {
	if u.Now().Sub(u.survey.at) >= surveyInterval {
		// Each new node pod wakes the controller up. The whole cluster is not read for each of them.
		if err := u.askUsers(ctx); err != nil {
			return Plan{}, err
		}
	}
	rules := Rules{Desired: desired, Migrates: true, Now: accepted}
	seen := facts{Rules: rules, now: u.Now(), pods: pods, isOld: u.IsOld, users: u.survey.users}
	var proven bool
	var err error
	seen.outdated, proven = ofEarlierTemplates(pods, daemonSet, u.IsOld)
	if seen.healths, err = u.healths(ctx, pods, nil); err != nil {
		return Plan{}, err
	}
	_, plan := step(state{proven: proven}, seen)
	return plan, nil
}

// ofEarlierTemplates are, among pods of ours, those of an earlier version of the DaemonSet, by their nodes; proven means that one of its newest
// version serves. While pods of a predecessor wait, nobody else would replace the outdated ones.
func ofEarlierTemplates(pods []corev1.Pod, daemonSet *appsv1.DaemonSet, isOld func(*corev1.Pod) bool) (map[string]*corev1.Pod, bool) {
	if daemonSet == nil {
		return nil, true
	}
	found, proven := map[string]*corev1.Pod{}, false
	for i := range pods {
		pod := &pods[i]
		made := pod.Labels[templateLabel]
		switch {
		case isOld(pod) || !metav1.IsControlledBy(pod, daemonSet):
		case made == NumberOf(daemonSet):
			proven = proven || Serves(pod)
		case made != "" && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil:
			found[pod.Spec.NodeName] = pod
		}
	}
	return found, proven
}

// recall looks, once in a round of a process, for what an operator before this one did: it deleted pods that the cache still has, and replaced
// the pods of nodes whose users became unready then.
func (u *Updater) recall(ctx context.Context, in Input, pods []corev1.Pod, outdated map[string]*corev1.Pod) error {
	live, err := podsOf(ctx, u.Live, in.DaemonSet)
	if err != nil {
		return err
	}
	there := map[types.UID]bool{}
	for i := range live {
		there[live[i].UID] = live[i].DeletionTimestamp == nil
	}
	for i := range pods {
		pod := &pods[i]
		if !there[pod.UID] && pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" {
			u.state.replaced[pod.Spec.NodeName] = replacement{pod: pod.UID, at: u.Now()}
			pod.DeletionTimestamp = new(metav1.NewTime(u.Now()))
		}
	}
	for i := range pods {
		if err := u.recallUsers(ctx, &pods[i], outdated); err != nil {
			return err
		}
	}
	u.survey.recalled = true
	return nil
}

// recallUsers looks for the users that became unready after a pod replaced that of their node.
func (u *Updater) recallUsers(ctx context.Context, pod *corev1.Pod, outdated map[string]*corev1.Pod) error {
	node, served := pod.Spec.NodeName, pod.CreationTimestamp.Time
	_, known := u.state.replaced[node]
	if len(u.survey.users[node]) == 0 || outdated[node] != nil || known || u.Now().Sub(served) >= pauseLimit {
		return nil
	}
	users, err := u.usersOn(ctx, node, false)
	found := replacement{at: served, served: served, ready: map[types.UID]bool{}}
	for i := range users {
		if status.PodProblem(&users[i]) != "" && readinessSince(&users[i]).After(served) {
			found.ready[users[i].UID] = true
		}
	}
	if len(found.ready) > 0 {
		u.state.replaced[node] = found
	}
	return err
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
		users, err := u.usersOn(ctx, node, false)
		if err != nil {
			return err
		}
		u.survey.note(node, users)
	}
	u.survey.cordoned, u.survey.drains = found, u.Now()
	return nil
}

// usersOn are the pods on a node that use volumes of the driver. One that came after the survey, with a PVC that is not in it, may be one, unless
// the PVCs were read just now.
func (u *Updater) usersOn(ctx context.Context, node string, justNow bool) ([]corev1.Pod, error) {
	var found []corev1.Pod
	err := volume.EachPage(ctx, u.Live, &corev1.PodList{}, func(page *corev1.PodList) {
		for _, pod := range page.Items {
			pvcs := volume.PVCsOf(&pod)
			known := slices.ContainsFunc(pvcs, func(pvc string) bool {
				return u.survey.pvcs[client.ObjectKey{Namespace: pod.Namespace, Name: pvc}]
			})
			if !volume.IsFinished(&pod) && (known || (!justNow && len(pvcs) > 0 && u.isNew(&pod))) {
				found = append(found, pod)
			}
		}
	}, client.MatchingFields{"spec.nodeName": node})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	return found, nil
}

// isNew tells whether a pod may have been scheduled after the survey.
func (u *Updater) isNew(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Add(skew).After(u.survey.at)
		}
	}
	return true
}

// isRegistered tells whether the kubelet of a node knows the driver.
func (u *Updater) isRegistered(ctx context.Context, node string) (bool, error) {
	registration := &storagev1.CSINode{}
	if err := u.Live.Get(ctx, client.ObjectKey{Name: node}, registration); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read CSINode %s: %w", node, err)
	}
	return slices.ContainsFunc(registration.Spec.Drivers, func(known storagev1.CSINodeDriver) bool { return known.Name == u.Driver }), nil
}

// late are the nodes whose pod does not serve, or does not come after the last one was deleted. In a roll-out, a pod that was just made or deleted
// is given some time first.
func (u *Updater) late(pods []corev1.Pod, outdated map[string]*corev1.Pod) map[string]bool {
	isLate := func(since time.Time) bool { return u.IsOld != nil || u.Now().Sub(since) >= startTime }
	late, occupied := map[string]bool{}, map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		node, since := pod.Spec.NodeName, pod.CreationTimestamp.Time
		if pod.DeletionTimestamp != nil {
			since = pod.DeletionTimestamp.Time
		}
		occupied[node] = true
		if node != "" && !Serves(pod) && (outdated[node] == pod || isLate(since)) {
			late[node] = true
		}
	}
	for node, replaced := range u.state.replaced {
		if !occupied[node] && isLate(replaced.at) {
			late[node] = true
		}
	}
	return late
}

// healths are those of late nodes. In a roll-out, an answer may be as old as drainInterval. A migration asks each time.
func (u *Updater) healths(ctx context.Context, pods []corev1.Pod, outdated map[string]*corev1.Pod) (map[string]health, error) {
	now := u.Now()
	if u.survey.answers == nil {
		u.survey.answers = map[string]answer{}
	}
	maps.DeleteFunc(u.survey.answers, func(_ string, old answer) bool { return u.IsOld != nil || now.Sub(old.at) >= drainInterval })
	found := map[string]health{}
	for node := range u.late(pods, outdated) {
		if _, known := u.survey.answers[node]; !known {
			health, err := healthOf(ctx, u.Live, node)
			if err != nil {
				return nil, err
			}
			u.survey.answers[node] = answer{health: health, at: now}
		}
		found[node] = u.survey.answers[node].health
	}
	return found, nil
}

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
