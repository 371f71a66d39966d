package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/controller/efshealth/mounts"
	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
)

// The bench measures a node as it is: 100 mounts of a real kernel, all of whose tunnels and pods live.
func TestTheNodeOfTheReaderHas100GoodMounts(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	folder := t.TempDir()
	count, err := writeNode(folder, filepath.Join(root, recordedMounts), 10)
	env.Must(t, err)
	at := func(name string) mounts.Source {
		return mounts.Source{
			Proc: os.DirFS(filepath.Join(name, "proc")), States: os.DirFS(filepath.Join(name, "efs")), Cgroups: os.DirFS(filepath.Join(name, "cgroup")),
		}
	}
	reading, err := at(folder).Read(time.Now())
	env.Must(t, err)
	if count != 100 || len(reading.Mounts) != 100 || len(reading.Stats) < 100 || len(reading.Tunnels) != 100 || len(reading.States) != len(reading.Tunnels) {
		t.Errorf("%d mounts, %d statistics, %d tunnels, %d state files", len(reading.Mounts), len(reading.Stats), len(reading.Tunnels), len(reading.States))
	}
	for pod, presence := range reading.Pods {
		if presence != mounts.Present {
			t.Errorf("pod %s: %v", pod, presence)
		}
	}
}

func TestTheNumberOfProcessesOfANodeIsParsed(t *testing.T) {
	for text, want := range map[string]*report.ReaderSize{"1000": {Processes: 1000}, "0": nil, "-1": nil, "many": nil, "": nil} {
		got, err := parseReader(text)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil || text == "0") {
			t.Errorf("%q: error %v (-want +got):\n%s", text, err, diff)
		}
	}
}
