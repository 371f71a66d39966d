// Package create creates a share for tests. A share is an encrypted file system with a security group and mount targets in a cluster's network. The
// objects have tags, by which package efscleanup finds and deletes them.
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
	// InfraID, Account and Region mean the same as in efscleanup.Options.
	InfraID, Account, Region string
	// Name is the share's name, which is unique in one cluster.
	Name string
	// Zone is the zone of a One Zone file system. It is empty for a regional file system.
	Zone string
	// VPC is the ID of the VPC in which Run creates the mount targets. If VPC is empty, Run chooses the VPC of Subnets or, without Subnets, the VPC with
	// the cluster's tag.
	VPC string
	// Subnets are the IDs of the subnets in which Run creates the mount targets. If Subnets is empty, Run chooses one subnet with the cluster's tag in
	// each zone.
	Subnets []string
	// Patience limits the wait for AWS; 0 means efscleanup.DefaultPatience. Poll is the time between two requests; 0 means efscleanup.DefaultPoll.
	Patience, Poll time.Duration
	// Progress, if set, is a function that Run calls with a sentence after each step.
	Progress func(string)

	// AWS, RequestsPerMinute, MaxBackoff and RequestTimeout mean the same as in efscleanup.Options.
	AWS                        *sdk.Config
	RequestsPerMinute          int
	MaxBackoff, RequestTimeout time.Duration
}

// Share describes the created share.
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

// CheckName returns an error if a share can't have this name. The name becomes a part of a StorageClass's name and of AWS tokens.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?$`).MatchString(name) {
		return usage("name %q: must have at most 30 lower-case letters, digits and dashes, without a dash at either end", name)
	}
	return nil
}

func (o *Options) complete() error {
	if err := efscleanup.CheckInfraID(o.InfraID); err != nil {
		return err
	}
	// EFS allows 64 characters in a creation token.
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
		return usage("zone %q: must look like %sa in this region", o.Zone, o.Region)
	}
	if o.VPC != "" && !regexp.MustCompile(`^vpc-[0-9a-f]{8,17}$`).MatchString(o.VPC) {
		return usage("VPC %q: must look like vpc-0123456789abcdef0", o.VPC)
	}
	for _, subnet := range o.Subnets {
		if !regexp.MustCompile(`^subnet-[0-9a-f]{8,17}$`).MatchString(subnet) {
			return usage("subnet %q: must look like subnet-0123456789abcdef0", subnet)
		}
	}
	o.Poll, o.Patience = cmp.Or(o.Poll, efscleanup.DefaultPoll), cmp.Or(o.Patience, efscleanup.DefaultPatience)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return nil
}

func (o *Options) token() string { return efscleanup.CreationToken(o.InfraID, o.Name) }

func (o *Options) groupName() string { return efscleanup.GroupName(o.InfraID, o.Name) }

func (o *Options) tags() aws.Tags {
	return aws.Tags{
		"Name":                           strings.ReplaceAll(o.groupName(), "/", "-"),
		efscleanup.ClusterTag(o.InfraID): "owned",
		efscleanup.MarkerTag:             o.Name,
	}
}

// made reports whether an object with these tags belongs to this share.
func (o *Options) made(tags aws.Tags) bool {
	return tags[efscleanup.ClusterTag(o.InfraID)] == "owned" && tags[efscleanup.MarkerTag] == o.Name
}
