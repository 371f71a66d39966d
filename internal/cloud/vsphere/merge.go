package vsphere

import (
	"reflect"
	"slices"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// answer is the result of polling one vCenter: its data, or an error.
type answer struct {
	seen VCenter
	err  *Error
}

// merge returns the snapshot after a poll. For a vCenter that does not answer, the last answer stays.
func merge(old Snapshot, configs []cloudconfig.VCenterConfig, answers map[string]answer, now time.Time) Snapshot {
	merged := Snapshot{Taken: now}
	for _, config := range configs {
		before, _ := old.Of(config.Server)
		one := answers[config.Server]
		if one.err == nil {
			merged.VCenters = append(merged.VCenters, one.seen)
			continue
		}
		kept := before
		kept.Server, kept.Insecure, kept.Err = config.Server, config.Insecure, one.err
		if before.Err == nil {
			kept.FailingSince = now
		}
		merged.VCenters = append(merged.VCenters, kept)
	}
	return merged
}

// broken returns the snapshot for an invalid configuration or for invalid credentials. In this snapshot, all vCenters have the same error. If no
// vCenter is known, the snapshot has one vCenter without a name.
func broken(old Snapshot, configs []cloudconfig.VCenterConfig, failure *Error, now time.Time) Snapshot {
	if len(configs) == 0 {
		for _, one := range old.VCenters {
			configs = append(configs, cloudconfig.VCenterConfig{Server: one.Server, Insecure: one.Insecure})
		}
	}
	if len(configs) == 0 {
		configs = []cloudconfig.VCenterConfig{{}}
	}
	answers := map[string]answer{}
	for _, config := range configs {
		answers[config.Server] = answer{err: failure}
	}
	return merge(old, configs, answers, now)
}

// same reports whether two snapshots are equal. It ignores times, and compares free space in steps of a twentieth of the datastore's capacity.
func same(a, b Snapshot) bool {
	return slices.EqualFunc(a.VCenters, b.VCenters, func(one, other VCenter) bool {
		return reflect.DeepEqual(lasting(one), lasting(other))
	})
}

// lasting returns a vCenter without times, and with rounded free space.
func lasting(of VCenter) VCenter {
	if !of.Answered.IsZero() {
		of.Answered = time.Unix(1, 0)
	}
	if of.Err != nil {
		of.Err = &Error{Server: of.Err.Server, What: of.Err.What, Reason: of.Err.Reason, Why: of.Err.Why}
	}
	of.Datastores = slices.Clone(of.Datastores)
	for i, one := range of.Datastores {
		of.Datastores[i].Free = 0
		if one.Capacity > 0 {
			of.Datastores[i].Free = int64(float64(one.Free) / float64(one.Capacity) * 20)
		}
	}
	return of
}
