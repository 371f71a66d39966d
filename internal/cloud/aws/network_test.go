package aws

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// A cluster can have more instances than a filter of EC2 takes.
func TestManyValuesAreReadInSeveralRequests(t *testing.T) {
	var all []string
	for i := range 2*mostFilterValues + 1 {
		all = append(all, fmt.Sprint(i))
	}
	var sizes []int
	found, err := inChunks(all, func(some []string) ([]string, error) {
		sizes = append(sizes, len(some))
		return some, nil
	})
	if err != nil || !slices.Equal(found, all) || !slices.Equal(sizes, []int{mostFilterValues, mostFilterValues, 1}) {
		t.Errorf("requests of %v values have found %d (%v)", sizes, len(found), err)
	}
	broken := errors.New("denied")
	if found, err := inChunks(all, func([]string) ([]string, error) { return nil, broken }); !errors.Is(err, broken) || found != nil {
		t.Errorf("found %v (%v)", found, err)
	}
	if _, err := inChunks(nil, func([]string) ([]string, error) { return nil, broken }); err != nil {
		t.Errorf("a request for nothing: %v", err)
	}
}
