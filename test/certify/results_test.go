package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The results that the repository keeps say which tests have passed, do not apply, and were not run. CI repeats some that have passed.
func TestTheKeptResultsHaveTheSharesOfCI(t *testing.T) {
	shares, err := filepath.Glob(filepath.Join("share", "*.txt"))
	if err != nil || len(shares) != 2 {
		t.Fatalf("lists: %v, %v", shares, err)
	}
	for _, file := range shares {
		list, err := readShare(file)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join("results", filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(content), "\nNot applicable: ")
		_, passed, _ := strings.Cut(text, "\nPassed:\n")
		for _, name := range list.names {
			if !strings.Contains(passed, "\n* "+name+"\n") {
				t.Errorf("%s: the kept result does not say that it has passed: %s", file, name)
			}
		}
	}
}

func TestNoKeptResultHasAFailedTest(t *testing.T) {
	results, err := filepath.Glob(filepath.Join("results", "*.txt"))
	if err != nil || len(results) == 0 {
		t.Fatalf("results: %v, %v", results, err)
	}
	for _, file := range results {
		content, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), "\nFailed:\n") {
			t.Errorf("%s: a test has failed", file)
		}
	}
}
