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

// Cloud asks a cloud outside of the trip, on a schedule. The trip reads the last answer, and nothing waits for it.
type Cloud interface {
	// Facts are the last answer. They stay as they are while the cloud does not answer.
	Facts() driver.CloudFacts
	// Trouble says why the cloud does not answer; zero if it does.
	Trouble() CloudTrouble
	// Follow says by a hash which credentials there are; empty if there are none. Another hash makes the cloud be asked at once.
	Follow(hash string)
	// Changed has an event whenever Facts or Trouble say something else.
	Changed() <-chan event.GenericEvent
}

// CloudTrouble is why a cloud does not answer.
type CloudTrouble struct {
	// Reason is one word, Message a sentence that stays the same while the trouble lasts, Since when it began.
	Reason, Message string
	Since           time.Time
}

// Condition says whether the cloud answers, and when to look again. Trouble degrades once it has lasted for a while: the driver goes on with what is
// known. A driver that was never installed can't be degraded.
func (t CloudTrouble) Condition(kind string, isAbsent bool, now time.Time) (operatorv1.OperatorCondition, time.Duration) {
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

// CloudResources are what the operator makes in a cloud for a driver. Each trip says what to do with them, and waits for nothing.
type CloudResources interface {
	// Manage makes what the driver needs and keeps it right, or changes nothing.
	Manage(keep bool)
	// Undo removes all of it. It says what is left, and why; empty if nothing is.
	Undo() (left string)
}

// Manage says whether to make and keep what the driver needs in the cloud.
func (s *Source) Manage(keep bool) {
	if s.CloudResources != nil {
		s.CloudResources.Manage(keep)
	}
}

// Undo removes what the operator has made in the cloud, and says what is left of it. While something is left, the caller has to go on with Follow.
func (s *Source) Undo(credentials credential.Found) (left string) {
	if s.CloudResources == nil {
		return ""
	}
	if left = s.CloudResources.Undo(); left == "" {
		return ""
	}
	if secret := s.Driver.Cloud.Secret; credentials.Secrets[secret].Hash == "" {
		left += fmt.Sprintf("; nobody can ask without Secret %s/%s, restore it", s.Namespace, secret)
	}
	return left
}

// Facts are the last answer of the cloud.
func (s *Source) Facts() driver.CloudFacts {
	if s.Cloud == nil {
		return driver.CloudFacts{}
	}
	return s.Cloud.Facts()
}

// CloudInputs is a hash of what the operator can ask the cloud with, for Follow; empty without credentials. All of it is in the cache.
func (s *Source) CloudInputs(ctx context.Context, credentials credential.Found) (string, error) {
	if s.Cloud == nil {
		return "", nil
	}
	hash := credentials.Secrets[s.Driver.Cloud.Secret].Hash
	others := []client.ObjectKey{s.Driver.Cloud.CA, s.Driver.Cloud.Config}
	if s.Driver.Cloud.VCenters {
		// It tells when the CA certificates of the cluster are others.
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

// Follow says with which inputs to ask the cloud from now on. Other inputs make the operator ask at once.
func (s *Source) Follow(inputs string) {
	if s.Cloud != nil {
		s.Cloud.Follow(inputs)
	}
}

// Trouble says why the cloud does not answer.
func (s *Source) Trouble() CloudTrouble {
	if s.Cloud == nil {
		return CloudTrouble{}
	}
	return s.Cloud.Trouble()
}

// ClassesInUse are the StorageClasses of which there are PersistentVolumes, among those that the cloud speaks against. Only where there is one
// of these, the PersistentVolumes are listed.
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
