package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/csi-operators/csi-operators/internal/cloud/openstack"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/driver"
	stack "github.com/csi-operators/csi-operators/internal/driver/openstack"
)

// cloud connects the ClusterCSIDriver controller with the OpenStack poller.
type cloud struct {
	poller  *openstack.Poller
	asks    driver.Cloud
	changed chan event.GenericEvent
}

// addCloud adds the cloud poller if the driver needs one.
func addCloud(mgr ctrl.Manager, controller *clustercsidriver.Reconciler) error {
	switch {
	case controller.Driver.Cloud == nil:
		return nil
	case controller.Driver.Cloud.VCenters:
		return addVCenters(mgr, controller)
	}
	counts, err := openstack.NewMetrics(metrics.Registry, controller.Driver.Name)
	if err != nil {
		return err
	}
	asking := newCloud(*controller.Driver.Cloud, secretSource(controller.Derived))
	asking.poller.Log, asking.poller.Metrics = mgr.GetLogger().WithName("cloud"), counts
	if err := mgr.Add(asking.poller); err != nil {
		return fmt.Errorf("set up the cloud poller: %w", err)
	}
	controller.Derived.Cloud = asking
	return nil
}

func newCloud(asks driver.Cloud, from openstack.Source) *cloud {
	made := &cloud{asks: asks, changed: make(chan event.GenericEvent, 1)}
	made.poller = &openstack.Poller{
		Ask: openstack.Questions{Zones: asks.Zones, ShareTypes: asks.ShareTypes}, Source: from, Now: time.Now, Wake: made.wake,
	}
	return made
}

// secretSource reads the Secret from the API server, because the cache has only the Secret's hash. It reads the ConfigMap with the CA certificates
// from the cache. If the ConfigMap has none, the CA certificates come from the Secret.
func secretSource(from *derived.Source) openstack.Source {
	return func(ctx context.Context) (openstack.Credentials, []byte, error) {
		asks := from.Driver.Cloud
		secret := &corev1.Secret{}
		if err := from.Live.Get(ctx, client.ObjectKey{Namespace: from.Namespace, Name: asks.Secret}, secret); err != nil {
			return openstack.Credentials{}, nil, fmt.Errorf("read Secret %s: %w", asks.Secret, err)
		}
		credentials, err := openstack.Parse(secret.Data[stack.CloudsYAML])
		if err != nil {
			return credentials, nil, err
		}
		roots := secret.Data[stack.CACert]
		if certificates, err := derived.ReadCA(ctx, from.Client, asks.CA); err != nil || certificates != "" {
			return credentials, []byte(certificates), err
		}
		return credentials, roots, nil
	}
}

// wake triggers a reconcile of the ClusterCSIDriver.
func (c *cloud) wake() { signal(c.changed) }

// Facts returns what the OpenStack cloud last answered.
func (c *cloud) Facts() driver.CloudFacts {
	facts := c.poller.Facts()
	if !facts.Known() {
		return driver.CloudFacts{}
	}
	found := driver.CloudFacts{Known: true, ComputeZones: facts.ComputeZones, VolumeZones: facts.VolumeZones}
	if !c.asks.ShareTypes {
		found.Repeated = facts.ZonesRepeated()
		return found
	}
	if found.NoService = !facts.HasManila; found.NoService {
		return found
	}
	found.Repeated = facts.Repeated()
	for _, one := range facts.ShareTypes {
		found.ShareTypes = append(found.ShareTypes, one.Name)
	}
	return found
}

// Failure returns the error of the last poll.
func (c *cloud) Failure() derived.CloudFailure {
	facts := c.poller.Facts()
	if facts.Err == nil {
		return derived.CloudFailure{}
	}
	return derived.CloudFailure{
		Reason: string(openstack.ReasonOf(facts.Err)), Message: facts.Problem(), Since: facts.FailingSince,
	}
}

// SetInputs tells the poller the hash of the credentials.
func (c *cloud) SetInputs(hash string) { c.poller.SetInputs(hash) }

// Changed returns a channel that gets an event after each change in the results of Facts or Failure.
func (c *cloud) Changed() <-chan event.GenericEvent { return c.changed }
