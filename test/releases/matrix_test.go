package releases

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
)

// applied is all that anybody applies to a cluster, by where it comes from: every golden variant, the manifests of the release, the
// bundles with their examples, the lists for mirrors.
func applied(ctx context.Context) (map[string][]*unstructured.Unstructured, error) {
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	all, err := env.Rendered(ctx)
	if err != nil {
		return nil, err
	}
	for _, pattern := range []string{"manifests/*.yaml", "bundle/disconnected/image-*.yaml", "config/crd/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("no files %s (%w)", pattern, err)
		}
		for _, file := range files {
			objects, err := env.ReadObjects(file)
			if err != nil {
				return nil, err
			}
			// What a manifest says to remove is applied by nobody.
			all[strings.TrimPrefix(file, root+"/")] = slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool {
				return object.GetAnnotations()["release.openshift.io/delete"] == "true"
			})
		}
	}
	for _, p := range olm.Packages() {
		if err := bundled(root, p, all); err != nil {
			return nil, fmt.Errorf("bundle of %s: %w", p.Name, err)
		}
	}
	names := []string{env.EFS("").Name}
	for _, entry := range catalogue.All() {
		names = append(names, entry.Name)
	}
	for _, name := range names {
		object, err := clusterCSIDriver(name)
		if err != nil {
			return nil, err
		}
		all["ClusterCSIDriver "+name] = []*unstructured.Unstructured{object}
	}
	return all, nil
}

// bundled adds what OLM makes of a bundle, and the examples that its console offers.
func bundled(root string, p olm.Package, all map[string][]*unstructured.Unstructured) error {
	files, err := olm.ReadFiles(os.DirFS(root), olm.Bundles+"/"+p.Name)
	if err != nil {
		return err
	}
	csv, err := fakeolm.ReadBundle(files)
	if err != nil {
		return err
	}
	var examples []*unstructured.Unstructured
	if err := json.Unmarshal([]byte(csv.Annotations["alm-examples"]), &examples); err != nil {
		return err
	}
	all["examples of "+p.Name] = examples
	all["bundle of "+p.Name], err = csv.Objects(p.Namespace, nil)
	return err
}

// gate is a field that is rendered only for clusters with a feature gate.
type gate struct {
	field string
	// since is the first minor version of Kubernetes whose schema has the field.
	since int
}

// gated are the variants with such a field. The gates of each are off where this package dry-runs it; test/drivers does it where they are on.
func gated() map[string]gate {
	return map[string]gate{"awsebs/allocatable-can-change": {field: "nodeAllocatableUpdatePeriodSeconds", since: 33}}
}

// each visits each object once, however many variants have it.
func each(all map[string][]*unstructured.Unstructured, visit func(from string, object *unstructured.Unstructured)) {
	seen := map[string]bool{}
	for _, from := range slices.Sorted(maps.Keys(all)) {
		for _, object := range all[from] {
			text, _ := json.Marshal(object)
			if !seen[string(text)] {
				seen[string(text)] = true
				visit(from, object)
			}
		}
	}
}

// ofCRD reports whether a kind is defined by a CRD of a release.
func ofCRD(object *unstructured.Unstructured) bool {
	group := object.GroupVersionKind().Group
	return slices.ContainsFunc(append(needed(), monitored()...), func(name string) bool {
		return strings.HasSuffix(name, "."+group)
	})
}

// An operator that any supported cluster refuses ends Degraded for ever, and one whose field a cluster drops writes it for ever.
func TestEverySupportedClusterTakesWhatIsApplied(t *testing.T) {
	s := suite.cluster
	all := maps.Clone(suite.applied)
	env.Must(t, s.InstallManifests(t.Context()))
	env.Must(t, s.ApplyFile(t.Context(), "../drivers/testdata/volumesnapshotclasses.yaml"))
	env.Must(t, s.Served(t.Context(), env.SharedVolumesCRD, "volumesnapshotclasses.snapshot.storage.k8s.io"))

	t.Run("Kubernetes "+oldest, func(t *testing.T) { s.takesBuiltins(t, all) })
	all["written by operators"] = s.installOn(t, releases()[0])
	for _, r := range releases() {
		for _, set := range featureSets() {
			t.Run(r.version+"/"+set, func(t *testing.T) { s.takesDefined(t, r, set, all) })
		}
	}
}

