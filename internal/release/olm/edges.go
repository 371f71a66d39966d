package olm

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/blang/semver/v4"
)

// checkEdges finds entries of a channel that would prevent a cluster from reaching the newest version of the channel. Parameter file is the path of
// the channel's file.
func checkEdges(channel CatalogChannel, file string, all versions, p Package) []error {
	var problems []error
	say := func(name, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: entries: %s: %s", file, name, fmt.Sprintf(format, args...)))
	}
	known := all.of(channel.Name)
	listed := map[string]bool{}
	for i, entry := range channel.Entries {
		version, there := known[entry.Name]
		switch {
		case listed[entry.Name]:
			say(entry.Name, "the list has this entry twice")
			continue
		case !there:
			say(entry.Name, "%s/ has no bundle of that name for channel %s", catalogBundles, channel.Name)
			continue
		}
		listed[entry.Name] = true
		if err := checkSkipRange(entry.SkipRange, version); err != nil {
			say(entry.Name, "skipRange: %v", err)
		}
		replaced := p.Replaces
		if i+1 < len(channel.Entries) {
			replaced = channel.Entries[i+1].Name
			if older, there := known[replaced]; there && !older.LT(version) {
				say(entry.Name, "the channel lists version %s above %s, but newer versions must come first", version, older)
			}
		}
		if entry.Replaces != replaced {
			say(entry.Name, "replaces: it is %q, want the version before, %q", entry.Replaces, replaced)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !listed[name] {
			say(name, "the channel does not have the bundle: clusters with this version get no upgrade")
		}
	}
	if len(problems) > 0 || len(channel.Entries) == 0 {
		return problems
	}
	return checkEnds(channel, file, all, p)
}

// of returns the versions that a channel must have. Channel Stable has no previews, which are the versions with a number in the suffix.
func (v versions) of(channel string) versions {
	own := maps.Clone(v)
	if channel == Stable {
		maps.DeleteFunc(own, func(_ string, version semver.Version) bool {
			return slices.ContainsFunc(version.Pre, func(part semver.PRVersion) bool { return part.IsNum })
		})
	}
	return own
}

// checkEnds follows the upgrades from every possible installed version. The last upgrade must lead to the newest version of the channel. A preview
// that is newer than all versions of channel Stable is an exception, because a cluster that changes to channel Stable keeps such a preview until a
// newer release comes.
func checkEnds(channel CatalogChannel, file string, all versions, p Package) []error {
	points, err := p.startingPoints(all)
	if err != nil {
		return []error{err}
	}
	var problems []error
	newest := channel.Entries[0].Name
	for _, from := range points {
		if from.version.GT(all[newest]) {
			continue
		}
		if end := channel.upgrade(from, all); end != newest {
			problems = append(problems, fmt.Errorf("%s: entries: upgrades from %s end at %s instead of the newest version %s", file, from.name, end, newest))
		}
	}
	return problems
}

// installed is a version that a cluster may have installed.
type installed struct {
	name    string
	version semver.Version
}

// startingPoints returns the versions in the catalog, and the versions of predecessors.
func (p Package) startingPoints(known versions) ([]installed, error) {
	var found []installed
	for _, name := range slices.Sorted(maps.Keys(known)) {
		found = append(found, installed{name, known[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Predecessors)) {
		for _, text := range p.Predecessors[name] {
			version, err := semver.Parse(text)
			if err != nil {
				return nil, fmt.Errorf("package %s: version %q of predecessor %s: %w", p.Name, text, name, err)
			}
			found = append(found, installed{name + ".v" + text, version})
		}
	}
	return found, nil
}

// Upgrade returns the ClusterServiceVersion that a cluster has after all its upgrades. Argument "in" is the channel of the package to which the
// cluster subscribes. Arguments "name" and "version" describe the installed ClusterServiceVersion, which can be from another package or another
// channel. If there is no upgrade, Upgrade returns the name of the installed ClusterServiceVersion.
func Upgrade(catalog Files, p Package, in, name string, version semver.Version) (string, error) {
	channel, err := catalog.channel(in)
	if err != nil {
		return "", err
	}
	known, problems := catalog.versions(p)
	return channel.upgrade(installed{name, version}, known), errors.Join(problems...)
}

// upgrade returns the version that a cluster has after all its upgrades. By OLM's rule, the next version is the newest entry that names the installed
// version in replaces or skips, or whose skipRange contains the installed version. OLM looks only at the entries of the Subscription's channel, even
// if the installed version is from another channel (operator-lifecycle-manager 992bb09, pkg/controller/registry/resolver/resolver.go,
// getSubscriptionVariables).
func (c CatalogChannel) upgrade(from installed, known versions) string {
	for range c.Entries {
		next := slices.IndexFunc(c.Entries, func(entry Entry) bool { return entry.Follows(from.name, from.version) })
		if next < 0 {
			return from.name
		}
		from = installed{c.Entries[next].Name, known[c.Entries[next].Name]}
	}
	return from.name
}

// Follows reports whether a cluster can upgrade to this entry. Arguments "name" and "version" describe the installed ClusterServiceVersion, which can
// be from another package.
func (e Entry) Follows(name string, version semver.Version) bool {
	if e.Name == name {
		return false
	}
	if e.Replaces == name || slices.Contains(e.Skips, name) {
		return true
	}
	includes, err := semver.ParseRange(e.SkipRange)
	return err == nil && includes(version)
}
