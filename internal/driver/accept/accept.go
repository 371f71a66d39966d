// Package accept has what the drivers take, as data: rows with a version and a source. It reads no cluster, and imports nothing of this project.
//
// Rendering leaves out what a row refuses. What tells people about volumes of a driver reads the same rows.
package accept

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blang/semver/v4"
)

// Subject is what a row is about.
type Subject string

// What the cluster's configuration gives to a driver.
const (
	// ClusterName is the infrastructureName of the Infrastructure.
	ClusterName Subject = "cluster name"
	// Region is that of the cloud, Endpoint the address of one of its services, by the name of the service.
	Region   Subject = "region"
	Endpoint Subject = "endpoint"
	// Tag is a tag of cloud resources, Label a label of them; Name is Key or Value.
	Tag   Subject = "tag"
	Label Subject = "label"
	// File is a key of a file, with its section before a slash.
	File Subject = "file"
)

// What users give to a driver, by its name.
const (
	Parameter         Subject = "parameter of a StorageClass"
	SnapshotParameter Subject = "parameter of a VolumeSnapshotClass"
	Attribute         Subject = "volume attribute"
	MountOption       Subject = "mount option"
	AccessMode        Subject = "access mode"
	VolumeMode        Subject = "volume mode"
	Expansion         Subject = "expansion"
)

// The two halves of a Tag or Label.
const (
	Key   = "key"
	Value = "value"
)

// Row is one fact about a driver. A value is refused by a row if it is too long, does not match, or is none of the values.
type Row struct {
	Of   Subject
	Name string
	// Since is the first version for which the row holds, Before the first one for which it does not; empty is open.
	Since, Before string
	// Most is how many characters a value may have; 0 is any number.
	Most int
	// Match is a regular expression that the whole value matches, Except one that no part of it matches; empty is any.
	Match, Except string
	// Values, if set, are the only ones.
	Values []string
	// List, if set, is how the driver reads all tags or labels out of one text.
	List *List
	// Why is the end of a sentence: what the driver or its cloud takes, if a value is refused.
	Why string
	// Source is the program with version and file in which the fact stands.
	Source string
}

// Table is what one driver takes, in all versions that are known. Of rows for one value, the first that refuses it says why.
type Table []Row

// At are the rows of one version.
func (t Table) At(version string) Table {
	at, err := semver.ParseTolerant(version)
	if err != nil {
		// The newest.
		at = semver.Version{Major: 1 << 20}
	}
	var rows Table
	for _, row := range t {
		if (row.Since == "" || at.GTE(semver.MustParse(row.Since))) && (row.Before == "" || at.LT(semver.MustParse(row.Before))) {
			rows = append(rows, row)
		}
	}
	return rows
}

// VersionOf is the version that the tag of an image says; empty if it says none.
func VersionOf(image string) string {
	name, _, _ := strings.Cut(image, "@")
	_, tag, hasTag := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	if found := regexp.MustCompile(`^v?(\d+\.\d+\.\d+)(-[0-9A-Za-z.-]+)?$`).FindStringSubmatch(tag); hasTag && found != nil {
		return found[1]
	}
	return ""
}

// rows are those of a subject with a name.
func (t Table) rows(of Subject, name string) []Row {
	return slices.DeleteFunc(slices.Clone(t), func(row Row) bool { return row.Of != of || row.Name != name })
}

// Names are the names that a driver knows of a subject, sorted.
func (t Table) Names(of Subject) []string {
	var names []string
	for _, row := range t {
		if row.Of == of {
			names = append(names, row.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Values are the only values of a name, if it has such.
func (t Table) Values(of Subject, name string) []string {
	for _, row := range t.rows(of, name) {
		if row.Values != nil {
			return row.Values
		}
	}
	return nil
}

// Refusal says why a value is not taken; empty if it is.
func (t Table) Refusal(of Subject, name, value string) string {
	for _, row := range t.rows(of, name) {
		if row.refuses(value) {
			return row.Why
		}
	}
	return ""
}

func (r Row) refuses(value string) bool {
	switch {
	case r.Most > 0 && utf8.RuneCountInString(value) > r.Most:
		return true
	case r.Match != "" && !regexp.MustCompile(`^(?:`+r.Match+`)$`).MatchString(value):
		return true
	case r.Except != "" && regexp.MustCompile(r.Except).MatchString(value):
		return true
	default:
		return len(r.Values) > 0 && !slices.Contains(r.Values, value)
	}
}

// IsPlain tells whether a text survives files and environments: it is UTF-8, and has no control characters or other ends of lines.
func IsPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\ufeff'
	})
}
