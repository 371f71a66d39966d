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
	// surveyInterval is the least time between two reads of the users of volumes.
	surveyInterval = 15 * time.Second
	// startTime is how long a new pod may take to become ready before the operator reads the health of its node.
	startTime = 40 * time.Second
	// drainInterval is the time between two reads of the cordoned nodes. A cluster update cordons a node for some minutes.
	drainInterval = 45 * time.Second
	// skew is the assumed clock skew in a cluster.
	skew = time.Minute
)

// survey caches the users of the driver's volumes, and which nodes are cordoned or down. While a roll-out does not change, the operator refreshes the
// survey at growing intervals.
type survey struct {
	// Field "at" is the time at which the operator read the users. drains is the time at which it read the cordoned nodes. recalled is true once
	// recoverState has run.
	at, drains time.Time
	recalled   bool
	patience   status.Patience
	pvcs       map[client.ObjectKey]bool
	// lost are the PVCs whose volume the new driver refuses.
	lost map[client.ObjectKey]bool
	// users are the pods that use volumes, by node. refused are the users that have mounted a volume that the new driver refuses.
	users, refused map[string][]string
	// problems are the volumes that the new driver refuses, each with the reason.
	problems []string
	cordoned map[string]bool
	answers  map[string]answer
}

// answer is the health of a node. It is valid for drainInterval.
type answer struct {
	health health
	at     time.Time
}

func (s *survey) note(node string, users []corev1.Pod) {
	delete(s.users, node)
	for i := range users {
		s.users[node] = append(s.users[node], client.ObjectKeyFromObject(&users[i]).String())
	}
}

// observe returns the facts of a roll-out. It uses facts from the survey while they are recent, and reads all other facts.
func (u *Updater) observe(ctx context.Context, in Input, pods []corev1.Pod, outdated map[string]*corev1.Pod) (facts, error) {
	if u.survey.at.IsZero() || u.Now().Sub(u.survey.at) >= u.survey.patience.Pause(u.Now(), u.last.Reason) {
		if err := u.readUsers(ctx); err != nil {
			return facts{}, err
		}
	}
	if !u.survey.recalled {
		if err := u.recoverState(ctx, in, pods, outdated); err != nil {
			return facts{}, err
		}
	}
	if u.survey.cordoned == nil || u.Now().Sub(u.survey.drains) >= drainInterval {
		if err := u.readCordons(ctx, outdated); err != nil {
			return facts{}, err
		}
	}
	state, now := in.DaemonSet.Status, in.ReplaceNow != "" && in.ReplaceNow == NumberOf(in.DaemonSet)
	seen := facts{
		Rules: Rules{Desired: Wanted(in.DaemonSet), Policy: in.Policy, Now: now, Withdrawn: in.Withdrawn},
		now:   u.Now(), driver: u.Driver, complete: state.CurrentNumberScheduled >= state.DesiredNumberScheduled,
		pods: pods, outdated: outdated, templates: u.template.all, users: u.survey.users, cordoned: u.survey.cordoned,
	}
	if u.Hanging != nil {
		seen.hanging, seen.silent, seen.Reports = u.reports()
	}
	seen.newImages = newImages(in.DaemonSet, u.template.all)
	var err error
	if seen.pulls, err = u.pullPods(ctx, in.DaemonSet); err != nil {
		return facts{}, err
	}
	if seen.healths, err = u.healths(ctx, pods, outdated); err != nil {
		return facts{}, err
	}
	return seen, u.checkUsers(ctx, &seen)
}

// checkUsers reads the users of replaced nodes. It also reads whether the kubelet has registered the driver on nodes that try the newest template.
func (u *Updater) checkUsers(ctx context.Context, seen *facts) error {
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
			// One registered node is enough.
			seen.registered[pod.Spec.NodeName] = true
			return nil
		}
	}
	return nil
}

// Survey plans a migration. Argument "pods" has all node pods. The caller must read them live, because with a lagging cache the operator would
// replace too many pods. Argument "desired" is the number of nodes that should have a node pod. Argument "daemonSet" is nil if this operator does not
// own the DaemonSet yet. Argument "accepted" says what an administrator accepts.
func (u *Updater) Survey(ctx context.Context, pods []corev1.Pod, daemonSet *appsv1.DaemonSet, desired int, accepted Accepted) (Plan, error) {
	if u.Now().Sub(u.survey.at) >= surveyInterval {
		// Each new node pod triggers a reconcile. Such a reconcile must not read the whole cluster.
		if err := u.readUsers(ctx); err != nil {
			return Plan{}, err
		}
	}
	rules := Rules{Desired: desired, Migrates: true, Now: accepted.Remount, Refused: accepted.Refused}
	seen := facts{Rules: rules, now: u.Now(), pods: pods, isOld: u.IsOld, users: u.survey.users, refused: u.survey.refused}
	var proven bool
	var err error
	seen.outdated, proven = ofEarlierTemplates(pods, daemonSet, u.IsOld)
	if seen.healths, err = u.healths(ctx, pods, nil); err != nil {
		return Plan{}, err
	}
	_, plan := step(state{proven: proven}, seen)
	plan.Unmountable = u.survey.problems
	return plan, nil
}

