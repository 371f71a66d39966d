package openstack

import (
	"fmt"
	"slices"
	"time"
)

// confirmations is the number of consecutive answers that must agree before they replace earlier facts.
const confirmations = 2

// Answer is the result of one poll, or its error.
type Answer struct {
	ComputeZones, VolumeZones []string
	// HasManila is false if the catalogue lacks Manila.
	HasManila  bool
	ShareTypes []ShareType
	Err        error
}

// Facts are the results of all polls until now. The zero value means that no poll has had a result. Callers must not change the slices.
type Facts struct {
	// Answered is the time of the last answer. It is zero if the cloud has not answered since the operator started.
	Answered time.Time
	// ComputeZones and VolumeZones are from the first answer. They change when two later answers in a row agree on other zones.
	ComputeZones, VolumeZones []string
	// HasManila is true if the catalogue has Manila. After an answer with Manila, HasManila stays true until two answers in a row lack Manila.
	HasManila bool
	// ShareTypes are the types in at least one of the last two answers, sorted by name.
	ShareTypes []ShareType
	// Failures is the number of failed polls in a row. FailingSince is the time of the first of them. Err is the error of the last poll, or nil.
	FailingSince time.Time
	Failures     int
	Err          error

	// answers is the number of answers with Manila, but at most confirmations. Field "lacking" has each type in ShareTypes that the last answer lacks,
	// with the number of answers in a row that lack the type. withoutManila means that the last answer lacks Manila.
	answers       int
	lacking       map[string]int
	withoutManila bool
	// last are the zones of the last answer. zonesRepeated means that two answers in a row had the same zones.
	last          zones
	zonesRepeated bool
}

// zones are the zones of Nova and Cinder.
type zones struct{ compute, volume []string }

func (z zones) equal(other zones) bool {
	return slices.Equal(z.compute, other.compute) && slices.Equal(z.volume, other.volume)
}

// Known reports whether the cloud has ever answered.
func (f Facts) Known() bool { return !f.Answered.IsZero() }

// Repeated reports whether the cloud has answered twice with Manila since the operator started. If it returns true, at least two answers lack each
// type that is not in ShareTypes.
func (f Facts) Repeated() bool { return f.answers >= confirmations }

// ZonesRepeated reports whether two answers in a row had the same zones since the operator started.
func (f Facts) ZonesRepeated() bool { return f.zonesRepeated }

// Problem returns a text with the last error and the age of the last answer. It returns an empty text if there is no error.
func (f Facts) Problem() string {
	switch {
	case f.Err == nil:
		return ""
	case !f.Known():
		return fmt.Sprintf("%s. The cloud has not answered since the operator started: the operator changes nothing", f.Err)
	default:
		return fmt.Sprintf("%s. The last answer, of %s, stays in effect", f.Err, f.Answered.UTC().Format(time.RFC3339))
	}
}

// Merge returns the facts after a poll. After an error, earlier facts stay.
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
		// Without Manila, the answer has no types to merge.
		return merged
	}
	merged.answers = min(old.answers+1, confirmations)
	merged.ShareTypes, merged.lacking = mergeTypes(old, answer.ShareTypes)
	return merged
}

// mergeZones accepts zones on which two answers in a row agree. A cloud can omit some zones while a part of the cloud restarts.
func (f *Facts) mergeZones(answered zones, hasLast bool) {
	isRepeated := hasLast && answered.equal(f.last)
	if isRepeated || !hasLast {
		f.ComputeZones, f.VolumeZones = answered.compute, answered.volume
	}
	f.last, f.zonesRepeated = answered, f.zonesRepeated || isRepeated
}

// mergeTypes returns the types in the answer, and older types that only this answer lacks. The second result is the new value of field "lacking".
func mergeTypes(old Facts, answered []ShareType) ([]ShareType, map[string]int) {
	types, lacking := map[string]ShareType{}, map[string]int{}
	for _, one := range answered {
		types[one.Name] = one
	}
	for _, one := range old.ShareTypes {
		if _, found := types[one.Name]; found {
			continue
		}
		if times := old.lacking[one.Name] + 1; times < confirmations {
			types[one.Name], lacking[one.Name] = one, times
		}
	}
	return sorted(types), lacking
}

// Same reports whether facts are equal except for times.
func (f Facts) Same(other Facts) bool {
	return f.Known() == other.Known() && f.HasManila == other.HasManila && f.Problem() == other.Problem() &&
		f.answers == other.answers && f.zonesRepeated == other.zonesRepeated &&
		slices.Equal(f.ComputeZones, other.ComputeZones) && slices.Equal(f.VolumeZones, other.VolumeZones) &&
		slices.EqualFunc(f.ShareTypes, other.ShareTypes, func(a, b ShareType) bool { return a.Name == b.Name })
}
