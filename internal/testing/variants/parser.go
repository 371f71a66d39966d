package variants

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

// Parsed is what the parser of a driver made of texts. It was recorded from the parser itself, which is no part of this repository.
type Parsed struct {
	// Source is the program with version, file and function.
	Source string `json:"source"`
	Parsed []struct {
		Text string `json:"text"`
		// Read is empty where the driver refused the text, or dropped all of it.
		Read map[string]string `json:"read"`
	} `json:"parsed"`
}

// CompareParser fails the test if a list is read otherwise than the driver has done it, by a file in testdata.
func CompareParser(t *testing.T, list *accept.List, name string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name)) //nolint:gosec // The test names it.
	if err != nil {
		t.Fatal(err)
	}
	var recorded Parsed
	if err := json.Unmarshal(data, &recorded); err != nil || len(recorded.Parsed) == 0 {
		t.Fatalf("%s has %d texts: %v", name, len(recorded.Parsed), err)
	}
	for _, one := range recorded.Parsed {
		got, err := list.Read(one.Text)
		if err != nil {
			got = nil
		}
		if !maps.Equal(got, one.Read) {
			t.Errorf("%.200q is read as %q (%v); the driver reads %q (%s)", one.Text, got, err, one.Read, recorded.Source)
		}
	}
}

// Expanded is what a program gets of an argument or variable of its container where the container has no other variables (kubernetes v1.36.3,
// third_party/forked/golang/expansion/expand.go): $$ is a dollar sign, and $(NAME) is replaced, here by nothing.
func Expanded(text string) string {
	var expanded strings.Builder
	for i := 0; i < len(text); i++ {
		rest := text[i+1:]
		switch end := strings.IndexByte(rest, ')'); {
		case text[i] != '$' || rest == "":
			expanded.WriteByte(text[i])
		case rest[0] == '$':
			expanded.WriteByte('$')
			i++
		case rest[0] == '(' && end > 0:
			i += end + 1
		default:
			expanded.WriteByte('$')
		}
	}
	return expanded.String()
}
