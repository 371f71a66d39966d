package guide

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
)

// ocStandIn is what oc can do and kubectl can't: it mirrors nothing, but reads the list, and finds the plugin of the product.
const ocStandIn = `case "$*" in
"image mirror -f "*)
  grep -q . "$4"
  if grep -v '^[^=]*=[^=]*$' "$4"; then echo "not source=destination" >&2; exit 1; fi
  exit 0 ;;
"storage "*)
  shift
  exec oc-storage "$@" ;;
esac
`

// awsStandIn knows the calls of the guides, notes them down, and reads the documents that they name.
const awsStandIn = `echo "$*" >> "$(dirname "$0")/aws.log"
for argument in "$@"; do
  case "$argument" in file://*) test -s "${argument#file://}" ;; esac
done
case "$1 $2" in
"sts get-caller-identity") echo 123456789012 ;;
"iam get-role") echo "arn:aws:iam::123456789012:role/$4" ;;
"iam create-role"|"iam put-role-policy"|"iam delete-role-policy"|"iam delete-role") ;;
*) echo "no guide of ours needs: aws $*" >&2; exit 2 ;;
esac
`

func listOf(version schema.GroupVersion, kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(version.WithKind(kind + "List"))
	return list
}

func operators() schema.GroupVersion {
	return schema.GroupVersion{Group: "operators.coreos.com", Version: "v1alpha1"}
}

// lifecycle stands for OLM: it follows Subscriptions to the catalog of this repository, by the rule by which OLM finds upgrades,
// and installs nothing but the ClusterServiceVersion's name.
type lifecycle struct {
	cluster  *env.Cluster
	channels map[string]olm.CatalogChannel
	// history has what was installed, in which namespace.
	history []string
	end     context.CancelFunc
	ended   chan struct{}
}

func startLifecycle(t *testing.T, cluster *env.Cluster, root string) *lifecycle {
	t.Helper()
	env.Must(t, fakeolm.ServeKinds(t.Context(), cluster))
	env.Must(t, cluster.Namespace(t.Context(), "openshift-marketplace"))
	ctx, end := context.WithCancel(t.Context())
	l := &lifecycle{cluster: cluster, channels: map[string]olm.CatalogChannel{}, end: end, ended: make(chan struct{})}
	for _, p := range olm.Packages() {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(olm.Catalog), p.Name, filepath.FromSlash(olm.ChannelFile(olm.Stable))))
		env.Must(t, err)
		var channel olm.CatalogChannel
		env.Must(t, yaml.UnmarshalStrict(text, &channel))
		l.channels[p.Name] = channel
	}
	go func() {
		defer close(l.ended)
		ticks := time.NewTicker(400 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				// What fails is tried again; the command that waits for it says what it has waited for.
				_ = l.sync(ctx)
			}
		}
	}()
	t.Cleanup(func() { _ = l.stop() })
	return l
}

// stop ends it, and returns what it has installed.
func (l *lifecycle) stop() []string {
	l.end()
	<-l.ended
	return l.history
}

func (l *lifecycle) sync(ctx context.Context) error {
	sources, subscriptions := listOf(operators(), "CatalogSource"), listOf(operators(), "Subscription")
	if err := l.cluster.Client.List(ctx, sources); err != nil {
		return err
	}
	served := map[string]bool{}
	for i := range sources.Items {
		source := &sources.Items[i]
		served[source.GetNamespace()+"/"+source.GetName()] = true
		if err := l.patch(ctx, source, map[string]any{"connectionState": map[string]any{"lastObservedState": "READY"}}); err != nil {
			return err
		}
	}
	if err := l.cluster.Client.List(ctx, subscriptions); err != nil {
		return err
	}
	for i := range subscriptions.Items {
		if err := l.follow(ctx, &subscriptions.Items[i], served); err != nil {
			return err
		}
	}
	return nil
}

// follow brings a Subscription one step further.
func (l *lifecycle) follow(ctx context.Context, subscription *unstructured.Unstructured, served map[string]bool) error {
	text := func(fields ...string) string {
		found, _, _ := unstructured.NestedString(subscription.Object, fields...)
		return found
	}
	channel := l.channels[text("spec", "name")]
	installed, namespace := text("status", "installedCSV"), subscription.GetNamespace()
	if text("spec", "source") != "csi-operators" || !served[text("spec", "sourceNamespace")+"/csi-operators"] || channel.Name != text("spec", "channel") {
		return nil
	}
	next := slices.IndexFunc(channel.Entries, func(entry olm.Entry) bool { return installed == "" || upgrades(entry, installed) })
	if next < 0 {
		return nil
	}
	csv, plan := channel.Entries[next].Name, "install-"+subscription.GetName()
	if err := l.create(ctx, "InstallPlan", namespace, plan, map[string]any{"spec": map[string]any{
		"approval": "Automatic", "approved": true, "clusterServiceVersionNames": []any{csv},
	}}); err != nil {
		return err
	}
	if err := l.create(ctx, "ClusterServiceVersion", namespace, csv, map[string]any{"status": map[string]any{"phase": "Succeeded"}}); err != nil {
		return err
	}
	if installed != "" {
		old := &unstructured.Unstructured{}
		old.SetGroupVersionKind(operators().WithKind("ClusterServiceVersion"))
		old.SetNamespace(namespace)
		old.SetName(installed)
		if err := client.IgnoreNotFound(l.cluster.Client.Delete(ctx, old)); err != nil {
			return err
		}
	}
	if err := l.patch(ctx, subscription, map[string]any{
		"state": "AtLatestKnown", "installedCSV": csv, "currentCSV": csv, "installPlanRef": map[string]any{"name": plan},
	}); err != nil {
		return err
	}
	l.history = append(l.history, fmt.Sprintf("%s/%s: %s", namespace, subscription.GetName(), csv))
	return nil
}

// upgrades reports whether an entry is an upgrade of the ClusterServiceVersion of a name.
func upgrades(entry olm.Entry, installed string) bool {
	_, text, _ := strings.Cut(installed, ".v")
	version, err := semver.Parse(text)
	return err == nil && entry.Follows(installed, version)
}

func (l *lifecycle) create(ctx context.Context, kind, namespace, name string, content map[string]any) error {
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(operators().WithKind(kind))
	object.SetNamespace(namespace)
	object.SetName(name)
	if err := l.cluster.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func (l *lifecycle) patch(ctx context.Context, object *unstructured.Unstructured, status map[string]any) error {
	before := object.DeepCopy()
	if object.Object["status"] = status; equality.Semantic.DeepEqual(before.Object, object.Object) {
		return nil
	}
	return l.cluster.Client.Patch(ctx, object, client.MergeFrom(before))
}
