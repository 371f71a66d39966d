package vsphere

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

func configs(servers ...string) []cloudconfig.VCenterConfig {
	var all []cloudconfig.VCenterConfig
	for _, server := range servers {
		all = append(all, cloudconfig.VCenterConfig{Server: server})
	}
	return all
}

func TestAVCenterThatDoesNotAnswerKeepsWhatItSaid(t *testing.T) {
	then, now := time.Unix(1000, 0), time.Unix(2000, 0)
	late, refused := &Error{Server: "vc1", Reason: Timeout}, &Error{Server: "vc1", Reason: LoginRefused}
	said := VCenter{Server: "vc1", Answered: then, Version: "8.0.2"}
	silent := said
	silent.Err, silent.FailingSince = late, then
	for name, tc := range map[string]struct {
		before []VCenter
		answer answer
		want   VCenter
	}{
		"the first answer": {nil, answer{seen: said}, said},
		"another answer":   {[]VCenter{said}, answer{seen: VCenter{Server: "vc1", Version: "8.0.3"}}, VCenter{Server: "vc1", Version: "8.0.3"}},
		"no first answer":  {nil, answer{err: late}, VCenter{Server: "vc1", Err: late, FailingSince: now}},
		"no further answer": {
			[]VCenter{said}, answer{err: late}, VCenter{Server: "vc1", Answered: then, Version: "8.0.2", Err: late, FailingSince: now},
		},
		"another failure": {
			[]VCenter{silent}, answer{err: refused}, VCenter{Server: "vc1", Answered: then, Version: "8.0.2", Err: refused, FailingSince: then},
		},
		"it answers again":      {[]VCenter{silent}, answer{seen: said}, said},
		"what another has said": {[]VCenter{{Server: "vc2", Version: "7"}}, answer{err: late}, VCenter{Server: "vc1", Err: late, FailingSince: now}},
	} {
		got := merge(Snapshot{Taken: then, VCenters: tc.before}, configs("vc1"), map[string]answer{"vc1": tc.answer}, now)
		if diff := cmp.Diff(Snapshot{Taken: now, VCenters: []VCenter{tc.want}}, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestASnapshotHasTheVCentersOfTheConfigurationInItsOrder(t *testing.T) {
	old := Snapshot{VCenters: []VCenter{{Server: "gone"}, {Server: "b"}}}
	insecure := configs("b", "a")
	insecure[1].Insecure = true
	got := merge(old, insecure, map[string]answer{"b": {seen: VCenter{Server: "b"}}, "a": {err: &Error{Reason: Timeout}}}, time.Unix(1, 0))
	if len(got.VCenters) != 2 || got.VCenters[0].Server != "b" || got.VCenters[1].Server != "a" || !got.VCenters[1].Insecure || got.VCenters[0].Insecure {
		t.Errorf("%+v", got)
	}
	if _, found := got.Of("gone"); found {
		t.Error("a vCenter that the configuration lacks is still there")
	}
}

// An invalid configuration must not look like one without vCenters.
func TestABrokenConfigurationIsAFailureOfAllThatAreKnown(t *testing.T) {
	now, failure := time.Unix(2000, 0), &Error{Reason: cloudconfig.InvalidConfiguration, Why: "line 3"}
	known := Snapshot{VCenters: []VCenter{{Server: "a", Version: "8", Insecure: true}, {Server: "b"}}}
	for name, tc := range map[string]struct {
		old     Snapshot
		configs []cloudconfig.VCenterConfig
		want    []VCenter
	}{
		"none is known":  {Snapshot{}, nil, []VCenter{{Err: failure, FailingSince: now}}},
		"some are known": {known, nil, []VCenter{{Server: "a", Version: "8", Insecure: true, Err: failure, FailingSince: now}, {Server: "b", Err: failure, FailingSince: now}}},
		"the configuration names some": {
			known, configs("b", "c"), []VCenter{{Server: "b", Err: failure, FailingSince: now}, {Server: "c", Err: failure, FailingSince: now}},
		},
	} {
		if diff := cmp.Diff(Snapshot{Taken: now, VCenters: tc.want}, broken(tc.old, tc.configs, failure, now)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
