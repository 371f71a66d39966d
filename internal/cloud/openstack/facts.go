package openstack

import (
	"fmt"
	"slices"
	"time"
)

// enough is how many answers must say something before it counts against what was known.
const enough = 2

// Answer is what one look at the cloud gave, or the error that it ended with.
type Answer struct {
	ComputeZones, VolumeZones []string
	// HasManila is false if the catalogue lacks it.
	HasManila  bool
	ShareTypes []ShareType
	Err        error
}

// Facts are what is known of the cloud. The zero value is "nothing is known". They are a value: nobody changes the slices.
type Facts struct {
	// Answered is when the cloud answered last; zero if it has not since the operator started.
	Answered time.Time
	// ComputeZones and VolumeZones are those of the first answer, or later ones that two answers in a row have.
	ComputeZones, VolumeZones []string
	// HasManila is false if the catalogues of the last two answers lack it, or that of the first one.
	HasManila bool
	// ShareTypes are those of the last answer, and those that only one answer lacks so far, by name.
	ShareTypes []ShareType
	// FailingSince is when the first of Failures looks in a row failed, at which Err is what the last one says.
	FailingSince time.Time
	Failures     int
	Err          error

	// answers with Manila there were, at most enough; lacking says which types the last one lacks, withoutManila that it lacks Manila.
	answers       int
	lacking       map[string]int
	withoutManila bool
	// last are the zones of the last answer; zonesRepeated says that two answers in a row had the same.
	last          zones
	zonesRepeated bool
}

// zones are those of Nova and Cinder.
type zones struct{ compute, volume []string }

func (z zones) equal(other zones) bool {
	return slices.Equal(z.compute, other.compute) && slices.Equal(z.volume, other.volume)
}

// Known reports whether the cloud has answered at all.
func (f Facts) Known() bool { return !f.Answered.IsZero() }

// Repeated reports whether at least two answers came since the operator started, so that a type which is not among ShareTypes was in neither.
func (f Facts) Repeated() bool { return f.answers >= enough }

// ZonesRepeated reports whether two answers in a row had the same zones since the operator started.
func (f Facts) ZonesRepeated() bool { return f.zonesRepeated }

// Problem says what is wrong and how old the last answer is; empty if nothing is.
func (f Facts) Problem() string {
	switch {
	case f.Err == nil:
		return ""
	case !f.Known():
		return fmt.Sprintf("%s. The cloud has not answered since the operator started: everything is left as it is", f.Err)
	default:
		return fmt.Sprintf("%s. The last answer is of %s: everything is left as it was then", f.Err, f.Answered.UTC().Format(time.RFC3339))
	}
}

// Merge makes the facts after a look. An error keeps all that was known. It is pure.
func Merge(old Facts, answer Answer, now time.Time) Facts {
	merged := old
	if answer.Err != nil {
		if old.Err == nil {
			merged.FailingSince = now
		}
		merged.Failures++
		merged.Err = answer.Err
		return merged
	}
	merged.Answered, merged.FailingSince, merged.Failures, merged.Err = now, time.Time{}, 0, nil
	merged.mergeZones(zones{answer.ComputeZones, answer.VolumeZones}, old.Known())
	merged.HasManila = answer.HasManila || (old.HasManila && !old.withoutManila)
	if merged.withoutManila = !answer.HasManila; merged.withoutManila {
		// Without Manila nobody says which types there are.
		return merged
	}
	merged.answers = min(old.answers+1, enough)
	merged.ShareTypes, merged.lacking = mergeTypes(old, answer.ShareTypes)
	return merged
}

// mergeZones takes zones that the answer before has as well. A cloud that just restarts a part of itself may leave out some.
func (f *Facts) mergeZones(answered zones, hasLast bool) {
	isRepeated := hasLast && answered.equal(f.last)
	if isRepeated || !hasLast {
		f.ComputeZones, f.VolumeZones = answered.compute, answered.volume
	}
	f.last, f.zonesRepeated = answered, f.zonesRepeated || isRepeated
}

// mergeTypes keeps what only one answer lacks.
func mergeTypes(old Facts, answered []ShareType) ([]ShareType, map[string]int) {
	types, lacking := map[string]ShareType{}, map[string]int{}
	for _, one := range answered {
		types[one.Name] = one
	}
	for _, one := range old.ShareTypes {
		if _, found := types[one.Name]; found {
			continue
		}
		if times := old.lacking[one.Name] + 1; times < enough {
			types[one.Name], lacking[one.Name] = one, times
		}
	}
	return sorted(types), lacking
}

// Same reports whether two facts say the same to whoever acts on them. When they were answered does not count.
func (f Facts) Same(other Facts) bool {
	return f.Known() == other.Known() && f.HasManila == other.HasManila && f.Problem() == other.Problem() &&
		f.answers == other.answers && f.zonesRepeated == other.zonesRepeated &&
		slices.Equal(f.ComputeZones, other.ComputeZones) && slices.Equal(f.VolumeZones, other.VolumeZones) &&
		slices.EqualFunc(f.ShareTypes, other.ShareTypes, func(a, b ShareType) bool { return a.Name == b.Name })
}
