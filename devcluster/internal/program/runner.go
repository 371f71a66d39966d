package program

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

const (
	// firstPause is the pause before the first restart. Each further pause is twice as long, up to longestPause.
	firstPause   = time.Second
	longestPause = 30 * time.Second
	// healthy is a run time. If a program ran longer than this, the next pause is firstPause again.
	healthy = time.Minute
	// tokenLife is how long a token is valid. It is longer than a devcluster lives, because nothing renews the file with the token.
	tokenLife = 30 * 24 * time.Hour
)

// runner runs a process for each pod with a known image.
type runner struct {
	client   client.Client
	config   *rest.Config
	dir      string
	programs map[string]Program
	// realNodes are the names of the nodes with a kubelet. A kubelet runs the containers of its pods, so pods on these nodes need no program.
	realNodes []string
	group     *supervise.Group

	mu      sync.Mutex
	records map[types.NamespacedName]*record
}

// record describes the process of a pod.
type record struct {
	uid   types.UID
	image string
	// name is the name of the process and of the process' log.
	name    string
	started time.Time
	// pause is the pause before the next restart. due is the time of this restart. Both are only valid after the process has ended.
	pause time.Duration
	due   time.Time
	ended bool
}

// Reconcile starts, restarts or ends the process of one pod.
func (r *runner) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	err := r.client.Get(ctx, request.NamespacedName, pod)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	program, wanted := Program{}, false
	if err == nil {
		program, wanted = r.programOf(pod)
	}
	known := r.record(request.NamespacedName)
	if known != nil && (!wanted || known.uid != pod.UID || known.image != program.Image) {
		r.end(ctx, request.NamespacedName, known, pod)
		known = nil
	}
	switch {
	case err != nil:
		return ctrl.Result{}, nil
	case !wanted:
		return ctrl.Result{}, r.letGo(ctx, pod)
	case !controllerutil.ContainsFinalizer(pod, Finalizer):
		// The change of the pod causes an event, whose reconcile starts the program.
		return ctrl.Result{}, client.IgnoreNotFound(r.hold(ctx, pod))
	case known == nil:
		return ctrl.Result{}, r.start(ctx, program, pod, &record{uid: pod.UID, image: program.Image, name: pod.Namespace + "-" + pod.Name})
	default:
		return r.restart(ctx, program, pod, known)
	}
}

// programOf returns the program that should run for the pod. The second result is false if no program should run.
func (r *runner) programOf(pod *corev1.Pod) (Program, bool) {
	if slices.Contains(r.realNodes, pod.Spec.NodeName) {
		return Program{}, false
	}
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || len(pod.Spec.Containers) != 1 {
		return Program{}, false
	}
	program, known := r.programs[pod.Spec.Containers[0].Image]
	return program, known
}

// restart starts a program again, after a pause, if the program has ended by itself.
func (r *runner) restart(ctx context.Context, program Program, pod *corev1.Pod, known *record) (ctrl.Result, error) {
	status, _ := r.group.Status(known.name)
	if status.State == supervise.Running {
		return ctrl.Result{}, nil
	}
	now := time.Now()
	if !known.ended {
		known.ended = true
		known.pause = min(max(2*known.pause, firstPause), longestPause)
		if now.Sub(known.started) > healthy {
			known.pause = firstPause
		}
		known.due = now.Add(known.pause)
		ctrl.LoggerFrom(ctx).Info("the program has ended by itself", "exit", status.Exit, "log", status.Log, "pause", known.pause)
		if err := r.setEnded(ctx, pod, fmt.Sprintf("the program has ended (%s); it is started again after %s", status.Exit, known.pause)); err != nil {
			return ctrl.Result{}, err
		}
	}
	if wait := known.due.Sub(now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return ctrl.Result{}, r.start(ctx, program, pod, known)
}

func (r *runner) start(ctx context.Context, program Program, pod *corev1.Pod, to *record) error {
	container, err := environment(pod)
	if err != nil {
		return fmt.Errorf("environment of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	kubeconfig, err := r.writeKubeconfig(ctx, pod, to.name)
	if err != nil {
		return err
	}
	// Record the start before the process can end.
	to.started, to.ended = time.Now(), false
	r.mu.Lock()
	r.records[client.ObjectKeyFromObject(pod)] = to
	r.mu.Unlock()
	err = r.group.Start(supervise.Process{
		Name: to.name, Executable: program.Path, Args: program.arguments(pod, container), Env: variables(container, r.dir, kubeconfig),
	})
	if err != nil {
		r.forget(client.ObjectKeyFromObject(pod))
		return err
	}
	status, _ := r.group.Status(to.name)
	ctrl.LoggerFrom(ctx).Info("started a program", "path", program.Path, "pid", status.PID, "log", status.Log)
	return r.setStarted(ctx, pod, status.PID)
}

// end stops the process of a pod in the same way as a kubelet. It then drops the pod's record.
func (r *runner) end(ctx context.Context, key types.NamespacedName, known *record, pod *corev1.Pod) {
	patience := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 1)) * time.Second
	r.group.Stop(known.name, patience)
	status, _ := r.group.Status(known.name)
	ctrl.LoggerFrom(ctx).Info("ended a program with its pod", "exit", status.Exit)
	r.group.Forget(known.name)
	_ = os.Remove(r.kubeconfig(known.name))
	r.forget(key)
}

func (r *runner) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.records, key)
}

