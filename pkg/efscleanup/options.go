// Package efscleanup deletes a cluster's objects in Amazon EFS: access points, file systems, and the security groups that "efs create" created for
// them. An installer calls the package before it deletes the cluster's network, because AWS refuses to delete a network with a mount target. The
// package identifies objects by their tags, and needs no cluster. Other modules may import it; no operator does (docs/decisions/0016).
//
// cleanup.go lists objects, visits unfinished objects until there are none, and lists again. The final list decides which objects are left. owner.go
// has pure functions that decide about ownership; refused objects are never visited. visit.go deletes objects in the order that AWS requires. It
// reads each object again right before its deletion, because a list may be stale.
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

// The defaults of Options. AWS takes one or two minutes to delete a mount target.
const (
	DefaultPatience = 15 * time.Minute
	DefaultPoll     = 5 * time.Second
)

// Options select the objects to delete.
type Options struct {
	// InfraID is the cluster's infrastructure ID, which is .status.infrastructureName of the Infrastructure.
	InfraID string
	// Account is the number of the AWS account, and Region is the region. Both are required. Run rejects credentials of another account, because a
	// stray configuration file must not decide where Run deletes objects.
	Account, Region string
	// OwnerTag is true if Run also selects objects that have tag "owner" with InfraID as the value.
	OwnerTag bool
	// Share limits the selection to objects that "efs create" created under this name. If Share is empty, there is no such limit.
	Share string
	// Yes makes Run delete. If Yes is false, Run only reads, and reports what it would delete.
	Yes bool
	// Wait makes Run wait until all objects are deleted. If Wait is false, Run deletes the objects that AWS can delete now. The caller must call Run
	// again to delete the remaining objects.
	Wait bool
	// Patience limits how long Run waits until objects are deleted; 0 means DefaultPatience. Poll is the time between two checks of these objects; 0
	// means DefaultPoll.
	Patience, Poll time.Duration
	// Progress, if set, is called after each change of an object's state.
	Progress func(Step)

	// AWS is the SDK configuration of the calling program. If it is nil, the SDK looks for credentials in its default places.
	AWS *sdk.Config
	// RequestsPerMinute, MaxBackoff and RequestTimeout configure the AWS client. 0 means the default: 600 requests, 20 s and 30 s.
	RequestsPerMinute          int
	MaxBackoff, RequestTimeout time.Duration
}

// Step is the progress of a run. Done counts the objects that are deleted, refused or failed, and Total counts all objects. Object is the object
// that has just changed.
type Step struct {
	Object      Object
	Done, Total int
}

// UsageError is the error for an invalid option. If Run returns it, Run has deleted nothing.
type UsageError struct{ Problem string }

func (e *UsageError) Error() string { return e.Problem }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// These constants limit the length of an infrastructure ID. The shortest ID is a letter, a dash and five random letters. The longest ID still fits
// into the key of a tag, and the IDs that installers make are shorter. An ID with a wildcard or a slash is invalid.
const minInfraID, maxInfraID = 7, 63

// CheckInfraID returns an error if the text can't be a complete infrastructure ID.
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

// CheckPlace returns an error if the account or the region is invalid.
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

// CheckAccount returns an error if the credentials belong to another account.
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
