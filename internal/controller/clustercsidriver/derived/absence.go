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

// Disabled is the suffix of the type of the condition about an Absence. Disabled is also the reason of that condition if the cloud has answered.
const Disabled = "DriverDisabled"

// Absence says why a driver is not installed although nothing failed. It is the zero value if no such reason exists.
type Absence struct{ Reason, Message string }

// Absence says why the operator never installed a driver: because the driver's cloud lacks the service, or because the cloud does not answer.
// Argument "cfg" is nil if the operator can't read the configuration. In that case, the last report stays valid. Argument "hasPods" says whether the
// driver has pods. Argument "reported" has the conditions that the operator reported last. Result "undecided" is true if the operator must apply
// nothing before the cloud has answered.
func (s *Source) Absence(
	ctx context.Context, cfg *driver.Config, failure CloudFailure, hasPods bool, reported []operatorv1.OperatorCondition,
) (why Absence, undecided bool, err error) {
	if s.Driver.Disabled == nil {
		return Absence{}, false, nil
	}
	undecided = cfg != nil && s.Driver.Undecided(*cfg)
	installed, err := s.isInstalled(ctx, hasPods)
	switch {
	case err != nil || installed:
		return Absence{}, undecided, err
	case cfg != nil && !undecided:
		if message := s.Driver.Disabled(*cfg); message != "" {
			why = Absence{Disabled, message}
		}
	case cfg != nil && failure.Reason != "":
		why = Absence{failure.Reason, failure.Message}
	default:
		why = s.reported(reported)
	}
	return why, undecided, nil
}

// isInstalled reports whether this operator or a predecessor has installed the driver, even partly.
func (s *Source) isInstalled(ctx context.Context, hasPods bool) (bool, error) {
	object := &storagev1.CSIDriver{}
	err := s.Client.Get(ctx, client.ObjectKey{Name: s.Driver.Name}, object)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read CSIDriver %s: %w", s.Driver.Name, err)
	}
	return hasPods || err == nil && openshift.Manages(object, s.Driver.Operator), nil
}

// reported returns the Absence that this operator or its predecessor reported last.
func (s *Source) reported(reported []operatorv1.OperatorCondition) Absence {
	for _, one := range reported {
		ours := one.Type == s.Driver.ConditionPrefix+Disabled && one.Reason != string(operatorv1.Removed)
		theirs := strings.HasSuffix(one.Type, "Disabled") && slices.Contains(s.Driver.LegacyConditions, one.Type)
		if (ours || theirs) && one.Status == operatorv1.ConditionTrue {
			return Absence{cmp.Or(one.Reason, Disabled), one.Message}
		}
	}
	return Absence{}
}
