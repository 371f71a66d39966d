// Package efscleanup deletes what a cluster owns in Amazon EFS: access points, file systems and the security groups that "efs create" has made for
// them. It is what an installer calls before it deletes the cluster's network, which AWS refuses while a file system is mounted there. It looks only
// at tags, and needs no cluster. Other modules may import it; no operator does (docs/decisions/0016).
//
// cleanup.go lists, visits what is unfinished until nothing is, and lists again: what AWS lists in the end counts. owner.go decides, pure, whose each
// object is, and what is refused is never visited. visit.go takes objects in the order in which AWS lets them go. It reads each once more immediately
// before its deletion: a list is never reason enough.
package efscleanup

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

// What Options mean if they say nothing. AWS takes a minute or two to delete a mount target.
const (
	DefaultPatience = 15 * time.Minute
	DefaultPoll     = 5 * time.Second
)

// Options say whose objects to delete, and where.
type Options struct {
	// InfraID is the whole ID of the cluster's infrastructure: .status.infrastructureName of the Infrastructure.
	InfraID string
	// Account is the number of the AWS account, Region the region. Both must be given, and credentials of another account are
	// refused, so that no forgotten setting decides where something is deleted.
	Account, Region string
	// OwnerTag also takes what has the tag "owner" with InfraID as its value.
	OwnerTag bool
	// Share limits all this to what "efs create" has made under this name; empty for no limit.
	Share string
	// Yes deletes. Without it, Run only reads, and the report says what would be deleted.
	Yes bool
	// Wait waits until all is gone. Without it, Run does what AWS accepts now, and is to be called again for the rest.
	Wait bool
	// Patience is how long to wait, 0 for DefaultPatience; Poll, how long between two looks, 0 for DefaultPoll.
	Patience, Poll time.Duration
	// Progress gets each object whose state has changed; nil for nobody.
	Progress func(Step)

	// AWS has the credentials and the HTTP client of a program that uses the SDK itself; nil for the SDK's default chain.
	AWS *sdk.Config
	// RequestsPerMinute, MaxBackoff and RequestTimeout are those of the AWS client; 0 for 600, 20 s and 30 s.
	RequestsPerMinute          int
	MaxBackoff, RequestTimeout time.Duration
}

// Step is how far the work is: Done of Total objects are deleted, refused or failed, and Object is the latest change.
type Step struct {
	Object      Object
	Done, Total int
}

// UsageError says which option is wrong. Nothing was deleted.
type UsageError struct{ Problem string }

func (e *UsageError) Error() string { return e.Problem }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// The shortest infrastructure ID is a name of one letter, a dash and five random ones; the longest that a tag's key takes is more
// than anybody has. Neither slash nor wildcard may be in it: one would be another key, the other many.
const minInfraID, maxInfraID = 7, 63

// CheckInfraID returns an error if this can't be the whole ID of a cluster's infrastructure.
func CheckInfraID(id string) error {
	switch {
	case id == "":
		return usage("the infrastructure ID is empty: give the whole ID, as in \"oc get infrastructure cluster -o jsonpath={.status.infrastructureName}\"")
	case !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`).MatchString(id):
		return usage("infrastructure ID %q: use only lower case letters, digits and dashes, with a letter or digit at both ends", id)
	case len(id) < minInfraID:
		return usage("infrastructure ID %q is too short: give the whole ID, such as %s-x7k2p; the name of the cluster is not enough", id, id)
	case len(id) > maxInfraID:
		return usage("infrastructure ID %q is too long: it has at most %d characters", id, maxInfraID)
	}
	return nil
}

// CheckPlace returns an error if these can't be an account and a region.
func CheckPlace(account, region string) error {
	switch {
	case account == "":
		return usage("the AWS account is missing: give the account that the cluster is in")
	case !regexp.MustCompile(`^[0-9]{12}$`).MatchString(account):
		return usage("AWS account %q: an account has 12 digits", account)
	case region == "":
		return usage("the AWS region is missing: give the region that the cluster is in")
	case !regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`).MatchString(region):
		return usage("AWS region %q: a region looks like us-east-1", region)
	}
	return nil
}

func (o *Options) complete() error {
	if err := CheckInfraID(o.InfraID); err != nil {
		return err
	}
	if err := CheckPlace(o.Account, o.Region); err != nil {
		return err
	}
	o.Poll, o.Patience = cmp.Or(o.Poll, DefaultPoll), cmp.Or(o.Patience, DefaultPatience)
	if o.Progress == nil {
		o.Progress = func(Step) {}
	}
	return nil
}

// CheckAccount returns an error if the credentials are not those of the account.
func CheckAccount(ctx context.Context, cloud aws.Identifier, account string) error {
	who, err := cloud.Identity(ctx)
	if err != nil {
		return fmt.Errorf("look up the account of the credentials: %w", err)
	}
	if who.Account != account {
		return usage("the credentials (%s) belong to AWS account %s, not to %s: nothing was changed", who.ARN, who.Account, account)
	}
	return nil
}
