package fakeolm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func group() schema.GroupVersion {
	return schema.GroupVersion{Group: "operators.coreos.com", Version: "v1alpha1"}
}

// FollowSubscriptions lets Subscriptions say what is installed, in a cluster with ServeKinds. A catalog is an image with one ClusterServiceVersion: a
// CatalogSource with another image is an upgrade. Field currentCSV says what begins, and installedCSV what has ended. The deletion of a
// ClusterServiceVersion uninstalls it. It ends with ctx, and then closes the channel.
func (o *OLM) FollowSubscriptions(ctx context.Context, catalogs map[string]CSV) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(200 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				// What fails is tried again; whoever waits for it says what it has waited for.
				_ = o.followAll(ctx, catalogs)
			}
		}
	}()
	return ended
}

func (o *OLM) followAll(ctx context.Context, catalogs map[string]CSV) error {
	subscriptions, versions := listOf(group(), "Subscription"), listOf(group(), "ClusterServiceVersion")
	if err := o.cluster.Client.List(ctx, subscriptions); err != nil {
		return err
	}
	for i := range subscriptions.Items {
		if err := o.followOne(ctx, &subscriptions.Items[i], catalogs); err != nil {
			return err
		}
	}
	if err := o.cluster.Client.List(ctx, versions); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(o.installed)) {
		if !slices.ContainsFunc(versions.Items, func(one unstructured.Unstructured) bool { return one.GetName() == name }) {
			if err := o.Uninstall(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// followOne installs what a Subscription asks for.
func (o *OLM) followOne(ctx context.Context, subscription *unstructured.Unstructured, catalogs map[string]CSV) error {
	text := func(fields ...string) string {
		found, _, _ := unstructured.NestedString(subscription.Object, fields...)
		return found
	}
	source := &unstructured.Unstructured{}
	source.SetGroupVersionKind(group().WithKind("CatalogSource"))
	key := client.ObjectKey{Namespace: text("spec", "sourceNamespace"), Name: text("spec", "source")}
	if err := o.cluster.Client.Get(ctx, key, source); err != nil {
		return err
	}
	image, _, _ := unstructured.NestedString(source.Object, "spec", "image")
	csv, is := catalogs[image]
	before := text("status", "installedCSV")
	if !is || before == csv.Name {
		return nil
	}
	environment, err := environmentOf(subscription)
	if err != nil {
		return err
	}
	namespace := subscription.GetNamespace()
	say := func(status string) error {
		return o.cluster.Client.Patch(ctx, subscription, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"status":%s}`, status)))
	}
	if err := say(fmt.Sprintf(`{"state":"UpgradePending","currentCSV":%q}`, csv.Name)); err != nil {
		return err
	}
	switch {
	case o.installed[csv.Name] != nil:
	case before != "":
		err = o.Upgrade(ctx, before, csv)
	default:
		err = o.Install(ctx, csv, namespace, environment...)
	}
	if err != nil {
		return err
	}
	object := func(name string) *unstructured.Unstructured {
		made := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"phase": "Succeeded"}}}
		made.SetGroupVersionKind(group().WithKind("ClusterServiceVersion"))
		made.SetNamespace(namespace)
		made.SetName(name)
		return made
	}
	if err := o.cluster.Client.Create(ctx, object(csv.Name)); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if before != "" {
		if err := client.IgnoreNotFound(o.cluster.Client.Delete(ctx, object(before))); err != nil {
			return err
		}
	}
	return say(fmt.Sprintf(`{"state":"AtLatestKnown","installedCSV":%q}`, csv.Name))
}

func environmentOf(subscription *unstructured.Unstructured) ([]corev1.EnvVar, error) {
	list, _, err := unstructured.NestedSlice(subscription.Object, "spec", "config", "env")
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	var environment []corev1.EnvVar
	return environment, json.Unmarshal(text, &environment)
}
