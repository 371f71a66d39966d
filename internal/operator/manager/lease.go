package manager

import (
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// podLock returns the Lease lock of an operator in a pod. The holder's name contains the pod's UID, so that after a crash the new process holds the
// same Lease at once. That is safe, because the kubelet restarts a container only after the container's old process has ended. Outside a pod, podLock
// returns nil. controller-runtime then gives each process its own name, and a new process waits until the Lease expires.
func podLock(config *rest.Config, options Options, scheme *runtime.Scheme, renew time.Duration) (resourcelock.Interface, error) {
	if !options.LeaderElect || options.PodUID == "" {
		return nil, nil //nolint:nilnil // With nil, controller-runtime creates the lock.
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name the holder of the Lease: %w", err)
	}
	// Only the client of the Lease has a timeout, so that the operator does not lose the Lease because one request hangs. All other clients have no
	// timeout, because a timeout would close watches.
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	config.Timeout = max(renew/2, time.Second)
	events, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for events of the Lease: %w", err)
	}
	leases, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for the Lease: %w", err)
	}
	holder := host + "_" + options.PodUID
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: events.Events("")})
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: Namespace(options), Name: options.LockName},
		Client:    leases,
		LockConfig: resourcelock.ResourceLockConfig{
			Identity: holder, EventRecorder: broadcaster.NewRecorder(scheme, corev1.EventSource{Component: holder}),
		},
	}, nil
}

// leaderElection returns multiples of argument "wanted", a retry period. If "wanted" is 0, it returns the times that OpenShift recommends. With
// OpenShift's times, a leader survives an outage of the API server of one minute. On a single node, the leader survives a restart of the API server.
func leaderElection(singleNode bool, wanted time.Duration) (lease, renew, retry time.Duration) {
	if wanted > 0 {
		return 5 * wanted, 4 * wanted, wanted
	}
	if singleNode {
		return 270 * time.Second, 240 * time.Second, 60 * time.Second
	}
	return 137 * time.Second, 107 * time.Second, 26 * time.Second
}
