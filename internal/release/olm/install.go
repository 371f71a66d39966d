package olm

import (
	"fmt"
	"io/fs"

	"github.com/csi-operators/csi-operators/internal/release"
)

// CatalogDir is the folder in the catalog's image that has the catalog.
const CatalogDir = "/configs"

// oldFolder has the objects for clusters with an older OLM. This OLM serves a catalog with a program from the catalog's image.
const oldFolder = "before-4.21"

// catalogSourceSpace is the namespace of CatalogSources that all namespaces can use.
const catalogSourceSpace = "openshift-marketplace"

// Installation returns the objects that an administrator applies to install the operator without the console. These are the CatalogSource, the
// namespace, the OperatorGroup for all namespaces and the Subscription.
func Installation(repository fs.FS, r release.Release, p Package) (Files, error) {
	catalog, err := r.Find(p.Catalog)
	if err != nil {
		return nil, fmt.Errorf("installation: %w", err)
	}
	var space map[string]any
	if err := (source{repository: repository, release: r, pkg: p}).read(namespaceFile, &space); err != nil {
		return nil, err
	}
	object := func(kind, version, name, namespace string, spec map[string]any) map[string]any {
		return map[string]any{
			"apiVersion": "operators.coreos.com/" + version, "kind": kind,
			"metadata": map[string]any{"name": name, "namespace": namespace}, "spec": spec,
		}
	}
	catalogSource := func(image release.Image, pod map[string]any) map[string]any {
		pod["securityContextConfig"] = "restricted"
		return object("CatalogSource", "v1alpha1", p.Source, catalogSourceSpace, map[string]any{
			"sourceType": "grpc", "image": image.PullSpec(), "displayName": p.Source, "publisher": p.Source, "grpcPodConfig": pod,
		})
	}
	files := Files{}
	if p.Served != "" {
		served, err := r.Find(p.Served)
		if err != nil {
			return nil, fmt.Errorf("installation: %w", err)
		}
		if err := files.add(oldFolder+"/1-catalogsource.yaml", catalogSource(served, map[string]any{})); err != nil {
			return nil, err
		}
	}
	for name, object := range map[string]any{
		// The image has only the catalog, without a program that serves it. So OLM extracts the catalog, and OLM's own server serves it.
		"1-catalogsource.yaml": catalogSource(catalog, map[string]any{"extractContent": map[string]any{"catalogDir": CatalogDir}}),
		"2-namespace.yaml":     space,
		// An OperatorGroup without targetNamespaces selects all namespaces.
		"3-operatorgroup.yaml": object("OperatorGroup", "v1", p.Name, p.Namespace, map[string]any{}),
		"4-subscription.yaml": object("Subscription", "v1alpha1", p.Name, p.Namespace, map[string]any{
			// The Subscription does not set installPlanApproval, so the default Automatic applies. If an administrator sets Manual, a later apply keeps
			// Manual.
			"channel": channels(r.Version)[0], "name": p.Name, "source": p.Source, "sourceNamespace": catalogSourceSpace,
		}),
	} {
		if err := files.add(name, object); err != nil {
			return nil, err
		}
	}
	return files, nil
}
