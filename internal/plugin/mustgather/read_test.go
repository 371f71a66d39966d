package mustgather

import (
	"errors"
	"strings"
	"testing"
)

// A tool still writes the folder.
func TestAFileThatGrowsWhileItIsReadIsNotCut(t *testing.T) {
	const limit = 10
	for _, size := range []int{limit, limit + 1, limit + 100} {
		data, err := readAtMost(strings.NewReader(strings.Repeat("a", size)), "pods.yaml", limit)
		tooLarge := new(tooLargeError)
		if errors.As(err, &tooLarge) != (size > limit) || len(data) != size && err == nil {
			t.Errorf("of %d bytes, %d were read (%v)", size, len(data), err)
		}
	}
}
