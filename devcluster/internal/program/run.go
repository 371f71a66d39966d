package program

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2/textlogger"

	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

// shutdown is the time that the programs have to end when the cluster ends. It is shorter than the time that this process has to end.
const shutdown = 700 * time.Millisecond

// atOnce is the number of ending processes for which the runner waits at the same time.
const atOnce = 16

// Run runs the programs that the flags name, until the context ends.
func Run(ctx context.Context, args []string) error {
	var kubeconfig, dir, logs string
	var own, foreign, realNodes []string
	flags := pflag.NewFlagSet("programs", pflag.ContinueOnError)
	flags.StringVar(&kubeconfig, "kubeconfig", "", "file that says how to reach the cluster")
	flags.StringVar(&dir, "dir", "", "folder for the files of the programs")
	flags.StringVar(&logs, "logs", "", "folder for the output of the programs")
	flags.StringArrayVar(&own, OwnFlag, nil, "IMAGE=PATH of an operator")
	flags.StringArrayVar(&foreign, ForeignFlag, nil, "IMAGE=PATH of another program")
	flags.StringArrayVar(&realNodes, RealNodeFlag, nil, "node that runs containers, and so gets no program")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("programs: read the flags: %w", err)
	}
	programs, err := Parse(own, foreign)
	if err != nil {
		return err
	}
	for _, path := range []*string{&dir, &logs} {
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("programs: find the absolute path of %s: %w", *path, err)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("programs: read the kubeconfig: %w", err)
	}
	config.QPS = -1
	ctrl.SetLogger(textlogger.NewLogger(textlogger.NewConfig()))
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: clientgoscheme.Scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("programs: make the controller manager: %w", err)
	}
	r := &runner{
		client: client.WithFieldOwner(manager.GetClient(), "programs"), config: config, dir: dir, programs: map[string]Program{},
		realNodes: realNodes,
		group:     supervise.NewGroup(supervise.Options{Dir: dir, Logs: logs}),
		records:   map[types.NamespacedName]*record{},
	}
	for _, p := range programs {
		r.programs[p.Image] = p
	}
	// End the programs as soon as ctx ends. The manager waits for reconciles before it stops, and a reconcile may be waiting for the end of a program.
	// Channel stopped is closed when all programs have ended.
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		r.group.StopAll(shutdown)
		close(stopped)
	})
	if err := r.setup(manager); err != nil {
		return fmt.Errorf("programs: set up the controller: %w", err)
	}
	if err := manager.Start(ctx); err != nil {
		return fmt.Errorf("programs: run: %w", err)
	}
	<-stopped
	return nil
}

func (r *runner) setup(manager ctrl.Manager) error {
	ended := make(chan event.GenericEvent)
	err := ctrl.NewControllerManagedBy(manager).
		Named("programs").
		For(&corev1.Pod{}).
		WatchesRawSource(source.Channel(ended, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: atOnce}).
		Complete(r)
	if err != nil {
		return err
	}
	go func() {
		for exit := range r.group.Exits() {
			if key, known := r.keyOf(exit.Name); known {
				ended <- event.GenericEvent{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}}
			}
		}
	}()
	return nil
}
