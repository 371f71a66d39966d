package clustercsidriver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/driver"
)

// derivedAnnotation on a Secret that the operator makes has hashes of what it was made of and of its content. While both are right,
// nothing of the inputs has to be read.
const derivedAnnotation = "operator.openshift.io/derived-from"

// derived is what is known of the Secret of Driver.Derived.
type derived struct {
	// hash is that of the content that pods are to have; empty if there is none yet.
	hash string
	// secret has that content and is to be applied; nil if it is there already.
	secret *corev1.Secret
	// waits says what is not there yet; problem says what else is wrong with the inputs. The content that is there does not follow them.
	waits, problem string
}

// derive compares the Secret with its inputs, and builds it anew when an input or the Secret has changed.
func (r *Reconciler) derive(ctx context.Context, live live, cfg driver.Config) (derived, error) {
	wanted := r.Driver.Derived
	have, err := apply.Newest[corev1.Secret](ctx, r.applier, client.ObjectKey{Namespace: r.Namespace, Name: wanted.Name})
	if err != nil {
		return derived{}, err
	}
	last := derived{hash: r.lastDerived(live)}
	// It is intact if its content is what the operator has made of the inputs then.
	intact, madeFrom := false, ""
	if have != nil && r.applier.Owns(have) && have.DeletionTimestamp == nil && have.Immutable == nil && have.Type == corev1.SecretTypeOpaque {
		var content string
		madeFrom, content, _ = strings.Cut(have.Annotations[derivedAnnotation], "-")
		if intact = content == apply.ContentHash(have.Data); intact {
			last.hash = content
		}
	}
	if last.waits, last.problem = r.missingKeys(live); last.waits != "" {
		return last, nil
	}
	inputs, missing, err := r.derivedConfigMaps(ctx)
	if last.problem = missing; err != nil || missing != "" {
		return last, err
	}
	from, err := r.inputsHash(&inputs, live, cfg, madeFrom)
	if err != nil || (intact && madeFrom == from) {
		return last, err
	}
	return r.build(ctx, inputs, from, last)
}

// missingKeys says which Secret among the inputs is not there or of no use, and what else is wrong with it.
func (r *Reconciler) missingKeys(live live) (waits, problem string) {
	for _, credentials := range r.Driver.Credentials {
		found := live.secrets[credentials.Secret]
		if credentials.Usable(found.keys) {
			continue
		}
		waits = "Secret " + r.Namespace + "/" + credentials.Secret
		if found.hash != "" {
			problem = fmt.Sprintf("%s has keys [%s], but needs %s", waits, strings.Join(found.keys, " "), credentials.WantedKeys())
		}
		return waits, problem
	}
	return "", ""
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

// derivedConfigMaps reads the ConfigMaps among the inputs. Missing says which one is not there that has to be.
func (r *Reconciler) derivedConfigMaps(ctx context.Context) (inputs driver.DerivedInputs, missing string, err error) {
	inputs = driver.DerivedInputs{ConfigMaps: map[string]map[string]string{}, Secrets: map[string]map[string][]byte{}}
	for _, wanted := range r.Driver.Derived.ConfigMaps {
		config := &corev1.ConfigMap{}
		err := r.Client.Get(ctx, wanted.ObjectKey, config)
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

// lastDerived is the hash of the content that the pods have, empty if they have none.
func (r *Reconciler) lastDerived(live live) string {
	before := live.inputsOf()
	for _, workload := range r.Driver.Derived.Workloads {
		if hash := before[workload][r.Driver.Derived.Name]; hash != "" {
			return hash
		}
	}
	return ""
}

// inputsHash fills in the inputs that are in the Config, and is the hash of all on which the content depends, the program among it.
func (r *Reconciler) inputsHash(inputs *driver.DerivedInputs, live live, cfg driver.Config, madeFrom string) (string, error) {
	from, text := r.Driver.Derived, r.Environment.Version
	for _, wanted := range from.ConfigMaps {
		if data, found := inputs.ConfigMaps[wanted.Name]; found {
			text += fmt.Sprintf(" %q", fmt.Sprint(data))
		} else {
			text += " -"
		}
	}
	for _, credentials := range r.Driver.Credentials {
		text += " " + live.secrets[credentials.Secret].hash
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
func (r *Reconciler) build(ctx context.Context, inputs driver.DerivedInputs, from string, last derived) (derived, error) {
	for _, credentials := range r.Driver.Credentials {
		secret := &corev1.Secret{}
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: credentials.Secret}, secret); err != nil {
			return last, fmt.Errorf("read Secret %s: %w", credentials.Secret, err)
		}
		inputs.Secrets[credentials.Secret] = secret.Data
	}
	if r.Driver.Derived.FromCloud && last.hash != "" {
		previous := &corev1.Secret{}
		key := client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.Derived.Name}
		if err := r.Live.Get(ctx, key, previous); client.IgnoreNotFound(err) != nil {
			return last, fmt.Errorf("read Secret %s: %w", r.Driver.Derived.Name, err)
		}
		inputs.Previous = previous.Data
	}
	content, err := r.Driver.Derived.Build(inputs)
	switch {
	case errors.Is(err, driver.ErrCloudUnknown):
		last.waits = "the first answer of the cloud"
		return last, nil
	case err != nil:
		last.problem = err.Error()
		return last, nil
	}
	made := derived{hash: apply.ContentHash(content), secret: r.Driver.Derived.Secret(r.Namespace)}
	made.secret.Data = content
	made.secret.Labels = r.applier.Labels
	metav1.SetMetaDataAnnotation(&made.secret.ObjectMeta, derivedAnnotation, from+"-"+made.hash)
	return made, nil
}

// addDerived fills in what pods are to read of the Secret of Driver.Derived, and which of them wait for it.
func (r *Reconciler) addDerived(ctx context.Context, found *seen) error {
	if r.Driver.Derived == nil {
		return nil
	}
	var err error
	if found.derived, err = r.derive(ctx, found.live, found.config); err != nil {
		return err
	}
	if problem := found.derived.problem; problem != "" {
		if found.derived.hash != "" {
			problem += "; the driver goes on with its previous configuration"
		}
		found.problems = append(slices.Clone(found.problems), problem)
	}
	for _, workload := range r.Driver.Derived.Workloads {
		switch {
		case found.derived.hash != "":
			found.config.DependencyHashes[workload][r.Driver.Derived.Name] = found.derived.hash
		case found.holds[workload] == "":
			found.holds[workload] = cmp.Or(found.derived.problem, "waiting for "+found.derived.waits)
		}
	}
	return nil
}

// setDerived applies the Secret of Driver.Derived. Where that fails, the workloads that mount it wait: their pods would start with the content
// before, and nobody would restart them.
func (r *Reconciler) setDerived(ctx context.Context, seen seen) (apply.ChangeSet, driver.Holds) {
	if seen.derived.secret == nil {
		return nil, seen.holds
	}
	changes := r.applier.Set(ctx, []client.Object{seen.derived.secret})
	if len(changes.With(apply.Failed, apply.Terminating)) == 0 {
		return changes, seen.holds
	}
	holds := maps.Clone(seen.holds)
	for _, workload := range r.Driver.Derived.Workloads {
		holds[workload] = changes[0].Subject.String() + " can't be applied"
	}
	return changes, holds
}
