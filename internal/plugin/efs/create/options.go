// Package create makes a share to test with: an encrypted file system with a security group and mount targets in a
// cluster's network, tagged so that package efscleanup finds it.
package create

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

// Options say what to create, and where.
type Options struct {
	// InfraID, Account and Region are as in efscleanup.Options.
	InfraID, Account, Region string
	// Name tells the shares of one cluster apart.
	Name string
	// Zone makes it a One Zone file system; empty for a regional one.
	Zone string
	// VPC is where the mount targets will be; empty for the one with the cluster's tag.
	VPC string
	// Subnets are those of the mount targets; empty for those with the cluster's tag, one for each zone.
	Subnets []string
	// Patience is how long to wait for AWS, 0 for efscleanup.DefaultPatience; Poll, how long between two looks, 0 for
	// efscleanup.DefaultPoll.
	Patience, Poll time.Duration
	// Progress gets a sentence for each step; nil for nobody.
	Progress func(string)

	// AWS, RequestsPerMinute, MaxBackoff and RequestTimeout are as in efscleanup.Options.
	AWS                        *sdk.Config
	RequestsPerMinute          int
	MaxBackoff, RequestTimeout time.Duration
}

// Share is what there is in the end.
type Share struct {
	Name          string   `json:"name"`
	FileSystem    string   `json:"fileSystem"`
	Zone          string   `json:"zone,omitempty"`
	VPC           string   `json:"vpc"`
	SecurityGroup string   `json:"securityGroup"`
	MountTargets  []string `json:"mountTargets"`
}

func usage(format string, args ...any) error {
	return &efscleanup.UsageError{Problem: fmt.Sprintf(format, args...)}
}

// CheckName returns an error if a share can't have this name: it becomes a part of a StorageClass's name and of AWS tokens.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?$`).MatchString(name) {
		return usage("name %q: it has at most 30 lower case letters, digits and dashes, and no dash at its ends", name)
	}
	return nil
}

func (o *Options) complete() error {
	if err := efscleanup.CheckInfraID(o.InfraID); err != nil {
		return err
	}
	// 64 characters is what EFS allows in a creation token.
	if len(o.token()) > 64 {
		return usage("infrastructure ID %q and name %q are too long together: at most 63 characters", o.InfraID, o.Name)
	}
	if err := efscleanup.CheckPlace(o.Account, o.Region); err != nil {
		return err
	}
	if err := CheckName(o.Name); err != nil {
		return err
	}
	if o.Zone != "" && !regexp.MustCompile("^"+regexp.QuoteMeta(o.Region)+"[a-z]$").MatchString(o.Zone) {
		return usage("zone %q: a zone of this region looks like %sa", o.Zone, o.Region)
	}
	if o.VPC != "" && !regexp.MustCompile(`^vpc-[0-9a-f]{8,17}$`).MatchString(o.VPC) {
		return usage("VPC %q: it looks like vpc-0123456789abcdef0", o.VPC)
	}
	for _, subnet := range o.Subnets {
		if !regexp.MustCompile(`^subnet-[0-9a-f]{8,17}$`).MatchString(subnet) {
			return usage("subnet %q: it looks like subnet-0123456789abcdef0", subnet)
		}
	}
	o.Poll, o.Patience = cmp.Or(o.Poll, efscleanup.DefaultPoll), cmp.Or(o.Patience, efscleanup.DefaultPatience)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return nil
}

// token makes AWS recognize a file system that exists already. No ID and no name has a slash, so two shares never have the
// same.
func (o *Options) token() string { return o.InfraID + "/" + o.Name }

// groupName makes EC2 recognize a security group that exists already. It must not begin with sg-, as an ID could.
func (o *Options) groupName() string { return "efs/" + o.token() }

func (o *Options) tags() aws.Tags {
	return aws.Tags{
		"Name":                           strings.ReplaceAll(o.groupName(), "/", "-"),
		efscleanup.ClusterTag(o.InfraID): "owned",
		efscleanup.MarkerTag:             o.Name,
	}
}

// made is true for tags of what an earlier run has made.
func (o *Options) made(tags aws.Tags) bool {
	return tags[efscleanup.ClusterTag(o.InfraID)] == "owned" && tags[efscleanup.MarkerTag] == o.Name
}
