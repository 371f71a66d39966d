package artifact

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release"
)

// KrewFile is the name of the manifest. krew requires the plugin's name.
const KrewFile = krewName + ".yaml"

const krewName = "storage"

// krewPlugin has the fields that krew reads (kubernetes-sigs/krew, pkg/index/types.go, apiVersion v1alpha2).
type krewPlugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Caveats          string         `json:"caveats"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector metav1.LabelSelector `json:"selector"`
	URI      string               `json:"uri"`
	SHA256   string               `json:"sha256"`
	Bin      string               `json:"bin"`
	Files    []krewFile           `json:"files"`
}

type krewFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Krew returns the manifest with which krew installs the archives of a release. Parameter archives must have an archive for each platform, by its
// name.
func Krew(r release.Release, archives map[string][]byte) ([]byte, error) {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": krewName},
		Spec: krewSpec{
			Version: r.Tag(), Homepage: release.Source, ShortDescription: "Show, check and set up CSI drivers",
			Description: "Shows every CSI driver of an OpenShift cluster with its operator, version and roll-out.\n" +
				"Finds out why a volume does not mount, and says what to do.\n" +
				"Installs, migrates and removes the AWS EFS driver.\n",
			Caveats: "The plugin reads with your own rights. It says which right is missing.\n",
		},
	}
	for _, p := range release.Platforms() {
		name := r.PluginArchive(p)
		archive, there := archives[name]
		if !there {
			return nil, fmt.Errorf("manifest for krew: there is no archive %s: build the plugin for %s", name, p)
		}
		program := Names(p)[1]
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"os": p.OS, "arch": p.Architecture}},
			URI:      r.Download(name), SHA256: checksum(archive), Bin: program,
			Files: []krewFile{{From: program, To: "."}, {From: "LICENSE", To: "."}},
		})
	}
	text, err := yaml.Marshal(plugin)
	if err != nil {
		return nil, fmt.Errorf("manifest for krew: %w", err)
	}
	return text, nil
}
