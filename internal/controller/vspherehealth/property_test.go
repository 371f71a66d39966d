package vspherehealth

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// someBroken is a cluster with some things wrong at once, other ones for each seed.
func someBroken(seed uint64) input {
	random := rand.New(rand.NewPCG(seed, 0))
	in := healthy()
	for _, check := range checks() {
		// These take vCenters away, or say that one does not answer.
		if check.name != volumePlace && check.name != connection && random.IntN(3) == 0 {
			broken()[check.name](&in, &in.snapshot.VCenters[0])
		}
	}
	return in
}

// shuffle changes the order of everything whose order says nothing.
func shuffle(in *input, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	mix(random, in.cluster.nodes)
	mix(random, in.cluster.classes)
	mix(random, in.cluster.volumes)
	mix(random, in.want.FailureDomains)
	mix(random, in.cluster.vCenters)
	mix(random, in.snapshot.VCenters)
	for i := range in.snapshot.VCenters {
		vc := &in.snapshot.VCenters[i]
		mix(random, vc.Hosts)
		mix(random, vc.VMs)
		mix(random, vc.Datastores)
		mix(random, vc.Privileges)
		mix(random, vc.Tags)
		mix(random, vc.Attachments)
	}
}

func mix[T any](random *rand.Rand, all []T) {
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}

func TestTheOrderOfAnswersSaysNothing(t *testing.T) {
	for seed := range uint64(200) {
		want := brief(conditions(evaluate(someBroken(seed), nil)))
		in := someBroken(seed)
		shuffle(&in, seed)
		if got := brief(conditions(evaluate(in, nil))); !slices.Equal(got, want) {
			t.Fatalf("seed %d: in another order %v, want %v", seed, got, want)
		}
	}
}

// Conditions must not flap when vCenters come and go.
func TestConditionsStayWhileNoVCenterAnswers(t *testing.T) {
	for seed := range uint64(200) {
		in := someBroken(seed)
		before := conditions(evaluate(in, nil))
		want := brief(before)
		for step := range 3 {
			for i := range in.snapshot.VCenters {
				vc := &in.snapshot.VCenters[i]
				vc.Err, vc.FailingSince = failing(vc.Server, vsphere.Timeout), noon()
			}
			// What the cluster has, and what does not depend on vCenters, is found anew.
			before = conditions(evaluate(in, findingsIn(before)))
			if got := brief(before); !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d: %v, want %v", seed, step, got, want)
			}
		}
		in = someBroken(seed)
		if got := brief(conditions(evaluate(in, findingsIn(before)))); !slices.Equal(got, want) {
			t.Fatalf("seed %d: when they answer %v, want %v", seed, got, want)
		}
		begun, healed := changes(findingsIn(before), evaluate(in, findingsIn(before)))
		if len(begun)+len(healed) > 0 {
			t.Fatalf("seed %d: news %v and %v", seed, lines(begun), lines(healed))
		}
	}
}

func TestMessagesAreWellFormedAndBounded(t *testing.T) {
	in := healthy()
	long := strings.Repeat("long\n", 10)
	for i := range 2000 {
		name := fmt.Sprintf("node-%d", i)
		in.cluster.nodes = append(in.cluster.nodes, node{name: name, uuid: name})
		in.cluster.classes = append(in.cluster.classes, class{name: name, url: long, policy: long})
		in.cluster.volumes = append(in.cluster.volumes, volume{name: name, inTree: true, datastore: long})
		in.snapshot.VCenters[0].VMs = append(in.snapshot.VCenters[0].VMs, vsphere.VM{UUID: name, Hardware: i % 20, CBT: i%2 == 0, Host: ref("HostSystem", "dc1-host-1")})
		in.snapshot.VCenters[0].Datastores = append(in.snapshot.VCenters[0].Datastores, vsphere.Datastore{Path: name})
		in.snapshot.VCenters[0].Privileges = append(in.snapshot.VCenters[0].Privileges, vsphere.Privileges{
			Kind: vsphere.OnDatastore, Path: name, Missing: slices.Repeat([]string{"Datastore.Browse"}, 30),
		})
	}
	found := evaluate(in, nil)
	if len(found) < 8 {
		t.Fatalf("found %v", lines(found))
	}
	total := 0
	for _, condition := range conditions(found) {
		for line := range strings.SplitSeq(condition.Message, "\n") {
			total += len(line)
			name, _, _ := strings.Cut(line, ": ")
			known := slices.ContainsFunc(checks(), func(check check) bool { return string(check.name) == name })
			if line != "" && !known || strings.Contains(line, "%!") || len(line) > 4000 {
				t.Errorf("%d bytes: %.200s", len(line), line)
			}
		}
	}
	// A condition may have 32,768 bytes in other kinds.
	if total > 30000 {
		t.Errorf("%d bytes in all", total)
	}
}

func TestNothingIsNeeded(t *testing.T) {
	for name, in := range map[string]input{
		"nothing":             {now: noon()},
		"an empty vCenter":    {now: noon(), snapshot: vsphere.Snapshot{Taken: noon(), VCenters: []vsphere.VCenter{{Server: "vc1", Answered: noon()}}}},
		"one that has failed": {now: noon(), snapshot: vsphere.Snapshot{Taken: noon(), VCenters: []vsphere.VCenter{{Server: "vc1", Err: failing("vc1", vsphere.Timeout)}}}},
		"a vCenter that the cluster does not know": {now: noon(), want: healthy().want, cluster: healthy().cluster, snapshot: vsphere.Snapshot{
			Taken: noon(), VCenters: []vsphere.VCenter{vCenterOf("other", "dc1")},
		}},
	} {
		for _, one := range evaluate(in, nil) {
			if one.message == "" || one.objects == 0 || strings.Contains(one.message, "%!") {
				t.Errorf("%s: %+v", name, one)
			}
		}
		if next(in) < 0 || in.manyVolumes() && len(in.cluster.nodes) == 0 {
			t.Errorf("%s: next in %s", name, next(in))
		}
	}
	if found := findingsIn([]operatorv1.OperatorCondition{{Type: degradedType, Message: "\n\n: \nNodeVM"}}); len(found) != 1 {
		t.Errorf("remembered %v", lines(found))
	}
}

func TestWhatComesByItselfIsWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		change func(in *input)
		want   time.Duration
	}{
		"nothing": {func(*input) {}, 0},
		"a failure that is new": {func(in *input) {
			in.snapshot.VCenters[0].Err, in.snapshot.VCenters[0].FailingSince = failing("vc1", vsphere.Timeout), noon()
		}, 2 * time.Minute},
		"a failure that was found": {func(in *input) { in.snapshot.VCenters[0].Err = failing("vc1", vsphere.Timeout) }, 0},
		"a node that is new":       {func(in *input) { in.cluster.nodes[0].uuid, in.cluster.nodes[0].created = "", noon() }, 5 * time.Minute},
		"a new node with its ID":   {func(in *input) { in.cluster.nodes[0].created = noon() }, 0},
		"a node that was found":    {func(in *input) { in.cluster.nodes[0].uuid = "" }, 0},
	} {
		in := healthy()
		test.change(&in)
		if got := next(in); got != test.want {
			t.Errorf("%s: in %s, want %s", name, got, test.want)
		}
	}
}
