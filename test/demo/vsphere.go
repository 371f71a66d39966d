package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakevsphere"
	"github.com/csi-operators/csi-operators/test/env/vcenters"
)

const (
	vSphere = "csi.vsphere.vmware.com"
	// host has the VMs of nodes.
	host = "/dc1/host/cluster1/esx1"
	// other is a datastore of no failure domain.
	other, otherURL = "/dc1/datastore/ds2", "ds:///vmfs/volumes/ds2/"
)

// startVCenter starts a vCenter, and writes what an installer writes about it.
func (d *demo) startVCenter(ctx context.Context) error {
	d.say("Starting a vCenter at an address of this machine, with a CA of its own: a datacenter, two hosts, two datastores, and a VM for each node.")
	all, err := vcenters.Put(ctx, d.cluster, 1)
	if err != nil {
		return err
	}
	d.vCenter, d.closeCloud = all[0], func() { fakevsphere.CloseAll(all) }
	d.vCenter.SetDatastore(other, fakevsphere.Datastore{URL: otherURL})
	d.say("Written as by an installer: the Infrastructure with a failure domain, the configuration of the cloud, the CA, the credentials.")
	return nil
}

// followVCenter says what has changed in the vCenter, and the class that comes of it.
func (d *demo) followVCenter(ctx context.Context) error {
	if d.vCenter == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(d.vCenter.Categories())) {
		d.sayOnce("vCenter: tag category "+name, "is there")
	}
	attached := d.vCenter.Attachments()
	for _, name := range slices.Sorted(maps.Keys(d.vCenter.Tags())) {
		d.sayOnce("vCenter: tag "+name[strings.LastIndex(name, "/")+1:], "on "+cmp.Or(strings.Join(attached[name], ", "), "nothing yet"))
	}
	for _, name := range slices.Sorted(maps.Keys(d.vCenter.Policies())) {
		d.sayOnce("vCenter: storage policy", name)
	}
	classes := &storagev1.StorageClassList{}
	if err := d.cluster.Client.List(ctx, classes); err != nil {
		return fmt.Errorf("list the StorageClasses: %w", err)
	}
	for i := range classes.Items {
		if policy := classes.Items[i].Parameters["StoragePolicyName"]; policy != "" {
			d.sayOnce("StorageClass "+classes.Items[i].Name, "of storage policy "+policy)
		}
	}
	return nil
}

// ageHost makes a host too old for the driver and new again, where the cloud is a vCenter.
func (d *demo) ageHost(ctx context.Context) error {
	if d.vCenter == nil {
		return nil
	}
	d.say("Now host esx1 runs ESXi 6.5, which is too old. The operator asks the vCenter every five minutes, and within a minute when something")
	d.say("changes in the cluster that concerns it: here, a StorageClass that names datastore ds2.")
	d.vCenter.SetHost(host, fakevsphere.Host{Version: "6.5.0", APIVersion: "6.5.0"})
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "on-ds2"}, Provisioner: vSphere, Parameters: map[string]string{"datastoreurl": otherURL},
	}
	if err := d.cluster.Client.Create(ctx, class); err != nil {
		return fmt.Errorf("make StorageClass %s: %w", class.Name, err)
	}
	err := d.await(ctx, "ClusterOperator storage tells of the host", func(operator *configv1.ClusterOperator) error {
		return env.Says(operator, map[configv1.ClusterStatusConditionType]configv1.ConditionStatus{
			configv1.OperatorDegraded: configv1.ConditionTrue, configv1.OperatorUpgradeable: configv1.ConditionFalse,
			configv1.OperatorAvailable: configv1.ConditionTrue,
		})
	})
	if err != nil {
		return err
	}
	if err := d.complain(ctx); err != nil {
		return err
	}
	d.say("The host is upgraded to ESXi 8, and the StorageClass is deleted.")
	d.vCenter.SetHost(host, fakevsphere.Host{})
	if err := d.cluster.Client.Delete(ctx, class); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete StorageClass %s: %w", class.Name, err)
	}
	err = d.await(ctx, "ClusterOperator storage is healthy again", func(*configv1.ClusterOperator) error {
		return d.cluster.Reached(ctx, env.ClusterRelease)
	})
	if err != nil {
		return err
	}
	d.say("Healthy again. Events of the checks and of the storage policy:")
	return d.tell(ctx)
}

// await follows the cluster until its ClusterOperator is as it should be.
func (d *demo) await(ctx context.Context, what string, check func(*configv1.ClusterOperator) error) error {
	return env.AwaitFor(ctx, 3*time.Minute, what, func() error {
		if err := d.follow(ctx); err != nil {
			return err
		}
		operator, err := d.cluster.ClusterOperator(ctx)
		if err != nil {
			return fmt.Errorf("read the ClusterOperator: %w", err)
		}
		return check(operator)
	})
}

// complain prints what the checks say.
func (d *demo) complain(ctx context.Context) error {
	driver := env.CR(vSphere, "")
	if err := d.cluster.Client.Get(ctx, client.ObjectKeyFromObject(driver), driver); err != nil {
		return fmt.Errorf("read the ClusterCSIDriver: %w", err)
	}
	d.say("ClusterCSIDriver %s says:", vSphere)
	for _, condition := range driver.Status.Conditions {
		wrong := condition.Status == operatorv1.ConditionTrue
		if strings.HasSuffix(condition.Type, "Upgradeable") {
			wrong = condition.Status == operatorv1.ConditionFalse
		}
		if wrong && (strings.HasSuffix(condition.Type, "Degraded") || strings.HasSuffix(condition.Type, "Upgradeable")) {
			fmt.Printf("           %s=%s\n             %s\n", condition.Type, condition.Status, condition.Message)
		}
	}
	return nil
}

// tell prints the events of the checks and of the storage policy.
func (d *demo) tell(ctx context.Context) error {
	list := &eventsv1.EventList{}
	if err := d.cluster.Client.List(ctx, list); err != nil {
		return fmt.Errorf("list the events: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	for i := range list.Items {
		one := &list.Items[i]
		if one.Regarding.Name == vSphere && (one.Action == "CheckVSphere" || one.Action == "KeepStoragePolicy") {
			fmt.Printf("           %-8s %-26s %s\n", one.Type, one.Reason, one.Note)
		}
	}
	return nil
}
