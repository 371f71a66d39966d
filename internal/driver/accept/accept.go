// Package accept has data about the values that drivers accept. Each row of the data has its versions and a source. The package reads no cluster, and
// imports nothing of this project.
//
// Rendering omits values that a row rejects. Doctor and the guides read the same rows.
package accept

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
)

// Subject is the kind of value that a row is about.
type Subject string

// Values from the cluster's configuration.
const (
	// ClusterName is the infrastructureName of the Infrastructure.
	ClusterName Subject = "cluster name"
	// Region is the region of the cloud. Endpoint is the address of one service of the cloud. In a row about an Endpoint, Name is the service.
	Region   Subject = "region"
	Endpoint Subject = "endpoint"
	// Tag is a tag of cloud resources. Label is a label of cloud resources. In a row about a Tag or a Label, Name is Key or Value, the half of the pair
	// that the row is about.
	Tag   Subject = "tag"
	Label Subject = "label"
	// File is a key of a file. The row's Name has the form SECTION/KEY.
	File Subject = "file"
)

// Values from users, by name.
const (
	Parameter         Subject = "parameter of a StorageClass"
	SnapshotParameter Subject = "parameter of a VolumeSnapshotClass"
	Attribute         Subject = "volume attribute"
	MountOption       Subject = "mount option"
	AccessMode        Subject = "access mode"
	VolumeMode        Subject = "volume mode"
	Expansion         Subject = "expansion"
	// Handle is the volumeHandle of a PersistentVolume.
	Handle Subject = "volume handle"
	// RefusedOption is a mount option that the driver refuses because of its name. MountOption is a mount option that the driver does not refuse by
	// name.
	RefusedOption Subject = "refused mount option"
	// Together is about several values of a PersistentVolume that the driver refuses together: see Row.Has.
	Together Subject = "values together"
	// Instead is about what to write in place of a refused value: see Row.Write.
	Instead Subject = "instead"
)

// The two halves of a Tag or Label.
const (
	Key   = "key"
	Value = "value"
)

// Row is one fact about a driver. A row rejects a value that is too long, that does not match, or that is not one of Values.
type Row struct {
	Of   Subject
	Name string
	// Since is the first version for which the row holds. Before is the first later version for which the row does not hold. An empty field sets no
	// limit.
	Since, Before string
	// Most is the maximum number of characters; 0 means no limit.
	Most int
	// Match is a regular expression that the whole value must match. Except is a regular expression that no part of the value may match. An empty
	// expression rejects nothing.
	Match, Except string
	// Values, if set, are the only accepted values.
	Values []string
	// Accepts, if set, reports whether the driver accepts a value. It is for values that no expression describes.
	Accepts func(value string) bool
	// Has is set only in rows about Together. It reports whether a PersistentVolume has the values that the driver refuses together.
	Has func(*corev1.PersistentVolume) bool
	// Write is set only in rows about Instead. It says what to write in place of a refused value of a PersistentVolume.
	Write func(*corev1.PersistentVolume) string
	// List, if set, describes how the driver parses all tags or labels from one text.
	List *List
	// Why says what the driver or its cloud accepts. It is the end of a sentence about a rejected value.
	Why string
	// Source is the program, version and file that prove the fact.
	Source string

	// expressions returns the compiled Match and Except. It compiles them at the first call. Table.At sets this field. The field is nil in a row that
	// does not come from Table.At.
	expressions func() (match, except *regexp.Regexp)
}

// Table says which values one driver accepts, in all known versions. The first row that rejects a value gives the reason.
type Table []Row

// At returns the rows for one version. Each of these rows compiles its regular expressions only once.
func (t Table) At(version string) Table {
	at, err := semver.ParseTolerant(version)
	if err != nil {
		// An unknown version counts as the newest.
		at = semver.Version{Major: 1 << 20}
	}
	var rows Table
	for _, row := range t {
		if (row.Since == "" || at.GTE(semver.MustParse(row.Since))) && (row.Before == "" || at.LT(semver.MustParse(row.Before))) {
			row.expressions = sync.OnceValues(row.compile)
			rows = append(rows, row)
		}
	}
	return rows
}

// VersionOf returns the version in the tag of an image. It returns an empty text if the tag has no version.
func VersionOf(image string) string {
	name, _, _ := strings.Cut(image, "@")
	_, tag, hasTag := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	found := regexp.MustCompile(`^v?(\d+\.\d+\.\d+)(-[0-9A-Za-z.-]+)?$`).FindStringSubmatch(tag)
	if !hasTag || found == nil {
		return ""
	}
	// A date, such as 2024.01.15, is no version.
	if version, err := semver.Parse(found[1]); err != nil || version.Major > 1000 {
		return ""
	}
	return found[1]
}

// AtLeast reports whether a version is "since" or later. It returns false if the version is unknown.
func AtLeast(version, since string) bool {
	known, err := semver.Parse(version)
	return err == nil && known.GTE(semver.MustParse(since))
}

// has reports whether the table has a row for a subject and a name.
func (t Table) has(of Subject, name string) bool {
	return slices.ContainsFunc(t, func(row Row) bool { return row.Of == of && row.Name == name })
}

// Names returns the names in the rows for a subject, sorted.
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

// Values returns the allowed values of a name. It returns nil if no row lists values for the name.
func (t Table) Values(of Subject, name string) []string {
	for i := range t {
		if row := &t[i]; row.Of == of && row.Name == name && row.Values != nil {
			return row.Values
		}
	}
	return nil
}

// Refusal says why the driver rejects a value. It returns an empty text if the driver accepts the value.
func (t Table) Refusal(of Subject, name, value string) string {
	if row := t.refusing(of, name, value); row != nil {
		return row.Why
	}
	return ""
}

// refusing returns the first row that refuses a value, or nil.
func (t Table) refusing(of Subject, name, value string) *Row {
	for i := range t {
		if row := &t[i]; row.Of == of && row.Name == name && row.refuses(value) {
			return row
		}
	}
	return nil
}

// compile compiles the regular expressions of a row. The result of an empty expression is nil.
func (r Row) compile() (match, except *regexp.Regexp) {
	if r.Match != "" {
		match = regexp.MustCompile(`^(?:` + r.Match + `)$`)
	}
	if r.Except != "" {
		except = regexp.MustCompile(r.Except)
	}
	return match, except
}

func (r *Row) refuses(value string) bool {
	expressions := r.expressions
	if expressions == nil {
		expressions = r.compile
	}
	match, except := expressions()
	switch {
	case r.Most > 0 && utf8.RuneCountInString(value) > r.Most:
		return true
	case match != nil && !match.MatchString(value):
		return true
	case r.Accepts != nil && !r.Accepts(value):
		return true
	case except != nil && except.MatchString(value):
		return true
	default:
		return len(r.Values) > 0 && !slices.Contains(r.Values, value)
	}
}

// IsPlain reports whether a text stays the same in a file or an environment variable. A plain text is valid UTF-8, without control characters, line
// separators and byte order marks.
func IsPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\ufeff'
	})
}
