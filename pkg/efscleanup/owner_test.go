package efscleanup

import (
	"errors"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

func TestOnlyTheWholeKeyWithTheValueOwnedCounts(t *testing.T) {
	const key = "kubernetes.io/cluster/dev-x7k2p"
	for name, test := range map[string]struct {
		tags    aws.Tags
		byOwner bool
		owned   bool
		problem string
	}{
		"owned":                        {aws.Tags{key: "owned"}, false, true, ""},
		"owned, with the user's tags":  {aws.Tags{key: "owned", "team": "dev-x7k2p-2"}, false, true, ""},
		"shared":                       {aws.Tags{key: "shared"}, false, false, "does not have the tag"},
		"Owned":                        {aws.Tags{key: "Owned"}, false, false, "does not have the tag"},
		"empty":                        {aws.Tags{key: ""}, false, false, "does not have the tag"},
		"no tags":                      {nil, true, false, "does not have the tag"},
		"a longer key":                 {aws.Tags{key + "-2": "owned"}, false, false, "of another cluster"},
		"a shorter key":                {aws.Tags{"kubernetes.io/cluster/dev-x7k2": "owned"}, false, false, "of another cluster"},
		"upper case":                   {aws.Tags{"Kubernetes.io/cluster/dev-x7k2p": "owned"}, false, false, "does not have the tag"},
		"the ID as a value":            {aws.Tags{"kubernetes.io/cluster": "dev-x7k2p"}, true, false, "does not have the tag"},
		"owned by two":                 {aws.Tags{key: "owned", "kubernetes.io/cluster/b": "shared"}, false, true, "kubernetes.io/cluster/b=shared"},
		"owner, not asked for":         {aws.Tags{"owner": "dev-x7k2p"}, false, false, "does not have the tag"},
		"owner":                        {aws.Tags{"owner": "dev-x7k2p"}, true, true, ""},
		"owner with a part of the ID":  {aws.Tags{"owner": "dev-x7k2"}, true, false, "does not have the tag"},
		"owner, but shared":            {aws.Tags{"owner": "dev-x7k2p", key: "shared"}, true, false, "does not have the tag"},
		"owner, but another cluster's": {aws.Tags{"owner": "dev-x7k2p", "kubernetes.io/cluster/b": "owned"}, true, true, "of another cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			o := owner{"dev-x7k2p", test.byOwner}
			if o.owns(test.tags) != test.owned {
				t.Errorf("owned: %t", !test.owned)
			}
			if got := o.problem(test.tags); (test.problem == "") != (got == "") || !strings.Contains(got, test.problem) {
				t.Errorf("the problem is %q, want %q", got, test.problem)
			}
		})
	}
}

// The outcome is an exit code that CI acts upon; what the next run can change comes before what somebody has to look at.
func TestTheOutcomeIsWhatMattersMost(t *testing.T) {
	for want, states := range map[Outcome][]State{
		Clean: {Deleted, Deleted}, HasFailed: {Deleted, Refused, Planned, Failed}, LeftAlone: {Deleted, Refused}, StillThere: {Refused, Deleting},
	} {
		report := Report{}
		for _, state := range states {
			report.Objects = append(report.Objects, Object{State: state})
		}
		if got := report.Outcome(); got != want {
			t.Errorf("%v: %d, want %d", states, got, want)
		}
	}
	if got := (Report{}).Outcome(); got != Clean {
		t.Errorf("nothing at all: %d", got)
	}
}

func TestAnswersFromAnotherRegionOrAccountAreNoticed(t *testing.T) {
	const arn = "arn:aws-us-gov:elasticfilesystem:us-gov-west-1:123456789012:file-system/fs-1"
	if problem := outside(arn, "123456789012", "us-gov-west-1"); problem != "" {
		t.Error(problem)
	}
	if outside(arn, "123456789012", "us-gov-east-1") == "" || outside(arn, "123456789013", "us-gov-west-1") == "" {
		t.Error("another region or account is accepted")
	}
	for _, arn := range []string{
		"", "fs-1", "arn:aws-us-gov:elasticfilesystem:us-gov-west-1:123456789012", "arn:aws-us-gov:elasticfilesystem:us-gov-west-1:123456789012:",
		"urn:aws-us-gov:elasticfilesystem:us-gov-west-1:123456789012:file-system/fs-1",
	} {
		if outside(arn, "123456789012", "us-gov-west-1") == "" {
			t.Errorf("the ARN %q is accepted", arn)
		}
	}
}

// The endpoint of EC2 can be another one than that of EFS. An error of usage says that nothing was deleted.
func TestASecurityGroupOfAnotherPlaceIsNoticedBeforeTheFirstDeletion(t *testing.T) {
	c := &cleanup{Options: Options{InfraID: "dev-x7k2p", Account: "123456789012", Region: "us-east-1"}}
	for name, one := range map[string]struct {
		group    aws.SecurityGroup
		accepted bool
	}{
		"the account":     {aws.SecurityGroup{Account: "123456789012"}, true},
		"another account": {aws.SecurityGroup{Account: "123456789013"}, false},
		"no account":      {aws.SecurityGroup{}, false},
		"the region":      {aws.SecurityGroup{Account: "123456789012", ARN: "arn:aws:ec2:us-east-1:123456789012:security-group/sg-1"}, true},
		"another region":  {aws.SecurityGroup{Account: "123456789012", ARN: "arn:aws:ec2:us-east-2:123456789012:security-group/sg-1"}, false},
	} {
		one.group.ID = "sg-1"
		for _, c.hasBegun = range []bool{false, true} {
			err := c.checkPlace(nil, nil, []aws.SecurityGroup{one.group})
			if (err == nil) != one.accepted {
				t.Errorf("%s: %v", name, err)
			}
			if wrong := new(UsageError); errors.As(err, &wrong) && c.hasBegun {
				t.Errorf("%s: the error says that nothing was deleted: %v", name, err)
			}
		}
	}
}

func TestRegionsOfAllPartitionsAreRegions(t *testing.T) {
	for _, region := range []string{"us-east-1", "us-gov-west-1", "cn-northwest-1", "ap-southeast-5", "us-iso-east-1", "us-isob-east-1", "eusc-de-east-1"} {
		if err := CheckPlace("123456789012", region); err != nil {
			t.Error(err)
		}
	}
}