func (r *runner) record(key types.NamespacedName) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records[key]
}

func (r *runner) keyOf(name string) (types.NamespacedName, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, known := range r.records {
		if known.name == name {
			return key, true
		}
	}
	return types.NamespacedName{}, false
}

// hold adds the finalizer to a pod. The finalizer keeps the pod until the pod's process has ended.
func (r *runner) hold(ctx context.Context, pod *corev1.Pod) error {
	held := pod.DeepCopy()
	controllerutil.AddFinalizer(held, Finalizer)
	// The patch replaces the whole list of finalizers. So it must fail if another client has changed the pod.
	return r.client.Patch(ctx, held, client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{}))
}

// letGo removes the finalizer from a pod that has no process.
func (r *runner) letGo(ctx context.Context, pod *corev1.Pod) error {
	if !controllerutil.ContainsFinalizer(pod, Finalizer) {
		return nil
	}
	free := pod.DeepCopy()
	controllerutil.RemoveFinalizer(free, Finalizer)
	return client.IgnoreNotFound(r.client.Patch(ctx, free, client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{})))
}

// setStarted writes the ID of the process into the pod, and marks the pod as ready.
func (r *runner) setStarted(ctx context.Context, pod *corev1.Pod, pid int) error {
	wanted := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, PIDAnnotation, strconv.Itoa(pid))
	if err := r.client.Patch(ctx, wanted, client.MergeFrom(pod)); err != nil {
		return client.IgnoreNotFound(err)
	}
	return r.setReady(ctx, wanted, corev1.ConditionTrue, corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()},
	})
}

// setEnded writes into the pod that the pod's process has ended, and why.
func (r *runner) setEnded(ctx context.Context, pod *corev1.Pod, message string) error {
	return r.setReady(ctx, pod, corev1.ConditionFalse, corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: message},
	})
}

func (r *runner) setReady(ctx context.Context, pod *corev1.Pod, ready corev1.ConditionStatus, state corev1.ContainerState) error {
	wanted := pod.DeepCopy()
	for i, condition := range wanted.Status.Conditions {
		if condition.Type != corev1.PodReady && condition.Type != corev1.ContainersReady || condition.Status == ready {
			continue
		}
		wanted.Status.Conditions[i].Status = ready
		wanted.Status.Conditions[i].LastTransitionTime = metav1.Now()
	}
	for i := range wanted.Status.ContainerStatuses {
		container := &wanted.Status.ContainerStatuses[i]
		container.Ready, container.State = ready == corev1.ConditionTrue, state
		if state.Waiting != nil {
			container.RestartCount++
		}
	}
	return client.IgnoreNotFound(r.client.Status().Patch(ctx, wanted, client.MergeFrom(pod)))
}

// writeKubeconfig writes a kubeconfig with the permissions of the pod's ServiceAccount.
func (r *runner) writeKubeconfig(ctx context.Context, pod *corev1.Pod, name string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(tokenLife / time.Second)),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if err := r.client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: r.config.Host, CertificateAuthorityData: slices.Clone(r.config.CAData)}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: pod.Namespace}
	config.CurrentContext = name
	path := r.kubeconfig(name)
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("kubeconfig of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return path, nil
}

func (r *runner) kubeconfig(name string) string { return filepath.Join(r.dir, name+".kubeconfig") }
