package release

import "fmt"

// Source is the URL of the product.
const Source = "https://github.com/csi-operators/csi-operators"

// Plugin is the name of the program that users download, of its command and of its image.
const Plugin = "oc-storage"

// MustGather is the name of the image that "oc adm must-gather" runs.
const MustGather = "csi-operators-must-gather"

// PluginVersion is the variable in program Plugin that the linker sets to the tag of the release.
const PluginVersion = "main.release"

// Platform is an operating system and an architecture, with the names that Go uses.
type Platform struct{ OS, Architecture string }

// String returns the platform as Go writes it.
func (p Platform) String() string { return p.OS + "/" + p.Architecture }

// Platforms returns the platforms for which a release has the plugin.
func Platforms() []Platform {
	var all []Platform
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, architecture := range []string{"amd64", "arm64"} {
			all = append(all, Platform{system, architecture})
		}
	}
	return all
}

// Tag returns the tag of the release.
func (r Release) Tag() string { return "v" + r.Version.String() }

// PluginName returns the name of the plugin's files for a platform, without an extension.
func (r Release) PluginName(p Platform) string {
	return fmt.Sprintf("%s_%s_%s_%s", Plugin, r.Tag(), p.OS, p.Architecture)
}

// PluginArchive returns the name of the archive that users of a platform download.
func (r Release) PluginArchive(p Platform) string {
	if p.OS == "windows" {
		return r.PluginName(p) + ".zip"
	}
	return r.PluginName(p) + ".tar.gz"
}

// Download returns the address of a file of the release.
func (r Release) Download(file string) string {
	return fmt.Sprintf("%s/releases/download/%s/%s", Source, r.Tag(), file)
}
