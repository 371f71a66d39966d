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

// derivedAnnotation is the annotation with the origin of the Secret of Driver.Derived. While the origin is unchanged, the operator need not read the
// Secrets from which it builds that Secret.
const derivedAnnotation = "operator.openshift.io/derived-from"

// origin identifies the inputs and the content of the Secret of Driver.Derived by their hashes.
type origin struct {
	// inputs is a hash of the input objects and of the operator's version. cloud is a hash of the cloud's answer. It is empty if the operator does not
	// know the answer.
	inputs, cloud string
	content       string
}

// parseOrigin is the inverse of String. For an invalid text, the hashes of the returned origin match no inputs and no content.
func parseOrigin(text string) origin {
	from, content, _ := strings.Cut(text, "-")
	inputs, cloud, _ := strings.Cut(from, ".")
	return origin{inputs: inputs, cloud: cloud, content: content}
}

// String returns "inputs.cloud-content". Without an answer of the cloud, it returns "inputs-content".
func (o origin) String() string {
	if o.cloud == "" {
		return o.inputs + "-" + o.content
	}
	return o.inputs + "." + o.cloud + "-" + o.content
}

// with returns the origin for these inputs and this answer of the cloud. Without an answer, the hash of the last answer stays until the inputs
// change.
func (o origin) with(inputs string, facts driver.CloudFacts) origin {
	switch {
	case facts.Known:
		// These facts do not affect the content.
		facts.Repeated, facts.Refused, facts.StoragePolicy, facts.ManyVolumes = false, "", "", false
		o.cloud = apply.Digest(fmt.Sprintf("%q", fmt.Sprint(facts)))
	case o.inputs != inputs:
		o.cloud = ""
	}
	o.inputs = inputs
	return o
}

// Secret is the state of the Secret of Driver.Derived.
type Secret struct {
	// Hash is the hash of the content that pods use. It is empty if no content exists yet.
	Hash string
	// Object is the Secret to apply. It is nil if the Secret in the cluster is up to date.
	Object *corev1.Secret
	// Waits says which input is missing. Problem says what is wrong with the inputs. In both cases, the existing content stays. If the inputs are
	// complete and valid, Waits and Problem are empty.
	Waits, Problem string
}

// Secret compares the Secret of Driver.Derived with its inputs. It rebuilds the Secret if the inputs or the Secret have changed. Argument "before" is
// the hash of the content that the pods have. It is empty if the pods have no content.
func (s *Source) Secret(ctx context.Context, credentials credential.Found, cfg driver.Config, before string) (Secret, error) {
	wanted := s.Driver.Derived
	have, err := apply.Newest[corev1.Secret](ctx, s.applier, client.ObjectKey{Namespace: s.Namespace, Name: wanted.Name})
	if err != nil {
		return Secret{}, err
	}
	last, made, intact := Secret{Hash: before}, origin{}, false
	if have != nil && s.applier.Owns(have) && have.DeletionTimestamp == nil && have.Immutable == nil && have.Type == corev1.SecretTypeOpaque {
		made = parseOrigin(have.Annotations[derivedAnnotation])
		// A different hash means that another client has changed the content.
		if intact = made.content == apply.ContentHash(have.Data); intact {
			last.Hash = made.content
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
	hash, err := s.addFromConfig(&inputs, credentials, cfg)
	from := made.with(hash, inputs.Cloud)
	if err != nil || (intact && from == made) {
		return last, err
	}
	return s.build(ctx, inputs, from, last)
}

// confirmed returns the facts that the operator may use to change the content. If the content depends on zones, confirmed withholds the cloud's
// answer until a second answer has the same zones. If the Secret is missing or damaged, confirmed withholds nothing.
func (s *Source) confirmed(facts driver.CloudFacts, intact bool) driver.CloudFacts {
	if intact && s.Driver.Derived.FromCloud && s.Driver.Cloud.Zones && !facts.Repeated {
		return driver.CloudFacts{}
	}
	return facts
}

// configMaps reads the ConfigMaps among the inputs. Result "missing" is a message about a required ConfigMap that does not exist. It is empty if all
// required ConfigMaps exist.
func (s *Source) configMaps(ctx context.Context) (inputs driver.DerivedInputs, missing string, err error) {
	inputs = driver.DerivedInputs{ConfigMaps: map[string]map[string]string{}, Secrets: map[string]map[string][]byte{}}
	for _, wanted := range s.Driver.Derived.ConfigMaps {
		config := &corev1.ConfigMap{}
		err := s.Client.Get(ctx, wanted.ObjectKey, config)
		switch {
		case apierrors.IsNotFound(err) && wanted.Optional:
		case apierrors.IsNotFound(err):
			return inputs, fmt.Sprintf("ConfigMap %s, which configures the driver for the cloud, is missing: restore it", wanted.ObjectKey), nil
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

// addFromConfig adds the inputs from the Config. It returns a hash of all inputs and of the operator's version, but not of the cloud's answer.
func (s *Source) addFromConfig(inputs *driver.DerivedInputs, keys credential.Found, cfg driver.Config) (string, error) {
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
			return "", fmt.Errorf("encode the inputs of Secret %s: %w", from.Name, err)
		}
		text += " " + string(cluster)
	}
	if from.FromCloud {
		inputs.Cloud = cfg.Cloud
	}
	return apply.Digest(text), nil
}

// build reads the Secrets and builds the content. If build fails, the last content stays.
func (s *Source) build(ctx context.Context, inputs driver.DerivedInputs, from origin, last Secret) (Secret, error) {
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
		last.Waits = "the first answer from the cloud"
		return last, nil
	case err != nil:
		last.Problem = err.Error()
		return last, nil
	}
	made := Secret{Hash: apply.ContentHash(content), Object: s.Driver.Derived.Secret(s.Namespace)}
	made.Object.Data = content
	made.Object.Labels = s.applier.Labels
	from.content = made.Hash
	metav1.SetMetaDataAnnotation(&made.Object.ObjectMeta, derivedAnnotation, from.String())
	return made, nil
}
