// Command demo shows the main job: a cluster comes up, the operator installs the EFS driver, gives a developer a volume,
// changes and repairs the driver, and removes it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/test/env"
)

// nodes are those of the cluster.
const nodes = 6

func main() {
	keep := flag.Bool("keep", false, "leave the cluster and the operator running")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one run.
type demo struct {
	cluster  *env.Cluster
	operator *env.Operator
	started  time.Time
}

func run(ctx context.Context, keep bool) (failure error) {
	d := &demo{started: time.Now()}
	defer func() {
		if failure != nil && d.operator != nil {
			fmt.Println("The operator printed:\n" + d.operator.Output())
		}
		if failure != nil || !keep {
			failure = errors.Join(failure, d.stop())
		}
	}()
	steps := []func(context.Context) error{d.install, d.list, d.share, d.damage, d.uninstall}
	if keep {
		steps = steps[:4]
	}
	if err := d.start(ctx, keep); err != nil {
		return err
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if keep {
		d.farewell()
	}
	return nil
}

// start brings up the cluster and the operator, which is allowed only what its ServiceAccount may do.
func (d *demo) start(ctx context.Context, keep bool) error {
	d.say("Starting a cluster with %d nodes: a real API server, scheduler and controller-manager; nodes and pods are fake.", nodes)
	var err error
	if keep {
		root, err := env.Root()
		if err != nil {
			return err
		}
		d.cluster, err = env.StartIn(ctx, filepath.Join(root, ".devcluster"), "--nodes", strconv.Itoa(nodes))
		if err != nil {
			return err
		}
	} else if d.cluster, err = env.Start(ctx, "--nodes", strconv.Itoa(nodes)); err != nil {
		return err
	}
	d.cluster.Operator = env.OperatorName
	if err := d.cluster.InstallManifests(ctx); err != nil {
		return err
	}
	d.say("Starting the operator as ServiceAccount %s/%s.", env.OperatorNamespace, env.OperatorName)
	if keep {
		d.operator, err = d.cluster.LeaveOperator(ctx)
	} else {
		d.operator, err = d.cluster.StartOperator(ctx, nil, nil)
	}
	if err != nil {
		return err
	}
	return env.Await(ctx, "operator ready", func() error {
		select {
		case <-d.operator.Done():
			return errors.New("the operator has ended")
		default:
		}
		// The last of its controllers; before that, it writes the policies of SharedVolumes.
		if !strings.Contains(d.operator.Output(), `"Starting workers" controller="sharedvolume-volumes"`) {
			return errors.New("not yet")
		}
		return nil
	})
}

// install creates the ClusterCSIDriver and shows what happens until the driver is available.
func (d *demo) install(ctx context.Context) error {
	view, err := d.view(ctx)
	if err != nil {
		return err
	}
	d.say("Creating ClusterCSIDriver efs.csi.aws.com, which is all that an administrator does:")
	fmt.Printf("           (%s=%s lets every namespace make SharedVolumes; without it, an administrator allows each)\n",
		efs.UnlistedAnnotation, efs.UnlistedAllow)
	if err := d.cluster.Client.Create(ctx, env.EFS(operatorv1.Managed)); err != nil {
		return fmt.Errorf("create the ClusterCSIDriver: %w", err)
	}
	err = env.Await(ctx, "driver available", func() error {
		if err := view.show(ctx); err != nil {
			return err
		}
		return d.cluster.Settled(ctx)
	})
	if err != nil {
		return err
	}
	if err := view.show(ctx); err != nil {
		return err
	}
	d.say("Available. It took %d requests to the API server.", view.requests)
	return nil
}

// list prints what the operator has installed.
func (d *demo) list(ctx context.Context) error {
	owned, err := d.cluster.Owned(ctx)
	if err != nil {
		return err
	}
	byKind := map[string][]string{}
	for _, object := range owned {
		byKind[object.GetKind()] = append(byKind[object.GetKind()], object.GetName())
	}
	kinds := make([]string, 0, len(byKind))
	for kind := range byKind {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	d.say("Installed: %d objects.", len(owned))
	for _, kind := range kinds {
		fmt.Printf("           %-20s %s\n", kind, strings.Join(byKind[kind], ", "))
	}
	return nil
}

// damage deletes the DaemonSet and waits until it is back on all nodes.
func (d *demo) damage(ctx context.Context) error {
	view, err := d.view(ctx)
	if err != nil {
		return err
	}
	daemonSet := &appsv1.DaemonSet{}
	key := client.ObjectKey{Namespace: env.OperatorNamespace, Name: "efs-csi-node"}
	if err := d.cluster.Client.Get(ctx, key, daemonSet); err != nil {
		return fmt.Errorf("read the DaemonSet: %w", err)
	}
	deleted, before := daemonSet.UID, daemonSet.Status.NumberAvailable
	d.say("Somebody deletes the DaemonSet:")
	began := time.Now()
	if err := d.cluster.Client.Delete(ctx, daemonSet); err != nil {
		return fmt.Errorf("delete the DaemonSet: %w", err)
	}
	var back time.Duration
	err = env.Await(ctx, "DaemonSet repaired", func() error {
		if err := view.show(ctx); err != nil {
			return err
		}
		if err := d.cluster.Client.Get(ctx, key, daemonSet); err != nil {
			return fmt.Errorf("read the DaemonSet: %w", err)
		}
		if daemonSet.UID == deleted {
			return errors.New("it is still the old one")
		}
		if back == 0 {
			back = time.Since(began)
		}
		if available := daemonSet.Status.NumberAvailable; available == 0 || available < before {
			return fmt.Errorf("%d of %d nodes", available, before)
		}
		return d.cluster.Settled(ctx)
	})
	if err != nil {
		return err
	}
	d.say("The operator made it again after %d ms; the driver is available on all nodes.", back.Milliseconds())
	return nil
}

// uninstall deletes the ClusterCSIDriver and counts what is left.
func (d *demo) uninstall(ctx context.Context) error {
	view, err := d.view(ctx)
	if err != nil {
		return err
	}
	d.say("Deleting the ClusterCSIDriver, which uninstalls the driver:")
	cr := env.EFS("")
	if err := d.cluster.Client.Delete(ctx, cr); err != nil {
		return fmt.Errorf("delete the ClusterCSIDriver: %w", err)
	}
	err = env.Await(ctx, "ClusterCSIDriver gone", func() error {
		if err := view.show(ctx); err != nil {
			return err
		}
		return d.cluster.Gone(ctx, cr)
	})
	if err != nil {
		return err
	}
	owned, err := d.cluster.Owned(ctx)
	if err != nil {
		return err
	}
	if len(owned) > 0 {
		return fmt.Errorf("%d objects were left behind", len(owned))
	}
	d.say("Uninstalled: no object is left.")
	return nil
}

// farewell says how to go on with the cluster.
func (d *demo) farewell() {
	d.say("The cluster and the operator (process %d) go on. To use and to end them:", d.operator.PID())
	fmt.Printf("\nexport KUBECONFIG=%s\n", d.cluster.Kubeconfig())
	fmt.Printf("bin/devcluster kubectl get clustercsidriver efs.csi.aws.com -o yaml\n")
	fmt.Printf("bin/devcluster kubectl apply -f config/samples/sharedvolume.yaml; bin/devcluster kubectl get sv\n")
	fmt.Printf("less %s\n", d.operator.Log)
	fmt.Printf("kill %d; bin/devcluster down\n", d.operator.PID())
}

// stop ends everything that was started.
func (d *demo) stop() error {
	if d.cluster == nil {
		return nil
	}
	d.say("Stopping the operator and the cluster.")
	var failure error
	if d.operator != nil {
		failure = d.operator.Stop()
	}
	if err := d.cluster.Stop(context.Background()); err != nil {
		return errors.Join(failure, err)
	}
	d.say("Nothing is left running.")
	return failure
}

func (d *demo) say(format string, values ...any) {
	fmt.Printf("%6.1f s   %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, values...))
}
