package efshealth

import (
	"context"
	"fmt"
	"maps"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

// mostPointRequests is the maximum number of requests for access points of SharedVolumes within listMaxAge. Many unknown IDs must not flood AWS with
// requests.
const mostPointRequests = 20

// lookups has the answers that AWS gave to SharedVolumes since the last poll. The answers are about access points, and about missing file systems.
type lookups struct {
	answers map[share]answered
	// window is the time at which the present counting period began. spent is the number of requests in that period.
	window time.Time
	spent  int
	// failed is the time at which AWS last did not answer, or last refused the credentials.
	failed time.Time
}

// share is an access point of a file system, or a whole file system.
type share struct{ fileSystem, accessPoint string }

// answered says whether AWS has a share. It also has the times of the first and the last request.
type answered struct {
	exists      bool
	first, last time.Time
}

// isOld reports whether a negative answer is still valid because the share is old. A share is old if it has been missing for longer than AWS takes to
// list a new share. A negative answer about an old share is valid for shortInterval, and any other negative answer only for listMaxAge.
func (a answered) isOld(now time.Time) bool {
	return now.Sub(a.first) > time.Minute && now.Sub(a.last) < shortInterval
}

// lacks reports whether AWS lacks an access point that the last poll did not see. It asks AWS if necessary. If AWS does not answer, lacks uses the
// previous answer. Without a previous answer, it returns false.
func (l *lookups) lacks(ctx context.Context, cloud Cloud, one share, now time.Time) bool {
	before, known := l.answers[one]
	switch {
	case known && (before.exists || now.Sub(before.last) < listMaxAge || before.isOld(now)):
		return !before.exists
	case now.Sub(l.failed) < shortInterval || !l.allow(now):
		return known && !before.exists
	}
	exists, err := ask(ctx, cloud, one)
	if err != nil {
		l.failed = now
		ctrl.LoggerFrom(ctx).Info("could not check the access point of a SharedVolume", "accessPoint", one.accessPoint, "reason", err.Error())
		return known && !before.exists
	}
	l.store(one, exists, now)
	return !exists
}

// ask asks AWS whether a file system has an access point, and returns the answer.
func ask(ctx context.Context, cloud Cloud, one share) (bool, error) {
	// The request does not end with the caller's context, because other callers use its answer, too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	point, err := cloud.AccessPoint(ctx, one.accessPoint)
	switch {
	case aws.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("check an access point: %w", err)
	default:
		return point.FileSystem == one.fileSystem && point.State != aws.StateDeleting && point.State != aws.StateDeleted, nil
	}
}

// store stores an answer. Once the number of stored shares has reached a limit, store ignores answers about other shares.
func (l *lookups) store(one share, exists bool, now time.Time) {
	if l.answers == nil {
		l.answers = map[share]answered{}
	}
	before, known := l.answers[one]
	if !known {
		before.first = now
	}
	if known || len(l.answers) < mostAbsent {
		l.answers[one] = answered{exists, before.first, now}
	}
}

// dropNegative drops negative answers and failures, because new credentials may change them.
func (l *lookups) dropNegative() {
	maps.DeleteFunc(l.answers, func(_ share, answer answered) bool { return !answer.exists })
	l.failed = time.Time{}
}

// allow counts a request, and reports whether the number of requests is still within the limit.
func (l *lookups) allow(now time.Time) bool {
	if now.Sub(l.window) >= listMaxAge {
		l.window, l.spent = now, 0
	}
	l.spent++
	return l.spent <= mostPointRequests
}

// hasAbsent reports whether a SharedVolume got the answer that its access point is missing in this file system.
func (l *lookups) hasAbsent(fileSystem string) bool {
	for one, answer := range l.answers {
		if one.fileSystem == fileSystem && one.accessPoint != "" && !answer.exists {
			return true
		}
	}
	return false
}
