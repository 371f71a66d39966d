package node

import (
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheNetworkOfAProcessThatHasEndedIsNotJoined(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(networkFile(dir)), 0o700); err != nil {
		t.Fatal(err)
	}
	own, err := namespace("self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	if err := tell(dir, own); err != nil {
		t.Fatal(err)
	}
	found, err := findNetwork(dir, time.Minute)
	if err != nil || !found.Equal(own) {
		t.Fatalf("found %s, want %s (%v)", found, own, err)
	}
	_ = found.Close()
	// Another process has the number of the network's by now.
	data, err := json.Marshal(place{PID: os.Getpid(), Started: startTime(os.Getpid()) + 1, FD: int(own)})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"another process": string(data), "no process": `{"pid": 0, "fd": 3}`, "half a file": `{"pid": 1`} {
		if err := os.WriteFile(networkFile(dir), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := findNetwork(dir, 0); err == nil {
			t.Errorf("%s: found %s", name, found)
		}
	}
}

// Clusters that start together ask for plans before any of them has an interface.
func TestClustersThatStartTogetherHaveDifferentPlans(t *testing.T) {
	all := map[netip.Prefix]bool{}
	var last Plan
	var lastClaim *os.File
	for range 3 {
		p, claimed, err := FindPlan()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = claimed.Close() }()
		if all[p.Block] {
			t.Errorf("two clusters have the network %s", p.Block)
		}
		all[p.Block], last, lastClaim = true, p, claimed
	}
	// The kernel ends a claim with the last process that has it open.
	copied, err := unix.Dup(int(lastClaim.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	_ = lastClaim.Close()
	if again, err := last.claim(); err == nil {
		_ = again.Close()
		t.Error("a plan that a process holds was claimed")
	}
	_ = unix.Close(copied)
	again, err := last.claim()
	if err != nil {
		t.Fatalf("a plan that no process holds: %v", err)
	}
	_ = again.Close()
}

func TestUsedNetworksAreSeen(t *testing.T) {
	p := NewPlan(0)
	for text, want := range map[string]bool{"198.18.5.1/32": true, "198.16.0.1/14": true, "198.18.16.1/20": false, "10.0.0.1/8": false} {
		address, network, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		network.IP = address
		if got := uses([]net.Addr{network}, p.Block); got != want {
			t.Errorf("%s: used is %t, want %t", text, got, want)
		}
	}
}
