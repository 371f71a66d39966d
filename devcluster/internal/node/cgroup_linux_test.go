package node

import (
	"fmt"
	"os"
	"testing"
)

func TestCgroupsAreOfAProcessThatLives(t *testing.T) {
	own := CgroupName()
	if !alive(own) {
		t.Errorf("%s: this process lives", own)
	}
	// A process of the same number, which was started at another time.
	for _, other := range []string{own + "1", fmt.Sprintf("%s%d", cgroupPrefix, os.Getpid()), cgroupPrefix + "x-1", cgroupPrefix} {
		if alive(other) {
			t.Errorf("%s: there is no such process", other)
		}
	}
}

func TestHierarchiesAreMountedAgainAsTheyAre(t *testing.T) {
	for super, want := range map[string]string{
		"rw,cpu,cpuacct": "cpu,cpuacct",
		"rw,xattr,release_agent=/lib/systemd/agent,name=systemd": "none,name=systemd",
	} {
		if got := v1Options(super); got != want {
			t.Errorf("%s: got %s, want %s", super, got, want)
		}
	}
}
