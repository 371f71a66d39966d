package main

import (
	"strings"
	"testing"
)

// What `make demo PLATFORM=` shows is the whole chain: an error is one of any of its programs. Both platforms have two drivers, and those of
// OpenStack ask their cloud.
func TestTheDemonstrationEndsWithHealthyStorage(t *testing.T) {
	for _, platform := range []string{"Azure", "OpenStack"} {
		t.Run(platform, func(t *testing.T) {
			if err := run(t.Context(), platform, fewestNodes, false); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTooFewNodesAreRefusedAtOnce(t *testing.T) {
	if err := run(t.Context(), "GCP", fewestNodes-1, false); err == nil || !strings.Contains(err.Error(), "at least 3 nodes") {
		t.Errorf("the error is %v", err)
	}
}
