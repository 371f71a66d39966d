package main

import (
	"strings"
	"testing"
)

// What `make demo-cluster` shows is the whole chain: an error is one of any of its programs. Azure has two drivers.
func TestTheDemonstrationEndsWithHealthyStorage(t *testing.T) {
	if err := run(t.Context(), "Azure", fewestNodes, false); err != nil {
		t.Fatal(err)
	}
}

func TestTooFewNodesAreRefusedAtOnce(t *testing.T) {
	if err := run(t.Context(), "GCP", fewestNodes-1, false); err == nil || !strings.Contains(err.Error(), "at least 3 nodes") {
		t.Errorf("the error is %v", err)
	}
}