// ofEarlierTemplates returns our pods of earlier templates, by node, and whether a pod of the newest template serves. The migration also replaces our
// outdated pods, because no roll-out runs before the migration ends.
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

// recoverState restores the state of an earlier process. It runs once per process for each new template. It finds deleted pods that the cache still
// has. And it finds nodes where pods became unready after the node got its new node pod.
func (u *Updater) recoverState(ctx context.Context, in Input, pods []corev1.Pod, outdated map[string]*corev1.Pod) error {
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
		if err := u.recoverUsers(ctx, &pods[i], outdated); err != nil {
			return err
		}
	}
	u.survey.recalled = true
	return nil
}

// recoverUsers finds users that became unready after the operator replaced their node pod.
func (u *Updater) recoverUsers(ctx context.Context, pod *corev1.Pod, outdated map[string]*corev1.Pod) error {
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

// readUsers reads the PVCs of the driver's volumes, and the pods in their namespaces.
func (u *Updater) readUsers(ctx context.Context) error {
	began := u.Now()
	volumes, err := u.readVolumes(ctx)
	if err != nil {
		return err
	}
	users, err := volumes.Users(ctx, u.Live)
	if err != nil {
		return err
	}
	u.survey.at, u.survey.users, u.survey.refused = began, map[string][]string{}, map[string][]string{}
	for _, user := range users {
		u.survey.users[user.Node] = append(u.survey.users[user.Node], user.Pod)
		if user.Started && slices.ContainsFunc(user.PVCs, func(pvc client.ObjectKey) bool { return u.survey.lost[pvc] }) {
			u.survey.refused[user.Node] = append(u.survey.refused[user.Node], user.Pod)
		}
	}
	return nil
}

// readVolumes reads the driver's volumes, and records which volumes the new driver refuses.
func (u *Updater) readVolumes(ctx context.Context) (volume.Volumes, error) {
	var problems []string
	lost := map[client.ObjectKey]bool{}
	volumes, err := volume.OfDriver(ctx, u.Live, u.Driver, func(one *corev1.PersistentVolume) {
		pvc := one.Spec.ClaimRef
		if u.Refuses == nil || pvc == nil || one.Status.Phase != corev1.VolumeBound {
			return
		}
		if why := u.Refuses(one); why != "" {
			problems = append(problems, one.Name+": "+status.Clip(why))
			lost[client.ObjectKey{Namespace: pvc.Namespace, Name: pvc.Name}] = true
		}
	})
	if err != nil {
		return volumes, err
	}
	slices.Sort(problems)
	u.survey.pvcs, u.survey.lost, u.survey.problems = volumes.PVCs, lost, problems
	return volumes, nil
}

// readCordons reads which nodes are cordoned. It also reads the users on cordoned nodes with an outdated pod.
func (u *Updater) readCordons(ctx context.Context, outdated map[string]*corev1.Pod) error {
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

// usersOn lists the pods on a node that use volumes of the driver. A pod with an unknown PVC counts as a user if the pod is newer than the survey. If
// argument "justNow" is true, the operator has just read all PVCs, so a pod with an unknown PVC does not count.
func (u *Updater) usersOn(ctx context.Context, node string, justNow bool) ([]corev1.Pod, error) {
	var found []corev1.Pod
	err := volume.EachPage(ctx, u.Live, &corev1.PodList{}, func(page *corev1.PodList) {
		for _, pod := range page.Items {
			pvcs := volume.PVCsOf(&pod)
			known := len(volume.Among(u.survey.pvcs, &pod)) > 0
			if volume.UsesVolumes(&pod) && (known || (!justNow && len(pvcs) > 0 && u.isNew(&pod))) {
				found = append(found, pod)
			}
		}
	}, client.MatchingFields{"spec.nodeName": node})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	return found, nil
}

// isNew reports whether the scheduler may have placed a pod after the survey.
func (u *Updater) isNew(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Add(skew).After(u.survey.at)
		}
	}
	return true
}

func (u *Updater) isRegistered(ctx context.Context, node string) (bool, error) {
	registration := &storagev1.CSINode{}
	if err := u.Live.Get(ctx, client.ObjectKey{Name: node}, registration); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read CSINode %s: %w", node, err)
	}
	return slices.ContainsFunc(registration.Spec.Drivers, func(known storagev1.CSINodeDriver) bool { return known.Name == u.Driver }), nil
}

// late lists nodes whose pod does not serve, or whose pod is missing after a replacement. In a roll-out, a node is late only after startTime, unless
// its unready pod is outdated.
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

// healths returns the health of late nodes. A roll-out caches answers for drainInterval. A migration reads the nodes each time.
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

// healthOf reads the health of a node from the cluster.
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
