package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// link is a call of the linker as go test makes it.
func link(output, id string) []string {
	return []string{"-o", output, "-importcfg", "/tmp/b001/importcfg.link", "-w", "-buildmode=pie", "-buildid=" + id, "-extld=gcc", "/tmp/b001/_pkg_.a"}
}

func TestAProgramIsKnownByWhatItIsMadeOf(t *testing.T) {
	_, key := program("/go/link", link("/tmp/a", "one/two"))
	for name, tc := range map[string]struct {
		tool   string
		args   []string
		output string
		isSame bool
	}{
		"in another folder":     {"/go/link", link("/tmp/b", "one/two"), "/tmp/b", true},
		"of other packages":     {"/go/link", link("/tmp/a", "one/three"), "/tmp/a", false},
		"with another flag":     {"/go/link", append([]string{"-s"}, link("/tmp/a", "one/two")...), "/tmp/a", false},
		"without a build ID":    {"/go/link", link("/tmp/a", ""), "", false},
		"the linker's version":  {"/go/link", []string{"-V=full"}, "", false},
		"a call of the compile": {"/go/compile", link("/tmp/a", "one/two"), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			output, other := program(tc.tool, tc.args)
			if output != tc.output || (other == key) != tc.isSame {
				t.Errorf("it is written to %q, want %q; is the key the same: %t, want %t", output, tc.output, other == key, tc.isSame)
			}
		})
	}
}

func TestAProgramIsLinkedOnceUntilItIsTrimmed(t *testing.T) {
	c := cache{folder: filepath.Join(t.TempDir(), "cache"), most: 10, free: plenty}
	links := 0
	get := func(key string) {
		t.Helper()
		output := filepath.Join(t.TempDir(), "program")
		err := c.link(key, output, func() error {
			links++
			return os.WriteFile(output, []byte(key), 0o600)
		})
		if text, _ := os.ReadFile(output); err != nil || string(text) != key {
			t.Errorf("program %s is %q (%v)", key, text, err)
		}
	}
	age := func(key string, hours time.Duration) {
		t.Helper()
		then := time.Now().Add(-hours * time.Hour)
		if err := os.Chtimes(filepath.Join(c.folder, key), then, then); err != nil {
			t.Fatal(err)
		}
	}
	get("four")
	get("four")
	get("five5")
	if links != 2 {
		t.Errorf("%d links of two programs", links)
	}
	age("four", 3)
	age("five5", 2)
	get("four")
	get("six")
	if links != 3 {
		t.Errorf("%d links of three programs", links)
	}
	// The cache has had room for the two that were used last.
	get("four")
	get("six")
	if get("five5"); links != 4 {
		t.Errorf("%d links, want a fourth one of the program that was not used for the longest time", links)
	}
}

func TestAFullDiskHoldsFewerPrograms(t *testing.T) {
	left := int64(20)
	c := cache{folder: t.TempDir(), most: 1000, free: func(string) (int64, error) { return left, nil }}
	for key, age := range map[string]time.Duration{"old..": 2 * time.Hour, "new..": time.Hour} {
		then, path := time.Now().Add(-age), filepath.Join(c.folder, key)
		if err := errors.Join(os.WriteFile(path, []byte("12345"), 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		free int64
		want []string
	}{{20, []string{"new..", "old.."}}, {19, []string{"new.."}}, {9, nil}} {
		left = step.free
		if err := c.trim(); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(c.folder)
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		if err != nil || !slices.Equal(names, step.want) {
			t.Errorf("with %d bytes free, it holds %v, want %v (%v)", left, names, step.want, err)
		}
	}
}

func TestALinkerCollectsGarbageWhereMemoryIsShort(t *testing.T) {
	for name, test := range map[string]struct {
		meminfo string
		isOff   bool
	}{
		"much":    {"MemTotal: 8000000 kB\nMemAvailable:    4194304 kB\n", true},
		"little":  {"MemTotal: 8000000 kB\nMemAvailable:    4194303 kB\n", false},
		"unknown": {"", false},
	} {
		got := collector(test.meminfo)
		if slices.Contains(got, "GOGC=off") != test.isOff || slices.Contains(got, "GOMEMLIMIT=1073741824") != test.isOff {
			t.Errorf("%s memory: %v", name, got)
		}
	}
}

func plenty(string) (int64, error) { return 1 << 40, nil }

func TestALinkThatFailsIsNotKept(t *testing.T) {
	c := cache{folder: filepath.Join(t.TempDir(), "cache"), most: 10, free: plenty}
	want := errors.New("undefined symbol")
	for range 2 {
		if err := c.link("key", filepath.Join(t.TempDir(), "program"), func() error { return want }); !errors.Is(err, want) {
			t.Errorf("it ends with %v, want %v", err, want)
		}
	}
}
