package derived

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// Disabled ends the type of the condition that tells of an Absence. It is the reason too, where the cloud has answered.
const Disabled = "DriverDisabled"

// Absence says why a driver is not installed although nothing fails; zero if that is not so.
type Absence struct{ Reason, Message string }

// Absence says why a driver is not installed that never was: its cloud does not have what the driver is for, or does not answer. Undecided means
// that nothing can be applied before the cloud has answered. HasPods tells of pods of the driver, and said is what was reported last.
func (s *Source) Absence(
	ctx context.Context, cfg driver.Config, trouble CloudTrouble, hasPods bool, said []operatorv1.OperatorCondition,
) (why Absence, undecided bool, err error) {
	if s.Driver.Disabled == nil {
		return Absence{}, false, nil
	}
	undecided = s.Driver.Undecided(cfg)
	installed, err := s.isInstalled(ctx, hasPods)
	switch {
	case err != nil || installed:
		return Absence{}, undecided, err
	case !undecided:
		if message := s.Driver.Disabled(cfg); message != "" {
			why = Absence{Disabled, message}
		}
	case trouble.Reason != "":
		why = Absence{trouble.Reason, trouble.Message}
	default:
		why = s.before(said)
	}
	return why, undecided, nil
}

// isInstalled tells whether the driver is there by the hand of a predecessor, whose workloads have our names, or in parts.
func (s *Source) isInstalled(ctx context.Context, hasPods bool) (bool, error) {
	object := &storagev1.CSIDriver{}
	err := s.Client.Get(ctx, client.ObjectKey{Name: s.Driver.Name}, object)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read CSIDriver %s: %w", s.Driver.Name, err)
	}
	return hasPods || err == nil && openshift.Manages(object, s.Driver.Operator), nil
}

// before is what this operator or its predecessor has reported. It holds after a restart, until the cloud answers or fails.
func (s *Source) before(said []operatorv1.OperatorCondition) Absence {
	for _, one := range said {
		ours := one.Type == s.Driver.ConditionPrefix+Disabled && one.Reason != string(operatorv1.Removed)
		theirs := strings.HasSuffix(one.Type, "Disabled") && slices.Contains(s.Driver.LegacyConditions, one.Type)
		if (ours || theirs) && one.Status == operatorv1.ConditionTrue {
			return Absence{cmp.Or(one.Reason, Disabled), one.Message}
		}
	}
	return Absence{}
}
