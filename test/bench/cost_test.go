package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/test/env"
)

// What was asked before a step, by others, or for the lease is no work of it.
func TestACostIsWhatAStepNeeds(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	ask := func(user, verb, resource string) {
		request := answered(verb, "", resource, "one", 200)
		request.User.Username = user
		if request.Stage = "ResponseComplete"; verb == "watch" {
			request.Stage = "ResponseStarted"
		}
		if err := json.NewEncoder(file).Encode(request); err != nil {
			t.Fatal(err)
		}
	}
	operator, err := env.RunFile("/bin/sleep", []string{"600"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = operator.Stop() })
	one := &trial{operator: operator, requests: &journal{audit: env.Audit{File: log}, user: "ours"}}
	ask("ours", "get", "pods")
	got, err := one.costOf(func() error {
		for _, verb := range []string{"get", "patch", "watch"} {
			ask("ours", verb, "configmaps")
			ask("other", verb, "configmaps")
		}
		ask("ours", "update", "leases")
		return one.requests.read()
	})
	if err != nil {
		t.Fatal(err)
	}
	counts := []int{len(got.all), len(got.work), len(got.writes)}
	if diff := cmp.Diff([]int{4, 2, 1}, counts); diff != "" || got.writes[0].Verb != "patch" || got.residentKibibytes == 0 {
		t.Errorf("%+v (-want +got):\n%s", got, diff)
	}
	broken := errors.New("broken")
	if _, err := one.costOf(func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a step that fails: %v", err)
	}
}
