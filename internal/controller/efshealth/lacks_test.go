package efshealth

import (
	"context"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

// listed is a cloud that only lists.
type listed struct {
	Cloud
	systems []aws.FileSystem
	points  []aws.AccessPoint
}

func (l listed) FileSystems(context.Context) ([]aws.FileSystem, error) { return l.systems, nil }

func (l listed) AccessPoints(context.Context, string) ([]aws.AccessPoint, error) {
	return l.points, nil
}

func (l listed) MountTargets(context.Context, string) ([]aws.MountTarget, error) { return nil, nil }

func TestWhatANewVolumeLacksIsLookedForOnceMoreSoon(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cloud := listed{systems: []aws.FileSystem{{ID: regional}}, points: []aws.AccessPoint{{ID: point, FileSystem: regional}}}
	for name, test := range map[string]struct {
		volume volume
		age    time.Duration
		soon   bool
	}{
		"new, and all is there":               {volume{fileSystem: regional, accessPoint: point}, time.Second, false},
		"new, without its file system":        {volume{fileSystem: absent}, time.Second, true},
		"new, without its access point":       {volume{fileSystem: regional, accessPoint: other}, time.Second, true},
		"not new, without its file system":    {volume{fileSystem: absent}, time.Hour, false},
		"not new, without its access point":   {volume{fileSystem: regional, accessPoint: other}, time.Hour, false},
		"new, of a file system with no point": {volume{fileSystem: regional}, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.volume.created = now.Add(-test.age)
			used := uses{volumes: []volume{test.volume}}
			seen, err := subject{cloud: cloud, used: used}.ask(t.Context(), now, denials{})
			if err != nil {
				t.Fatal(err)
			}
			wait := facts{}.merge(seen, denials{}, nil, now).next(used.fingerprint()).Sub(now)
			if got := wait == shortInterval; got != test.soon {
				t.Errorf("AWS is asked again in %s", wait)
			}
		})
	}
}
