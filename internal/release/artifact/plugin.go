package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/release"
)

// Sums is the name of the file that has the checksums of all other files.
const Sums = "SHA256SUMS"

// Names returns the program's file names in an archive. oc and kubectl find plugins by these names.
func Names(p release.Platform) []string {
	names := []string{release.Plugin, "kubectl-storage"}
	if p.OS == "windows" {
		for i := range names {
			names[i] += ".exe"
		}
	}
	return names
}

// completions returns the scripts that complete the plugin's arguments. kubectl looks for kubectl_complete-NAME, and oc for oc_complete-NAME (kubectl
// v1.36.3, pkg/cmd/plugin/plugin_completion.go; oc release-4.15 and newer, pkg/cli/cli.go). Windows can't start these scripts, so archives for
// Windows have none.
func completions(p release.Platform) []File {
	if p.OS == "windows" {
		return nil
	}
	var files []File
	for _, name := range Names(p) {
		files = append(files, File{
			Name: strings.Replace(name, "-", "_complete-", 1), Mode: ModeProgram,
			Content: []byte("#!/bin/sh\n# Completes the arguments of the plugin: keep it beside " + name + ".\n" +
				"exec " + name + " __complete \"$@\" 2>/dev/null\n"),
		})
	}
	return files
}

// Plugin packs the program for a platform into its archive.
func Plugin(p release.Platform, binary, license []byte) ([]byte, error) {
	files := append(completions(p), File{Name: "LICENSE", Mode: ModeFile, Content: license})
	for _, name := range Names(p) {
		files = append(files, File{Name: name, Mode: ModeProgram, Content: binary})
	}
	pack := TarGz
	if p.OS == "windows" {
		pack = Zip
	}
	text, err := pack(files)
	if err != nil {
		return nil, fmt.Errorf("archive for %s: %w", p, err)
	}
	return text, nil
}

// Checksums lists the checksums of files, in the format of "sha256sum --check".
func Checksums(files map[string][]byte) []byte {
	var text []byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text = fmt.Appendf(text, "%s  %s\n", checksum(files[name]), name)
	}
	return text
}

func checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
