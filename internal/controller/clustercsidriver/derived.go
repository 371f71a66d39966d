package clustercsidriver

import (
	"cmp"
	"context"
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
	// waits says which Secret is not there yet; problem says what else is wrong with the inputs. The content that is there does not follow them.
	waits, problem string
}

// derive compares the Secret with its inputs, and builds it anew when an input or the Secret has changed.
func (r *Reconciler) derive(ctx context.Context, live live) (derived, error) {
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
	for _, credentials := range r.Driver.Credentials {
		found := live.secrets[credentials.Secret]
		if credentials.Usable(found.keys) {
			continue
		}
		last.waits = "Secret " + r.Namespace + "/" + credentials.Secret
		if found.hash != "" {
			last.problem = fmt.Sprintf("%s has keys [%s], but needs %s", last.waits, strings.Join(found.keys, " "), credentials.WantedKeys())
		}
		return last, nil
	}
	config := &corev1.ConfigMap{}
	if err := r.Client.Get(ctx, wanted.ConfigMap, config); apierrors.IsNotFound(err) {
		last.problem = fmt.Sprintf("ConfigMap %s is missing, with what the driver has to know of the cloud: restore it", wanted.ConfigMap)
		return last, nil
	} else if err != nil {
		return last, fmt.Errorf("read ConfigMap %s: %w", wanted.ConfigMap, err)
	}
	from := r.inputsHash(config, live)
	if intact && madeFrom == from {
		return last, nil
	}
	return r.build(ctx, config, from, last)
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

// inputsHash is that of all on which the content depends, the program among it.
func (r *Reconciler) inputsHash(config *corev1.ConfigMap, live live) string {
	text := fmt.Sprintf("%s %q", r.Environment.Version, fmt.Sprint(config.Data))
	for _, credentials := range r.Driver.Credentials {
		text += " " + live.secrets[credentials.Secret].hash
	}
	return apply.Digest(text)
}

// build reads the Secrets and makes the content, which nobody keeps. What can't be made leaves the last content as it is.
func (r *Reconciler) build(ctx context.Context, config *corev1.ConfigMap, from string, last derived) (derived, error) {
	inputs := driver.DerivedInputs{Config: config.Data, Secrets: map[string]map[string][]byte{}}
	for _, credentials := range r.Driver.Credentials {
		secret := &corev1.Secret{}
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: credentials.Secret}, secret); err != nil {
			return last, fmt.Errorf("read Secret %s: %w", credentials.Secret, err)
		}
		inputs.Secrets[credentials.Secret] = secret.Data
	}
	content, err := r.Driver.Derived.Build(inputs)
	if err != nil {
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
	if found.derived, err = r.derive(ctx, found.live); err != nil {
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
