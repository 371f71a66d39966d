package derived

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// derivedAnnotation on a Secret that the operator makes has hashes of what it was made of and of its content. While both are right,
// nothing of the inputs has to be read.
const derivedAnnotation = "operator.openshift.io/derived-from"

// Secret is what is known of the Secret of Driver.Derived.
type Secret struct {
	// Hash is that of the content that pods are to have; empty if there is none yet.
	Hash string
	// Object has that content and is to be applied; nil if it is there already.
	Object *corev1.Secret
	// Waits says what is not there yet; Problem says what else is wrong with the inputs. The content that is there does not follow them.
	Waits, Problem string
}

// Secret compares the Secret with its inputs, and builds it anew when an input or the Secret has changed. Before is the hash of the content that
// pods have, empty if they have none.
func (s *Source) Secret(ctx context.Context, credentials credential.Found, cfg driver.Config, before string) (Secret, error) {
	wanted := s.Driver.Derived
	have, err := apply.Newest[corev1.Secret](ctx, s.applier, client.ObjectKey{Namespace: s.Namespace, Name: wanted.Name})
	if err != nil {
		return Secret{}, err
	}
	last := Secret{Hash: before}
	// It is intact if its content is what the operator has made of the inputs then.
	intact, madeFrom := false, ""
	if have != nil && s.applier.Owns(have) && have.DeletionTimestamp == nil && have.Immutable == nil && have.Type == corev1.SecretTypeOpaque {
		var content string
		madeFrom, content, _ = strings.Cut(have.Annotations[derivedAnnotation], "-")
		if intact = content == apply.ContentHash(have.Data); intact {
			last.Hash = content
		}
	}
	if last.Waits, last.Problem = credentials.Missing(s.Driver, s.Namespace); last.Waits != "" {
		return last, nil
	}
	inputs, missing, err := s.configMaps(ctx)
	if last.Problem = missing; err != nil || missing != "" {
		return last, err
	}
	cfg.Cloud = s.confirmed(cfg.Cloud, intact)
	from, err := s.inputsHash(&inputs, credentials, cfg, madeFrom)
	if err != nil || (intact && madeFrom == from) {
		return last, err
	}
	return s.build(ctx, inputs, from, last)
}

// confirmed are the facts that may change what pods have: zones of one answer may not.
func (s *Source) confirmed(facts driver.CloudFacts, intact bool) driver.CloudFacts {
	if intact && s.Driver.Derived.FromCloud && s.Driver.Cloud.Zones && !facts.Repeated {
		return driver.CloudFacts{}
	}
	return facts
}

// withFacts adds what the cloud has answered to the hash of the other inputs. What is not known changes nothing: while these are the same, it is
// what the content was made of.
func withFacts(from, madeFrom string, facts driver.CloudFacts) string {
	before, _, _ := strings.Cut(madeFrom, ".")
	switch {
	case facts.Known:
		// These decide about other things than the content.
		facts.Repeated, facts.Refused, facts.StoragePolicy, facts.ManyVolumes = false, "", "", false
		return from + "." + apply.Digest(fmt.Sprintf("%q", fmt.Sprint(facts)))
	case before == from:
		return madeFrom
	default:
		return from
	}
}

// configMaps reads the ConfigMaps among the inputs. Missing says which one is not there that has to be.
func (s *Source) configMaps(ctx context.Context) (inputs driver.DerivedInputs, missing string, err error) {
	inputs = driver.DerivedInputs{ConfigMaps: map[string]map[string]string{}, Secrets: map[string]map[string][]byte{}}
	for _, wanted := range s.Driver.Derived.ConfigMaps {
		config := &corev1.ConfigMap{}
		err := s.Client.Get(ctx, wanted.ObjectKey, config)
		switch {
		case apierrors.IsNotFound(err) && wanted.Optional:
		case apierrors.IsNotFound(err):
			return inputs, fmt.Sprintf("ConfigMap %s is missing, with what the driver has to know of the cloud: restore it", wanted.ObjectKey), nil
		case err != nil:
			return inputs, "", fmt.Errorf("read ConfigMap %s: %w", wanted.ObjectKey, err)
		default:
			inputs.ConfigMaps[wanted.Name] = config.Data
			if config.Data == nil {
				inputs.ConfigMaps[wanted.Name] = map[string]string{}
			}
		}
	}
	return inputs, "", nil
}

// inputsHash fills in the inputs that are in the Config, and is the hash of all on which the content depends, the program among it.
func (s *Source) inputsHash(inputs *driver.DerivedInputs, keys credential.Found, cfg driver.Config, madeFrom string) (string, error) {
	from, text := s.Driver.Derived, s.Version
	for _, wanted := range from.ConfigMaps {
		if data, found := inputs.ConfigMaps[wanted.Name]; found {
			text += fmt.Sprintf(" %q", fmt.Sprint(data))
		} else {
			text += " -"
		}
	}
	for _, credentials := range s.Driver.Credentials {
		text += " " + keys.Secrets[credentials.Secret].Hash
	}
	if from.FromCluster {
		inputs.Cluster = cfg.DerivedCluster()
		cluster, err := json.Marshal(inputs.Cluster)
		if err != nil {
			return "", fmt.Errorf("encode what Secret %s is made of: %w", from.Name, err)
		}
		text += " " + string(cluster)
	}
	if !from.FromCloud {
		return apply.Digest(text), nil
	}
	inputs.Cloud = cfg.Cloud
	return withFacts(apply.Digest(text), madeFrom, cfg.Cloud), nil
}

// build reads the Secrets and makes the content, which nobody keeps. What can't be made leaves the last content as it is.
func (s *Source) build(ctx context.Context, inputs driver.DerivedInputs, from string, last Secret) (Secret, error) {
	for _, credentials := range s.Driver.Credentials {
		secret := &corev1.Secret{}
		if err := s.Live.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: credentials.Secret}, secret); err != nil {
			return last, fmt.Errorf("read Secret %s: %w", credentials.Secret, err)
		}
		inputs.Secrets[credentials.Secret] = secret.Data
	}
	if s.Driver.Derived.FromCloud && last.Hash != "" {
		previous := &corev1.Secret{}
		key := client.ObjectKey{Namespace: s.Namespace, Name: s.Driver.Derived.Name}
		if err := s.Live.Get(ctx, key, previous); client.IgnoreNotFound(err) != nil {
			return last, fmt.Errorf("read Secret %s: %w", s.Driver.Derived.Name, err)
		}
		inputs.Previous = previous.Data
	}
	content, err := s.Driver.Derived.Build(inputs)
	switch {
	case errors.Is(err, driver.ErrCloudUnknown):
		last.Waits = "the first answer of the cloud"
		return last, nil
	case err != nil:
		last.Problem = err.Error()
		return last, nil
	}
	made := Secret{Hash: apply.ContentHash(content), Object: s.Driver.Derived.Secret(s.Namespace)}
	made.Object.Data = content
	made.Object.Labels = s.applier.Labels
	metav1.SetMetaDataAnnotation(&made.Object.ObjectMeta, derivedAnnotation, from+"-"+made.Hash)
	return made, nil
}
