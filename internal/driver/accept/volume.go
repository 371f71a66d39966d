package accept

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Problem is a value of a PersistentVolume that a driver refuses.
type Problem struct {
	// Field What is the end of a sentence that begins with "the driver refuses". It names the value and the reason.
	What string
	// Instead says what to write in place of the value. It is empty if no row has such advice.
	Instead string
}

// Change is a value of a PersistentVolume that means something else to drivers older than version Before.
type Change struct {
	Before string
	// Has reports whether a PersistentVolume has the value.
	Has func(*corev1.PersistentVolume) bool
	// Field What says what the newer driver does. Field Instead says what to write to keep the old behaviour.
	What, Instead string
	Source        string
}

// Volume returns the values of a PersistentVolume that a driver refuses when it mounts the volume. A table without rows about handles is incomplete,
// so Volume then returns nothing.
func (t Table) Volume(volume *corev1.PersistentVolume) []Problem {
	source := volume.Spec.CSI
	if source == nil || !t.has(Handle, "") {
		return nil
	}
	problems := t.modes(volume)
	for _, name := range slices.Sorted(maps.Keys(source.VolumeAttributes)) {
		value := source.VolumeAttributes[name]
		// The driver ignores the case of names.
		at := slices.IndexFunc(t, func(row Row) bool { return row.Of == Attribute && strings.EqualFold(row.Name, name) })
		if at < 0 {
			what := fmt.Sprintf("volume attribute %s, which it does not know", shown(name))
			problems = append(problems, Problem{What: what, Instead: t.instead(name, volume)})
		} else if row := t.refusing(Attribute, t[at].Name, value); row != nil {
			problems = append(problems, Problem{What: fmt.Sprintf("volume attribute %s: it %s", shown(name), row.Why), Instead: t.instead(name, volume)})
		}
	}
	if row := t.refusing(Handle, "", source.VolumeHandle); row != nil {
		problems = append(problems, Problem{What: fmt.Sprintf("volumeHandle %s: it %s", strconv.Quote(short(source.VolumeHandle)), row.Why)})
	}
	for _, option := range volume.Spec.MountOptions {
		if row := t.refusing(RefusedOption, option, option); row != nil {
			problems = append(problems, Problem{What: fmt.Sprintf("mount option %s: %s", shown(option), row.Why), Instead: t.instead(option, volume)})
		}
	}
	for i := range t {
		if row := &t[i]; row.Of == Together && row.Has(volume) {
			problems = append(problems, Problem{What: row.Why, Instead: t.instead(row.Name, volume)})
		}
	}
	return problems
}

// mostShown is the largest number of bytes of a user's text in a Problem.
const mostShown = 200

// short shortens a user's text.
func short(text string) string {
	if len(text) <= mostShown {
		return text
	}
	return strings.ToValidUTF8(text[:mostShown], "") + "..."
}

// shown returns a user's text for a Problem. It shortens the text, and quotes a text that is not plain.
func shown(text string) string {
	if text = short(text); !IsPlain(text) {
		return strconv.Quote(text)
	}
	return text
}

// modes returns a Problem for the volume mode and for the access mode, if the driver refuses them. Kubernetes passes only the first access mode to
// the driver (v1.36, pkg/volume/csi/csi_mounter.go SetUpAt).
func (t Table) modes(volume *corev1.PersistentVolume) []Problem {
	var problems []Problem
	if mode := volume.Spec.VolumeMode; mode != nil && !t.has(VolumeMode, string(*mode)) {
		problems = append(problems, Problem{What: fmt.Sprintf("volumeMode %s: it accepts %s", *mode, strings.Join(t.Names(VolumeMode), ", "))})
	}
	modes := volume.Spec.AccessModes
	if len(modes) > 0 && modes[0] != corev1.ReadWriteOncePod && !t.has(AccessMode, string(modes[0])) {
		problems = append(problems, Problem{What: fmt.Sprintf("access mode %s: it accepts %s", modes[0], strings.Join(t.Names(AccessMode), ", "))})
	}
	return problems
}

// instead returns what to write in place of a refused value.
func (t Table) instead(name string, volume *corev1.PersistentVolume) string {
	for i := range t {
		if row := &t[i]; row.Of == Instead && strings.EqualFold(row.Name, name) {
			return row.Write(volume)
		}
	}
	return ""
}
