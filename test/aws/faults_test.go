package aws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/pkg/efscleanup"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

// little makes a little of everything: one regional file system as "efs create" makes it, with two access points.
func (c *cloud) little() cluster {
	c.T.Helper()
	made := cluster{}
	made.vpc, made.subnets = c.VPC(of(infra))
	made.group = c.SecurityGroup(made.vpc, "efs/"+infra+"/ci", of(infra, efscleanup.MarkerTag, "ci"))
	made.regional = c.FileSystem(of(infra, efscleanup.MarkerTag, "ci"), "")
	made.points = []string{c.AccessPoint(made.regional, of(infra)), c.AccessPoint(made.regional, of(infra))}
	made.targets = []string{c.MountTarget(made.regional, made.subnets[0], made.group), c.MountTarget(made.regional, made.subnets[1], made.group)}
	return made
}

// theirs is what must stay whatever happens.
func (c *cloud) theirs() []string {
	c.T.Helper()
	fileSystem := c.FileSystem(of(other), "")
	return []string{fileSystem, c.AccessPoint(fileSystem, of(other))}
}

// endAt ends a run at a request, which has arrived at AWS by then or not.
func endAt(number int, arrives bool, end context.CancelFunc) func(fakeaws.Call) fakeaws.Fault {
	return func(call fakeaws.Call) fakeaws.Fault {
		if call.Number != number {
			return nil
		}
		return func(send func() *fakeaws.Answer) *fakeaws.Answer {
			if arrives {
				send()
			}
			end()
			return nil
		}
	}
}

// some are numbers from 1 to n: all of them, or as many as the share of a test is.
func some(t *testing.T, dice *rand.Rand, n int) []int {
	t.Helper()
	numbers := dice.Perm(n)
	numbers = numbers[:min(n, env.Rounds(t))]
	slices.Sort(numbers)
	for i := range numbers {
		numbers[i]++
	}
	return numbers
}

// denied refuses an action as AWS does to somebody who lacks a right.
func denied(action string) *fakeaws.Answer {
	status, code := http.StatusForbidden, "AccessDeniedException"
	if strings.HasPrefix(action, "ec2:") {
		code = "UnauthorizedOperation"
	}
	return fakeaws.Error(action, status, code, "User: arn:aws:sts::123456789012:assumed-role/ci is not authorized to perform: "+action)
}

