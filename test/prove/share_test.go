package main

import (
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

// AWS knows the token of an access point in the whole account: another cluster may run the proof, too.
func TestTwoRunsMakeTwoAccessPointsAndOneRunMakesOne(t *testing.T) {
	aws := fakeaws.NewCloud(t, fakeaws.Start(t))
	for _, one := range fakeaws.Variables() {
		name, value, _ := strings.Cut(one, "=")
		t.Setenv(name, value)
	}
	t.Setenv("AWS_ENDPOINT_URL", aws.URL)
	run := func(id, fileSystem string) string {
		p := &proof{id: id, facts: facts{infraID: "dev-x7k2p", region: fakeaws.Region}}
		p.share.FileSystem = fileSystem
		point, err := p.accessPoint(t.Context())
		env.Must(t, err)
		return point
	}
	first, second := aws.FileSystem(nil, ""), aws.FileSystem(nil, "")
	before := run("one", first)
	lost := false
	aws.Set(func(call fakeaws.Call) fakeaws.Fault {
		if lost || call.Action != "elasticfilesystem:CreateAccessPoint" {
			return nil
		}
		lost = true
		return func(send func() *fakeaws.Answer) *fakeaws.Answer {
			send()
			return nil
		}
	})
	after := run("two", second)
	aws.Set(nil)
	if before == after || !lost {
		t.Errorf("both runs have access point %s", after)
	}
	aws.WantLeft(first, second, before, after)
}
