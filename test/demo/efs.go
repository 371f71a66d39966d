package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/test/env"
)

// startEFS brings up the cluster and the operator, which is allowed only what its ServiceAccount may do.
func (d *demo) startEFS(ctx context.Context) (err error) {
	if d.real {
		d.say("Starting a cluster with %d nodes, all of them real: kubelet, containerd and runc start the pods.", d.nodes)
		if err := d.startCluster(ctx, d.realNodes()...); err != nil {
			return err
		}
		return d.deployEFS(ctx)
	}
	d.say("Starting a cluster with %d nodes: a real API server, scheduler and controller-manager; nodes and pods are fake.", d.nodes)
	if err := d.startCluster(ctx); err != nil {
		return err
	}
	d.cluster.Operator = env.OperatorName
	if err := d.cluster.InstallManifests(ctx); err != nil {
		return err
	}
	d.say("Starting the operator as ServiceAccount %s/%s.", env.OperatorNamespace, env.OperatorName)
	if d.keep {
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
	d.say("Creating ClusterCSIDriver efs.csi.aws.com, as an administrator does. The operator creates (+), changes (~) and deletes (-):")
	fmt.Printf("           (The demo sets its annotation %s=%s, so every namespace may make\n"+
		"           SharedVolumes, and the cluster has no policy that forbids it. Without the annotation, an administrator allows\n"+
		"           each namespace.)\n", efs.UnlistedAnnotation, efs.UnlistedAllow)
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
	d.say("Installed: %d objects, which the operator repairs when they change, and deletes with the driver:", len(owned))
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
	d.say("An administrator deletes the DaemonSet:")
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
	d.say("Uninstalled: nothing of the driver is left. The policy for SharedVolumes is there again, as the operator still runs.")
	return nil
}