// busy is how AWS says that there are too many requests.
func busy(action string) *fakeaws.Answer {
	if strings.HasPrefix(action, "ec2:") {
		return fakeaws.Error(action, http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded.")
	}
	return fakeaws.Error(action, http.StatusTooManyRequests, "ThrottlingException", "Rate exceeded")
}

// weather makes a share of all calls go wrong in one of the ways in which AWS and networks do.
func weather(dice *rand.Rand, share float64) func(fakeaws.Call) fakeaws.Fault {
	return func(call fakeaws.Call) fakeaws.Fault {
		if dice.Float64() >= share {
			return nil
		}
		kind := dice.IntN(6)
		return func(send func() *fakeaws.Answer) *fakeaws.Answer {
			switch kind {
			case 0:
				return busy(call.Action)
			case 1:
				return fakeaws.Error(call.Action, http.StatusInternalServerError, "InternalError", "An internal error has occurred")
			case 2: // It does not arrive.
				return nil
			case 3: // It is done, but the answer is lost.
				send()
				return nil
			case 4: // The same, in the middle of the answer.
				if answer := send(); answer != nil {
					answer.CutOff = true
					return answer
				}
				return nil
			}
			return fakeaws.Error(call.Action, http.StatusBadRequest, "Throttling", "Rate exceeded")
		}
	}
}

func TestACleanupThatIsEndedAtAnyRequestCanBeRunAgain(t *testing.T) {
	c, dice := newCloud(t), env.Dice(t)
	c.Slow = 2
	c.little()
	c.Set(nil)
	c.cleanup()
	for _, number := range some(t, dice, len(c.Calls())) {
		c.Reset(t)
		c.little()
		left, arrives := c.theirs(), dice.IntN(2) == 0
		ctx, end := context.WithCancel(t.Context())
		c.Set(endAt(number, arrives, end))
		if _, err := efscleanup.Run(ctx, options()); err == nil {
			t.Errorf("ended at request %d, it says that all is done", number)
		}
		c.Set(nil)
		want(t, c.cleanup(), efscleanup.Clean)
		c.WantLeft(left...)
		end()
		if t.Failed() {
			t.Fatalf("ended at request %d, which arrived: %t", number, arrives)
		}
	}
}

func TestBadWeatherOnlyDelaysACleanup(t *testing.T) {
	c, dice := newCloud(t), env.Dice(t)
	c.Slow = 1
	for range env.Rounds(t) / 2 {
		c.Reset(t)
		c.little()
		left := c.theirs()
		c.Set(weather(dice, 0.3))
		report := c.cleanup()
		want(t, report, efscleanup.Clean)
		if calls := len(c.Calls()); calls > 150 {
			t.Errorf("%d calls", calls)
		}
		c.Set(nil)
		c.WantLeft(left...)
		if t.Failed() {
			t.FailNow()
		}
	}
}

func TestRequestsThatHangAreSentAgain(t *testing.T) {
	c := newCloud(t)
	c.little()
	release, hung := make(chan struct{}), map[string]bool{}
	t.Cleanup(func() { close(release) })
	c.Set(func(call fakeaws.Call) fakeaws.Fault {
		if hung[call.Action] || (!call.Writes() && call.Action != "elasticfilesystem:DescribeFileSystems") {
			return nil
		}
		hung[call.Action] = true
		return func(func() *fakeaws.Answer) *fakeaws.Answer {
			<-release
			return nil
		}
	})
	report := c.cleanup(func(o *efscleanup.Options) { o.RequestTimeout = 2 * time.Second })
	want(t, report, efscleanup.Clean)
	c.WantLeft()
	if len(hung) != 5 {
		t.Errorf("these hung: %v", hung)
	}
}

func TestAMissingRightIsNamedAndCostsOneCall(t *testing.T) {
	c := newCloud(t)
	for _, action := range []string{
		"sts:GetCallerIdentity", "elasticfilesystem:DescribeFileSystems", "elasticfilesystem:DescribeAccessPoints",
		"elasticfilesystem:DescribeMountTargets", "ec2:DescribeSecurityGroups", "elasticfilesystem:DeleteAccessPoint",
		"elasticfilesystem:DeleteMountTarget", "elasticfilesystem:DeleteFileSystem", "ec2:DeleteSecurityGroup",
	} {
		t.Run(action, func(t *testing.T) {
			c := c.in(t)
			c.Reset(t)
			c.little()
			left := c.theirs()
			c.Set(func(call fakeaws.Call) fakeaws.Fault {
				if call.Action != action {
					return nil
				}
				return func(func() *fakeaws.Answer) *fakeaws.Answer { return denied(action) }
			})
			report, err := efscleanup.Run(t.Context(), options())
			switch {
			case err != nil:
				wantIn(t, err.Error(), action, "is not authorized")
				if report.Count(efscleanup.Deleted) > 0 {
					t.Errorf("it has deleted something: %+v", report)
				}
			default:
				want(t, report, efscleanup.HasFailed)
				if planned := report.Count(efscleanup.Planned); planned > 0 {
					t.Errorf("%d objects still look as if they would go: %+v", planned, report.Objects)
				}
				wantIn(t, fmt.Sprint(report.Objects), "the credentials lack permission "+action)
			}
			if got := c.Count(action); got != 1 {
				t.Errorf("%s was called %d times, want 1", action, got)
			}
			if calls := len(c.Calls()); calls > 40 {
				t.Errorf("%d calls", calls)
			}
			if strings.Contains(action, "AccessPoint") && c.Count("elasticfilesystem:DeleteMountTarget") > 0 {
				t.Error("mount targets went before access points")
			}
			c.Set(nil)
			want(t, c.cleanup(), efscleanup.Clean)
			c.WantLeft(left...)
		})
	}
}

func TestWhatIsInUseIsTriedAgain(t *testing.T) {
	c := newCloud(t)
	c.little()
	tries := map[string]int{}
	codes := map[string]string{
		"elasticfilesystem:DeleteFileSystem": "FileSystemInUse", "ec2:DeleteSecurityGroup": "DependencyViolation",
		"elasticfilesystem:DeleteMountTarget": "DependencyTimeout",
	}
	c.Set(func(call fakeaws.Call) fakeaws.Fault {
		tries[call.Action]++
		if codes[call.Action] == "" || tries[call.Action] > 3 {
			return nil
		}
		return func(func() *fakeaws.Answer) *fakeaws.Answer {
			return fakeaws.Error(call.Action, http.StatusConflict, codes[call.Action], "it is in use")
		}
	})
	report := c.cleanup()
	want(t, report, efscleanup.Clean)
	c.WantLeft()
}

func TestWhatIsInUseForLongIsReported(t *testing.T) {
	c := newCloud(t)
	mine := c.little()
	c.Set(func(call fakeaws.Call) fakeaws.Fault {
		if call.Action != "ec2:DeleteSecurityGroup" {
			return nil
		}
		return func(func() *fakeaws.Answer) *fakeaws.Answer {
			return fakeaws.Error(call.Action, http.StatusBadRequest, "DependencyViolation", "it is in use")
		}
	})
	// The first ones may be over before the file system has gone.
	env.Eventually(t, "only the security group is left", func() error {
		report := c.cleanup(func(o *efscleanup.Options) { o.Patience = 300 * time.Millisecond })
		want(t, report, efscleanup.StillThere)
		text := reason(report, mine.group)
		if !strings.Contains(text, "waiting: ec2:DeleteSecurityGroup of "+mine.group) || !strings.Contains(text, "DependencyViolation") {
			return errors.New(text)
		}
		return nil
	})
	c.WantLeft(mine.group)
}

func TestThrottlingThatDoesNotEndIsAFailure(t *testing.T) {
	c := newCloud(t)
	mine := c.little()
	c.Set(func(call fakeaws.Call) fakeaws.Fault {
		if call.Action != "elasticfilesystem:DeleteAccessPoint" {
			return nil
		}
		return func(func() *fakeaws.Answer) *fakeaws.Answer { return busy(call.Action) }
	})
	report := c.cleanup()
	want(t, report, efscleanup.HasFailed)
	wantIn(t, reason(report, mine.points[0]), "failed: elasticfilesystem:DeleteAccessPoint of "+mine.points[0], "ThrottlingException")
	wantIn(t, reason(report, mine.regional), "failed: 2 of its access points could not be deleted")
	// Each of the two is sent eight times.
	if got := c.Count("elasticfilesystem:DeleteAccessPoint"); got != 16 {
		t.Errorf("%d deletions, want 16", got)
	}
}

// AWS may list for a while what is gone.
func TestWhatIsStillListedAfterItsDeletionIsNoTrouble(t *testing.T) {
	c := newCloud(t)
	c.little()
	left := c.theirs()
	first, served := map[string]*fakeaws.Answer{}, map[string]int{}
	c.Set(func(call fakeaws.Call) fakeaws.Fault {
		if call.Writes() || call.Object != "" || strings.HasPrefix(call.Action, "sts:") {
			return nil
		}
		return func(send func() *fakeaws.Answer) *fakeaws.Answer {
			served[call.Action]++
			if first[call.Action] == nil {
				first[call.Action] = send()
			}
			if served[call.Action] <= 4 {
				return first[call.Action]
			}
			return send()
		}
	})
	report := c.cleanup()
	want(t, report, efscleanup.Clean)
	if deletions := c.Count("elasticfilesystem:DeleteAccessPoint"); deletions != 2 {
		t.Errorf("%d deletions of 2 access points", deletions)
	}
	if calls := len(c.Calls()); calls > 90 {
		t.Errorf("%d calls", calls)
	}
	c.Set(nil)
	c.WantLeft(left...)
}

// The report says what the last list says, and not what AWS has promised.
func TestADeletionThatHasNotHappenedIsRepeated(t *testing.T) {
	c := newCloud(t)
	left := c.theirs()
	point, promised := c.AccessPoint(left[0], of(infra)), false
	c.Set(func(call fakeaws.Call) fakeaws.Fault {
		if promised || call.Action != "elasticfilesystem:DeleteAccessPoint" {
			return nil
		}
		promised = true
		return func(func() *fakeaws.Answer) *fakeaws.Answer { return &fakeaws.Answer{Status: http.StatusNoContent} }
	})
	report := c.cleanup()
	want(t, report, efscleanup.Clean)
	wantIn(t, reason(report, point), "deleted")
	c.WantLeft(left...)
}

func TestWhatAppearsMeanwhileGoesAsWell(t *testing.T) {
	c := newCloud(t)
	c.little()
	c.Set(before("elasticfilesystem:DeleteFileSystem", "", func() { c.AccessPoint(c.FileSystem(of(infra), ""), of(infra)) }))
	want(t, c.cleanup(), efscleanup.Clean)
	c.WantLeft()
}
