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

// looked are the access points that SharedVolumes have asked for since the last poll, and what that has cost.
type looked struct {
	points map[share]pointAnswer
	// window is when the present period of counting began, spent how many requests it has had.
	window time.Time
	spent  int
	// failed is when AWS did not answer, or did not let the credentials ask.
	failed time.Time
}

// share is an access point of a file system.
type share struct{ fileSystem, accessPoint string }

// pointAnswer is whether AWS has an access point, and when it was asked first and last.
type pointAnswer struct {
	exists bool
	absence
}

// lacks reports whether AWS is known to lack an access point that the last poll has not seen. It asks AWS for that one if need be. What nobody
// knows, or may ask, is not lacking.
func (l *looked) lacks(ctx context.Context, cloud Cloud, one share, now time.Time) bool {
	before, known := l.points[one]
	age := now.Sub(before.last)
	switch {
	case known && (before.exists || age < fresh || now.Sub(before.first) > time.Minute && age < atMost):
		return !before.exists
	case now.Sub(l.failed) < atMost || !l.may(now):
		return known && !before.exists
	}
	exists, err := ask(ctx, cloud, one)
	if err != nil {
		l.failed = now
		ctrl.LoggerFrom(ctx).Info("a share is used without what AWS knows of its access point", "accessPoint", one.accessPoint, "reason", err.Error())
		return known && !before.exists
	}
	if !known {
		before.first = now
	}
	l.remember(one, pointAnswer{exists, absence{before.first, now}})
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
		return false, fmt.Errorf("look for a share: %w", err)
	default:
		return point.FileSystem == one.fileSystem && point.State != aws.StateDeleting && point.State != aws.StateDeleted, nil
	}
}

// remember keeps an answer, if there are not too many.
func (l *looked) remember(one share, answer pointAnswer) {
	if l.points == nil {
		l.points = map[share]pointAnswer{}
	}
	if _, known := l.points[one]; known || len(l.points) < mostAbsent {
		l.points[one] = answer
	}
}

// renew drops what other credentials may see otherwise: what is there is there.
func (l *looked) renew() {
	maps.DeleteFunc(l.points, func(_ share, answer pointAnswer) bool { return !answer.exists })
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
	for one, answer := range l.points {
		if one.fileSystem == fileSystem && !answer.exists {
			return true
		}
	}
	return false
}
