package efshealth

import (
	"context"
	"fmt"
	"maps"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

// mostPointRequests is how many access points SharedVolumes may ask for within the time of fresh: it bounds what many unknown IDs cost.
const mostPointRequests = 20

// looked is what SharedVolumes have asked for since the last poll: access points, and file systems that AWS did not know.
type looked struct {
	answers map[share]answered
	// window is when the present period of counting began, spent how many requests it has had.
	window time.Time
	spent  int
	// failed is when AWS did not answer, or did not let the credentials ask.
	failed time.Time
}

// share is an access point of a file system, or that alone.
type share struct{ fileSystem, accessPoint string }

// answered is whether AWS has a share, and when it was asked first and last.
type answered struct {
	exists      bool
	first, last time.Time
}

// isOld reports whether AWS has not known a share for so long that a SharedVolume that waits for it has waited, and it need not be asked for soon.
func (a answered) isOld(now time.Time) bool {
	return now.Sub(a.first) > time.Minute && now.Sub(a.last) < atMost
}

// lacks reports whether AWS is known to lack an access point that the last poll has not seen. It asks AWS for that one if need be. What nobody
// knows, or may ask, is not lacking.
func (l *looked) lacks(ctx context.Context, cloud Cloud, one share, now time.Time) bool {
	before, known := l.answers[one]
	switch {
	case known && (before.exists || now.Sub(before.last) < fresh || before.isOld(now)):
		return !before.exists
	case now.Sub(l.failed) < atMost || !l.may(now):
		return known && !before.exists
	}
	exists, err := ask(ctx, cloud, one)
	if err != nil {
		l.failed = now
		ctrl.LoggerFrom(ctx).Info("could not check the access point of a SharedVolume", "accessPoint", one.accessPoint, "reason", err.Error())
		return known && !before.exists
	}
	l.remember(one, exists, now)
	return !exists
}

// ask asks AWS whether a file system has an access point.
func ask(ctx context.Context, cloud Cloud, one share) (bool, error) {
	// Who waits may leave, the answer is for all.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
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

// remember keeps an answer, if there are not too many.
func (l *looked) remember(one share, exists bool, now time.Time) {
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

// renew drops what other credentials may see otherwise: what is there is there.
func (l *looked) renew() {
	maps.DeleteFunc(l.answers, func(_ share, answer answered) bool { return !answer.exists })
	l.failed = time.Time{}
}

// may counts a request, and reports whether it may be sent.
func (l *looked) may(now time.Time) bool {
	if now.Sub(l.window) >= fresh {
		l.window, l.spent = now, 0
	}
	l.spent++
	return l.spent <= mostPointRequests
}

// absent reports whether a SharedVolume was told that a file system lacks its access point.
func (l *looked) absent(fileSystem string) bool {
	for one, answer := range l.answers {
		if one.fileSystem == fileSystem && one.accessPoint != "" && !answer.exists {
			return true
		}
	}
	return false
}
