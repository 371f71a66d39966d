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

// lockSuffix is the end of the name of an operator's Lease. The beginning is the name of the operator's Deployment. The programs in cmd use the same
// name.
const lockSuffix = "-lock"

// leaseHolder returns the holder of the Lease of an operator without a Deployment. If the Lease has no holder, the result is empty. leaseHolder reads
// the Lease only if the driver has a ClusterCSIDriver, or if administrators install the driver.
func (r *reader) leaseHolder(ctx context.Context, name string, driver *Driver) string {
	known := r.profiles[name]
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

// holderOf returns the process that has renewed the Lease within twice the Lease's duration. The result is the process' name without the random part
// at its end. If there is no such process, the result is empty. An operator releases its Lease when it exits.
func holderOf(lease *coordinationv1.Lease, now time.Time) string {
	spec := lease.Spec
	if spec.HolderIdentity == nil || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return ""
	}
	if now.Sub(spec.RenewTime.Time) > 2*time.Duration(*spec.LeaseDurationSeconds)*time.Second {
		return ""
	}
	// The identity is HOST_UUID (controller-runtime v0.24.1, pkg/leaderelection).
	host, _, _ := strings.Cut(*spec.HolderIdentity, "_")
	return host
}
