package image

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
)

// noAssertion is the word of SPDX for a fact that a document does not state.
const noAssertion = "NOASSERTION"

// spdxDocument has the fields of SPDX 2.3 that we write. The library for SPDX would bring two more modules, but we write only these few fields.
type spdxDocument struct {
	Version           string             `json:"spdxVersion"`
	License           string             `json:"dataLicense"`
	ID                string             `json:"SPDXID"`
	Name              string             `json:"name"`
	DocumentNamespace string             `json:"documentNamespace"`
	CreationInfo      spdxCreation       `json:"creationInfo"`
	Packages          []spdxPackage      `json:"packages"`
	Relationships     []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	Name             string         `json:"name"`
	ID               string         `json:"SPDXID"`
	Version          string         `json:"versionInfo"`
	Purpose          string         `json:"primaryPackagePurpose"`
	Supplier         string         `json:"supplier"`
	DownloadLocation string         `json:"downloadLocation"`
	FilesAnalyzed    bool           `json:"filesAnalyzed"`
	Checksums        []spdxChecksum `json:"checksums,omitempty"`
	LicenseConcluded string         `json:"licenseConcluded"`
	LicenseDeclared  string         `json:"licenseDeclared"`
	Copyright        string         `json:"copyrightText"`
	Comment          string         `json:"comment,omitempty"`
	References       []spdxExternal `json:"externalRefs"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxExternal struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	Element string `json:"spdxElementId"`
	Related string `json:"relatedSpdxElement"`
	Type    string `json:"relationshipType"`
}

// SPDX lists the Go modules in a program as SPDX 2.3 JSON. Go puts this list into the program. location is the download URL of the
// program. The date is fixed, so that the same program always has the same list.
func SPDX(binary []byte, name, version, location string) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("SBOM of %s: read the program's build information: %w", name, err)
	}
	sum := sha256.Sum256(binary)
	digest := hex.EncodeToString(sum[:])
	program := spdxModule(0, info.Main.Path, version)
	program.Name, program.Purpose, program.DownloadLocation = name, "APPLICATION", location
	program.Supplier, program.LicenseDeclared = "Organization: csi-operators", "Apache-2.0"
	program.Checksums, program.Comment = []spdxChecksum{{"SHA256", digest}}, spdxSettings(info)
	document := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name, DocumentNamespace: location + "#" + digest,
		CreationInfo: spdxCreation{
			Created: epoch().Format("2006-01-02T15:04:05Z"), Creators: []string{"Organization: csi-operators", "Tool: hack/artifacts"},
		},
		Packages:      []spdxPackage{program},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", program.ID, "DESCRIBES"}},
	}
	modules := append([]*debug.Module{{Path: "std", Version: strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")}}, info.Deps...)
	for i, module := range modules {
		if module.Replace != nil {
			module = module.Replace
		}
		library := spdxModule(i+1, module.Path, module.Version)
		if module.Sum != "" {
			// The sum is a hash over the names and hashes of the module's files. SPDX has no checksum of this kind, so a comment has the sum.
			library.Comment = "go.sum: " + module.Sum
		}
		document.Packages = append(document.Packages, library)
		document.Relationships = append(document.Relationships, spdxRelationship{program.ID, library.ID, "DEPENDS_ON"})
	}
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("SBOM of %s: %w", name, err)
	}
	return append(text, '\n'), nil
}

// spdxModule returns the entry of a Go module. SPDX does not allow all characters of a path in an identifier. Two paths can become equal without the
// forbidden characters, so each identifier also has a number.
func spdxModule(number int, path, version string) spdxPackage {
	allowed := regexp.MustCompile(`[^A-Za-z0-9.-]+`).ReplaceAllString(path, "-")
	return spdxPackage{
		Name: path, ID: fmt.Sprintf("SPDXRef-%d-%s", number, allowed), Version: version, Purpose: "LIBRARY", Supplier: noAssertion,
		DownloadLocation: noAssertion, LicenseConcluded: noAssertion, LicenseDeclared: noAssertion, Copyright: noAssertion,
		References: []spdxExternal{{"PACKAGE-MANAGER", "purl", packageURL(path, version)}},
	}
}

// spdxSettings returns a text with the program's platform and cryptography.
func spdxSettings(info *debug.BuildInfo) string {
	var settings []string
	for _, property := range *buildSettings(info) {
		settings = append(settings, strings.TrimPrefix(property.Name, "go:build:")+"="+property.Value)
	}
	return strings.Join(settings, " ")
}
