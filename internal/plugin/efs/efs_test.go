package efs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/efs/create"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

func TestWrongUsageIsRefusedBeforeAWSIsAsked(t *testing.T) {
	const place = " --infra-id dev-x7k2p --account 123456789012 --region us-east-1"
	for line, want := range map[string]string{
		"cleanup --wait" + place:                                  "--wait needs --yes: without --yes, nothing is deleted",
		"cleanup --requests-per-minute 0" + place:                 "--requests-per-minute 0: must be at least 1",
		"create --poll 0s" + place:                                "--timeout, --poll and --max-backoff must be more than 0",
		"cleanup --account 123456789012 --region us-east-1":       "the infrastructure ID is empty",
		"create --wait" + place:                                   "--wait is for --delete; create always waits",
		"create --delete --subnets subnet-1" + place:              "--delete finds the share by its name",
		"create --storage-class a.yaml --manifest a.yaml" + place: "--storage-class and --manifest name the same file",
		"create --name A/B" + place:                               "name",
	} {
		var out bytes.Buffer
		p := plugin.New(genericiooptions.IOStreams{Out: &out, ErrOut: &out})
		root := p.Root("oc storage", "1", Command(p))
		root.SetArgs(append([]string{"efs"}, strings.Fields(line)...))
		err := root.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || plugin.Code(err) != plugin.WrongUsage || out.Len() > 0 {
			t.Errorf("%s: %v with code %d, want %q; it prints %q", line, err, plugin.Code(err), want, out.String())
		}
	}
}

func TestAnInterruptionOrALimitIsNoFailure(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int
	}{
		{errors.New("AWS is away"), plugin.Failed},
		{fmt.Errorf("create the share: %w", &create.WaitError{Patience: time.Minute, What: "it is available"}), plugin.Unfinished},
		{fmt.Errorf("interrupted while waiting for AWS; run the cleanup again: %w", context.Canceled), plugin.Unfinished},
	} {
		if got := plugin.Code(exit(tc.err)); got != tc.code {
			t.Errorf("%v: exit code %d, want %d", tc.err, got, tc.code)
		}
	}
}

func TestAStepSaysWhatHasBecomeOfAnObject(t *testing.T) {
	for _, tc := range []struct {
		state  efscleanup.State
		reason string
		want   plugin.Step
	}{
		{efscleanup.Deleted, "", plugin.Step{Done: 1, Total: 2, What: "access point fsap-1", State: "deleted"}},
		{efscleanup.Failed, "denied", plugin.Step{Done: 1, Total: 2, What: "access point fsap-1", State: "failed: denied", Problem: true}},
		{efscleanup.Refused, "not ours", plugin.Step{Done: 1, Total: 2, What: "access point fsap-1", State: "refused: not ours", Problem: true}},
	} {
		object := efscleanup.Object{Kind: efscleanup.AccessPoint, ID: "fsap-1", State: tc.state, Reason: tc.reason}
		if diff := cmp.Diff(tc.want, stepOf(efscleanup.Step{Object: object, Done: 1, Total: 2})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestAShareIsASentence(t *testing.T) {
	share := create.Share{FileSystem: "fs-1", VPC: "vpc-1", SecurityGroup: "sg-1", MountTargets: []string{"fsmt-1"}}
	want := "File system fs-1, regional, is ready in vpc-1, with 1 mount targets and security group sg-1."
	if got := sentence(share); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	plugintest.FollowsSchema(t, "efs create", asJSON(t, share))
	share.Zone = "us-east-1a"
	if got := sentence(share); !strings.Contains(got, "fs-1, in zone us-east-1a, is ready") {
		t.Error(got)
	}
}

func asJSON(t *testing.T, result any) string {
	t.Helper()
	var out bytes.Buffer
	p := plugin.New(genericiooptions.IOStreams{Out: &out, ErrOut: &out})
	p.Output = plugin.JSON
	if err := p.Print(result, nil); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTheReportOfACleanupFollowsItsSchema(t *testing.T) {
	object := efscleanup.Object{Kind: efscleanup.AccessPoint, ID: "fsap-1", State: efscleanup.Failed, Reason: "denied"}
	plugintest.FollowsSchema(t, "efs cleanup", asJSON(t, efscleanup.Report{InfraID: "dev-x7k2p", Objects: []efscleanup.Object{object}}))
}
