package survey

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// lockSuffix is what the name of an operator's Lease has after that of its Deployment, as cmd/ sets it.
const lockSuffix = "-lock"

// leaseHolder is who holds the Lease of an operator that has no Deployment; empty if nobody. It looks only where an operator may be: one of a
// driver that is asked for, or that administrators install.
func (r *reader) leaseHolder(ctx context.Context, name string, driver *Driver) string {
	known := r.known[name]
	if r.Operators != plugin.Present || known.Operator == "" || known.Platform != "" && (driver == nil || driver.CR == nil) {
		return ""
	}
	lease, key := &coordinationv1.Lease{}, client.ObjectKey{Namespace: catalogue.Namespace, Name: known.Operator + lockSuffix}
	there, err := r.Find(ctx, key, lease)
	if err != nil {
		r.Failures = append(r.Failures, fmt.Errorf("get Lease %s: %w", key, err))
	}
	if !there {
		return ""
	}
	return holderOf(lease, r.now)
}

// holderOf is the process that has renewed a Lease within twice its duration, without the random part of its name; empty if there is none. An
// operator that ends well gives its Lease back, which leaves no holder.
func holderOf(lease *coordinationv1.Lease, now time.Time) string {
	spec := lease.Spec
	if spec.HolderIdentity == nil || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return ""
	}
	if now.Sub(spec.RenewTime.Time) > 2*time.Duration(*spec.LeaseDurationSeconds)*time.Second {
		return ""
	}
	// The identity is HOST_UUID (controller-runtime, pkg/leaderelection).
	host, _, _ := strings.Cut(*spec.HolderIdentity, "_")
	return host
}
