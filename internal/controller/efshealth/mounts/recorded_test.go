package mounts

import (
	"bufio"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// recorded reads what a kernel said about its mounts: see testdata/recorded/README.md. The tunnels and the files of efs-utils are those of good mounts.
func recorded(t *testing.T, state string) Reading {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "recorded", state+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text := bufio.NewReader(packed)
	first, err := text.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(first), 64)
	if err != nil {
		t.Fatal(err)
	}
	var info strings.Builder
	for line := ""; line != "\n"; info.WriteString(line) {
		if line, err = text.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	reading := Reading{
		Time: time.Unix(1764297600, 0).Add(time.Duration(seconds * float64(time.Second))), States: map[int]State{}, Tunnels: map[int]Process{},
	}
	if reading.Mounts, err = ParseMounts(strings.NewReader(info.String())); err != nil {
		t.Fatal(err)
	}
	if reading.Stats, err = ParseStats(text); err != nil {
		t.Fatal(err)
	}
	for _, mount := range reading.Mounts {
		reading.States[mount.Port], reading.Tunnels[mount.Port] = State{Port: mount.Port}, Process{PID: mount.Port}
	}
	return reading
}

// A real client of NFS 4.1 says enough to name the mounts that hang: one whose tunnel is silent, two whose tunnels are dead, of which one is idle, and one
// whose server has stopped.
func TestOnlyMountsThatHungAreNamedFromRecordings(t *testing.T) {
	bad := []string{"stalled idle", "stalled killed", "stalled silent", "stalled stopped", "tunnel_dead idle", "tunnel_dead killed"}
	var tracker Tracker
	for _, state := range []struct {
		name   string
		mounts int
		dead   []string
		want   []string
	}{
		{"good", 6, nil, nil},
		{"begin", 6, []string{"idle", "killed"}, nil},
		{"bad", 6, []string{"idle", "killed"}, bad},
		{"timeout", 6, []string{"idle", "killed"}, bad},
		{"recovered", 6, nil, nil},
		{"unmounted", 5, nil, nil},
		// Nothing knows yet for how long this tunnel is dead.
		{"hundred", 100, []string{"killed"}, []string{"stalled killed", "stalled silent"}},
	} {
		reading := recorded(t, state.name)
		for _, mount := range reading.Mounts {
			if slices.Contains(state.dead, strings.TrimPrefix(mount.Volume, "pvc-")) {
				delete(reading.Tunnels, mount.Port)
			}
			if _, found := reading.Stats[mount.Target]; !found {
				t.Errorf("%s: there are no statistics of %s", state.name, mount.Target)
			}
		}
		if len(reading.Mounts) != state.mounts {
			t.Errorf("%s: %d mounts, want %d", state.name, len(reading.Mounts), state.mounts)
		}
		var got []string
		for _, problem := range tracker.Next(reading).Problems {
			got = append(got, string(problem.Kind)+" "+strings.TrimPrefix(problem.Mount.Volume, "pvc-"))
		}
		if slices.Sort(got); !slices.Equal(got, state.want) {
			t.Errorf("%s: got %q, want %q", state.name, got, state.want)
		}
	}
	if timeouts := tracker.Next(recorded(t, "hundred")).Timeouts; timeouts == 0 {
		t.Error("no request has timed out")
	}
}

// The client knows a server again that it reaches through a second tunnel. It then uses the first one, and says so.
func TestASecondTunnelToTheSameServerIsNotUsed(t *testing.T) {
	ports := map[string]int{}
	reading := recorded(t, "good")
	for _, mount := range reading.Mounts {
		ports[mount.Volume] = mount.Port
	}
	if ports["pvc-second"] != ports["pvc-good"] || ports["pvc-good"] == 0 {
		t.Errorf("the ports are %v", ports)
	}
}
