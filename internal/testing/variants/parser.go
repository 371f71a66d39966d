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

// Parsed has the results of a driver's parser, recorded with the real parser, which is not in this repository.
type Parsed struct {
	// Source is the parser's program, version, file and function.
	Source string `json:"source"`
	Parsed []struct {
		Text string `json:"text"`
		// Read is empty if the driver rejected the text, or ignored all of it.
		Read map[string]string `json:"read"`
	} `json:"parsed"`
}

// CompareParser fails the test if our parser of a list differs from the driver's, whose results are in a file in testdata.
func CompareParser(t *testing.T, list *accept.List, name string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name)) //nolint:gosec // The test chooses the file.
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

// Expanded expands an argument or variable of a container without other variables, like Kubernetes (v1.36.3,
// third_party/forked/golang/expansion/expand.go): $$ is a dollar sign, and $(NAME) becomes empty.
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