// takesBuiltins holds what needs no CRD of OpenShift against a Kubernetes whose newer feature gates are off.
func (s *scene) takesBuiltins(t *testing.T, all map[string][]*unstructured.Unstructured) {
	t.Helper()
	each(all, func(_ string, object *unstructured.Unstructured) {
		if object.GetKind() == "Namespace" {
			env.Must(t, s.Namespace(t.Context(), object.GetName()))
		}
		if object.GetNamespace() != "" {
			// Not every platform has all of them.
			env.Must(t, s.Namespace(t.Context(), object.GetNamespace()))
		}
	})
	count, seen := 0, map[string]bool{}
	each(all, func(from string, object *unstructured.Unstructured) {
		if ofCRD(object) {
			return
		}
		count++
		if object.GetKind() == "SharedVolume" {
			object = object.DeepCopy()
			object.SetNamespace("default")
		}
		field := gated()[from].field
		err := s.Accept(t.Context(), object)
		if field != "" && err != nil && strings.Contains(err.Error(), field) {
			seen[from] = true
		} else if err != nil {
			t.Errorf("%s: %v", from, err)
		}
	})
	for from := range gated() {
		if !seen[from] {
			t.Errorf("%s: Kubernetes %s takes what is rendered for a feature gate that it has not", from, oldest)
		}
	}
	if count < 300 {
		t.Errorf("only %d objects were tried", count)
	}
}

// installOn gives the cluster the CRDs of a release, lets the operators install the drivers there, and returns what they have written.
func (s *scene) installOn(t *testing.T, r release) []*unstructured.Unstructured {
	t.Helper()
	wanted, err := definitionsOf(r, "Default")
	env.Must(t, err)
	s.define(t, wanted)
	env.Must(t, s.ApplyRelease(t.Context(), env.Release{Version: env.ClusterRelease}))
	env.Eventually(t, "storage is well on the CRDs of "+r.version, func() error { return s.Reached(t.Context(), env.ClusterRelease) })
	written := s.live(t, operatorv1.GroupVersion.WithKind("ClusterCSIDriver"))
	written = append(written, s.live(t, operatorv1.GroupVersion.WithKind("Storage"))...)
	operator := newObject(configv1.GroupVersion.WithKind("ClusterOperator"), "", "storage")
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(operator), operator))
	written = append(written, operator)
	for _, object := range written {
		if conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions"); err != nil || len(conditions) == 0 {
			t.Errorf("%s %s has no condition: this shows nothing (%v)", object.GetKind(), object.GetName(), err)
		}
	}
	return written
}

// takesDefined holds all objects of OpenShift's kinds against the CRDs of a release, those aside that an earlier release has in the same way.
func (s *scene) takesDefined(t *testing.T, r release, set string, all map[string][]*unstructured.Unstructured) {
	t.Helper()
	wanted, err := definitionsOf(r, set)
	env.Must(t, err)
	// What was tried before, with the schema of this release, is not tried again.
	same := map[schema.GroupKind]bool{}
	wanted = slices.DeleteFunc(wanted, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		isSame := !s.isNew(t, crd)
		same[schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}] = isSame
		return isSame
	})
	s.define(t, wanted)
	kinds := map[string]int{}
	each(all, func(from string, object *unstructured.Unstructured) {
		if !ofCRD(object) {
			return
		}
		kinds[object.GetKind()]++
		if same[object.GroupVersionKind().GroupKind()] {
			return
		}
		if err := s.Accept(t.Context(), object); err != nil {
			t.Errorf("%s: %v", from, err)
		}
	})
	t.Logf("%d of %d CRDs are new", len(wanted), len(needed())+len(monitored()))
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule", "ClusterCSIDriver", "Storage", "ClusterOperator", "ImageDigestMirrorSet"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s was tried", kind)
		}
	}
}

// isNew reports whether no release before had this CRD with the same schema, whatever the descriptions say.
func (s *scene) isNew(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) bool {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&crd.Spec)
	env.Must(t, err)
	undescribe(fields)
	text, err := json.Marshal(fields)
	env.Must(t, err)
	key := crd.Name + " " + string(text)
	known := s.tried[key]
	s.tried[key] = true
	return !known
}

// undescribe takes the descriptions away. A field of that name is a map.
func undescribe(value any) {
	switch value := value.(type) {
	case map[string]any:
		if _, isText := value["description"].(string); isText {
			delete(value, "description")
		}
		for _, inner := range value {
			undescribe(inner)
		}
	case []any:
		for _, inner := range value {
			undescribe(inner)
		}
	}
}
