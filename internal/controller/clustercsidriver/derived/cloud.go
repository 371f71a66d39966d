package derived

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// Cloud polls a cloud in the background. A reconcile reads the last answer, and never waits for a poll.
type Cloud interface {
	// Facts returns the last answer of the cloud. If later polls fail, this answer stays.
	Facts() driver.CloudFacts
	// Failure says why the cloud does not answer. It returns the zero value if the cloud answers.
	Failure() CloudFailure
	// SetInputs sets the hash of the inputs. The hash is empty without credentials. A new hash triggers a poll at once.
	SetInputs(hash string)
	// Changed receives an event when Facts or Failure change.
	Changed() <-chan event.GenericEvent
}

// CloudFailure says why a cloud does not answer.
type CloudFailure struct {
	// Reason is one word. Message is a sentence that stays the same during the failure. Since is the time at which the failure began.
	Reason, Message string
	Since           time.Time
}

// Condition returns the condition about the cloud, and when to requeue. A failure counts as Degraded only after FailureWindow, because the driver
// still runs with the last answer. Argument "isAbsent" is true if the operator never installed the driver. Such a driver is never Degraded.
func (t CloudFailure) Condition(kind string, isAbsent bool, now time.Time) (operatorv1.OperatorCondition, time.Duration) {
	remaining := status.FailureWindow - now.Sub(t.Since)
	switch {
	case t.Reason == "":
		return status.Condition(kind, false, "", ""), 0
	case isAbsent:
		return status.Condition(kind, false, Disabled, t.Message), 0
	case remaining > 0:
		return status.Condition(kind, false, "Retrying", t.Message), remaining
	default:
		return status.Condition(kind, true, t.Reason, t.Message), 0
	}
}

// CloudResources manages resources in a cloud for a driver. Its methods don't block.
type CloudResources interface {
	// Manage creates and reconciles the resources if argument "keep" is true. If it is false, Manage changes nothing.
	Manage(keep bool)
	// Undo removes the resources. It says which resources are left, and why. It returns an empty string if no resource is left.
	Undo() (left string)
}

// Manage sets whether the operator creates and reconciles the driver's resources in the cloud.
func (s *Source) Manage(keep bool) {
	if s.CloudResources != nil {
		s.CloudResources.Manage(keep)
	}
}

// Undo removes the driver's resources in the cloud, and says which resources are left. While resources are left, the caller must keep calling
// SetInputs.
func (s *Source) Undo(credentials credential.Found) (left string) {
	if s.CloudResources == nil {
		return ""
	}
	if left = s.CloudResources.Undo(); left == "" {
		return ""
	}
	if secret := s.Driver.Cloud.Secret; credentials.Secrets[secret].Hash == "" {
		left += fmt.Sprintf("; the operator can't query the cloud without Secret %s/%s: restore it", s.Namespace, secret)
	}
	return left
}

// Facts returns the last answer of the cloud.
func (s *Source) Facts() driver.CloudFacts {
	if s.Cloud == nil {
		return driver.CloudFacts{}
	}
	return s.Cloud.Facts()
}

// CloudInputs returns what SetInputs needs: a hash of the credentials and files for cloud requests. It returns an empty string without credentials.
// It reads from the cache.
func (s *Source) CloudInputs(ctx context.Context, credentials credential.Found) (string, error) {
	if s.Cloud == nil {
		return "", nil
	}
	hash := credentials.Secrets[s.Driver.Cloud.Secret].Hash
	others := []client.ObjectKey{s.Driver.Cloud.CA, s.Driver.Cloud.Config}
	if s.Driver.Cloud.VCenters {
		// This bundle is a copy of the cluster's CA certificates. A change of the certificates must trigger a poll.
		others = append(others, client.ObjectKey{Namespace: s.Namespace, Name: s.Driver.TrustedCABundle()})
	}
	for _, other := range others {
		if hash == "" || other.Name == "" {
			continue
		}
		config := &corev1.ConfigMap{}
		if err := s.Client.Get(ctx, other, config); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("read ConfigMap %s: %w", other, err)
		}
		for _, key := range slices.Sorted(maps.Keys(config.Data)) {
			hash = apply.Digest(fmt.Sprintf("%s %s %q %s", hash, other.Name, key, apply.Digest(config.Data[key])))
		}
	}
	return hash, nil
}

// SetInputs sets the inputs for cloud requests. New inputs trigger a poll at once.
func (s *Source) SetInputs(inputs string) {
	if s.Cloud != nil {
		s.Cloud.SetInputs(inputs)
	}
}

// Failure says why the cloud does not answer.
func (s *Source) Failure() CloudFailure {
	if s.Cloud == nil {
		return CloudFailure{}
	}
	return s.Cloud.Failure()
}

// ClassesInUse returns the unfounded StorageClasses that PersistentVolumes still use. A StorageClass is unfounded if the cloud no longer offers what
// the StorageClass needs (Driver.Unfounded). ClassesInUse lists PersistentVolumes only if an unfounded StorageClass exists.
func (s *Source) ClassesInUse(ctx context.Context, cfg driver.Config) (map[string]bool, error) {
	unfounded := s.Driver.Unfounded(cfg)
	if len(unfounded) == 0 {
		return nil, nil
	}
	inUse := map[string]bool{}
	err := volume.EachPage(ctx, s.Live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			if class := list.Items[i].Spec.StorageClassName; slices.Contains(unfounded, class) {
				inUse[class] = true
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the PersistentVolumes of StorageClasses %v: %w", unfounded, err)
	}
	return inUse, nil
}
