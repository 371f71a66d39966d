package image

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// SBOM lists the Go modules in a program as CycloneDX JSON. It reads the program itself, so the list is complete. The list has no time and no
// serial number: for the same program, it is always the same.
func SBOM(binary []byte, name, version string) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("SBOM of %s: read the program's build information: %w", name, err)
	}
	main := cyclonedx.Component{
		BOMRef: packageURL(info.Main.Path, version), Type: cyclonedx.ComponentTypeApplication,
		Name: name, Version: version, PackageURL: packageURL(info.Main.Path, version), Properties: buildSettings(info),
	}
	goVersion := strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")
	components := []cyclonedx.Component{library("std", goVersion, "")}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		components = append(components, library(module.Path, module.Version, module.Sum))
	}
	needed := []string{}
	for _, component := range components {
		needed = append(needed, component.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &needed}}
	return encodeSBOM(bom, name)
}

// SBOMWithoutProgram returns the SBOM of an image that has no program of ours, such as the image of a bundle. It names the image, and lists no
// modules.
func SBOMWithoutProgram(name, version string) ([]byte, error) {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: name, Type: cyclonedx.ComponentTypeContainer, Name: name, Version: version,
	}}
	bom.Components = &[]cyclonedx.Component{}
	return encodeSBOM(bom, name)
}

func encodeSBOM(bom *cyclonedx.BOM, name string) ([]byte, error) {
	var text bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	if err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("SBOM of %s: %w", name, err)
	}
	return text.Bytes(), nil
}

// Labels about the build of the program in an image.
const (
	// ToolchainLabel is the version of Go.
	ToolchainLabel = "io.csi-operators.build.toolchain"
	// ModulesLabel is the SHA-256 of one line "path version sum" for each module, as in go.sum and in the order of "go version -m".
	ModulesLabel = "io.csi-operators.build.modules"
)

// BuildLabels returns what the program's file says about its build. The result depends only on the program.
func BuildLabels(binary []byte) (map[string]string, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("labels of the build: %w", err)
	}
	var lines strings.Builder
	for _, module := range info.Deps {
		_, _ = fmt.Fprintf(&lines, "%s %s %s\n", module.Path, module.Version, module.Sum)
	}
	sum := sha256.Sum256([]byte(lines.String()))
	return map[string]string{
		ToolchainLabel: strings.Fields(info.GoVersion)[0], ModulesLabel: "sha256:" + hex.EncodeToString(sum[:]),
	}, nil
}

// library returns the entry of one module. The sum comes from go.sum. It is a hash over the names and hashes of the module's files. CycloneDX has no
// field for such a hash, so a property has the sum.
func library(path, version, sum string) cyclonedx.Component {
	component := cyclonedx.Component{
		BOMRef: packageURL(path, version), Type: cyclonedx.ComponentTypeLibrary,
		Name: path, Version: version, PackageURL: packageURL(path, version),
	}
	if sum != "" {
		component.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: sum}}
	}
	return component
}

// buildSettings returns the build settings that matter to users: the platform, and the cryptography.
func buildSettings(info *debug.BuildInfo) *[]cyclonedx.Property {
	properties := []cyclonedx.Property{}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "GOFIPS140", "DefaultGODEBUG":
			properties = append(properties, cyclonedx.Property{Name: "go:build:" + setting.Key, Value: setting.Value})
		}
	}
	return &properties
}

// packageURL returns the name by which scanners know a module. The format requires lower-case letters.
func packageURL(path, version string) string {
	return "pkg:golang/" + strings.ToLower(path) + "@" + version
}
