// Package aws tests what works on AWS itself against moto, an independent stand-in for AWS, over HTTP.
package aws

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/pkg/efscleanup"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

const (
	infra = "dev-x7k2p"
	// other is a cluster whose ID begins with that of infra, short one with which that of infra begins.
	other   = "dev-x7k2p-2"
	short   = "dev-x7k"
	account = fakeaws.Account
	region  = fakeaws.Region
)

// moto is the endpoint of the stand-in, which all tests use one after the other.
var moto string

func TestMain(m *testing.M) {
	for _, variable := range fakeaws.Variables() {
		key, value, _ := strings.Cut(variable, "=")
		_ = os.Setenv(key, value)
	}
	for _, variable := range os.Environ() {
		if key, _, _ := strings.Cut(variable, "="); strings.HasPrefix(key, "AWS_") && !slices.Contains(fakeaws.Variables(), variable) {
			_ = os.Unsetenv(key)
		}
	}
	endpoint, stop, err := fakeaws.Serve()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	moto = endpoint
	code := m.Run()
	stop()
	os.Exit(code)
}

// cloud is an empty AWS that the programs of a test take for the real one.
type cloud struct{ *fakeaws.Cloud }

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := fakeaws.NewCloud(t, moto)
	t.Setenv("AWS_ENDPOINT_URL", c.URL)
	return &cloud{c}
}

// in is the same for a subtest, which then is the one that fails.
func (c *cloud) in(t *testing.T) *cloud { return &cloud{c.In(t)} }

type tags = fakeaws.Tags

// of are the tags of what a cluster owns.
func of(infraID string, more ...string) tags { return fakeaws.OwnedBy(infraID, more...) }

// options are those of a cleanup that neither pauses nor has to hurry.
func options(more ...func(*efscleanup.Options)) efscleanup.Options {
	o := efscleanup.Options{
		InfraID: infra, Account: account, Region: region, Yes: true, Wait: true, Poll: time.Millisecond, Patience: 10 * time.Minute,
		MaxBackoff: time.Millisecond, RequestsPerMinute: 1e8, RequestTimeout: 10 * time.Second,
	}
	for _, change := range more {
		change(&o)
	}
	return o
}

// cleanup runs a cleanup that must not fail as a whole.
func (c *cloud) cleanup(more ...func(*efscleanup.Options)) efscleanup.Report {
	c.T.Helper()
	report, err := efscleanup.Run(c.T.Context(), options(more...))
	env.Must(c.T, err)
	return report
}

func want(t *testing.T, report efscleanup.Report, outcome efscleanup.Outcome) {
	t.Helper()
	if report.Outcome() != outcome {
		t.Errorf("the outcome is %d, want %d: %+v", report.Outcome(), outcome, report.Objects)
	}
}

// reason is why an object is in its state.
func reason(report efscleanup.Report, id string) string {
	for _, object := range report.Objects {
		if object.ID == id {
			return string(object.State) + ": " + object.Reason
		}
	}
	return "not in the report"
}

func dryRun(o *efscleanup.Options) { o.Yes, o.Wait = false, false }

func once(o *efscleanup.Options) { o.Wait = false }

func withOwnerTag(o *efscleanup.Options) { o.OwnerTag = true }
