package olm

import (
	"fmt"
	"strings"

	"github.com/csi-operators/csi-operators/internal/release"
)

// mirrorRegistry stands for the registry of a disconnected cluster, in the lists for mirrors. Users of the lists replace it with their own registry.
const mirrorRegistry = "mirror.example.com:5000"

// Mirror returns the lists from which a disconnected cluster gets every image. One list is a configuration for oc-mirror. The other is for "oc
// image mirror", and comes with an ImageTagMirrorSet and an ImageDigestMirrorSet.
func Mirror(r release.Release, packages []Package) (Files, error) {
	catalog, err := r.Find(packages[0].Catalog)
	if err != nil {
		return nil, fmt.Errorf("lists for mirrors: %w", err)
	}
	images := append([]release.Image{}, r.Images...)
	for _, p := range packages {
		bundle, err := r.Find(p.ImageName())
		if err != nil {
			return nil, fmt.Errorf("lists for mirrors: %w", err)
		}
		images = append(images, bundle)
	}
	images = append(images, catalog)
	for _, name := range packages[0].besides() {
		image, err := r.Find(name)
		if err != nil {
			return nil, fmt.Errorf("lists for mirrors: %w", err)
		}
		images = append(images, image)
	}

	var lines []string
	var mirrors []any
	for _, image := range images {
		repository := image.Image[:strings.LastIndex(image.Image, ":")]
		_, name, _ := strings.Cut(image.Image, "/")
		lines = append(lines, fmt.Sprintf("%s=%s/%s", image.PullSpec(), mirrorRegistry, name))
		_, name, _ = strings.Cut(repository, "/")
		mirrors = append(mirrors, map[string]any{"source": repository, "mirrors": []string{mirrorRegistry + "/" + name}})
	}
	files := Files{"mirror.txt": []byte(strings.Join(lines, "\n") + "\n")}
	for name, object := range map[string]any{
		"imageset-config.yaml": map[string]any{
			"apiVersion": "mirror.openshift.io/v2alpha1", "kind": "ImageSetConfiguration",
			// Mirror the full catalog. If the list chose some packages, oc-mirror would build a catalog with the opm of our catalog's image, which has no opm.
			"mirror": map[string]any{"operators": []any{map[string]any{"catalog": catalog.PullSpec(), "full": true}}},
		},
		"image-tag-mirror-set.yaml":    mirrorSet(packages[0].Source, "ImageTagMirrorSet", "imageTagMirrors", mirrors),
		"image-digest-mirror-set.yaml": mirrorSet(packages[0].Source, "ImageDigestMirrorSet", "imageDigestMirrors", mirrors),
	} {
		if err := files.add(name, object); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func mirrorSet(name, kind, field string, mirrors []any) map[string]any {
	return map[string]any{
		"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{field: mirrors},
	}
}
