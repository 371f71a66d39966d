package plugintest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schemas returns the folder with the schemas of the guide.
func Schemas(t *testing.T) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		found := filepath.Join(folder, "docs", "guide", "schema")
		if _, err := os.Stat(found); err == nil {
			return found
		}
		if folder == filepath.Dir(folder) {
			t.Fatal("the folder docs/guide/schema is in no folder above the test")
		}
		folder = filepath.Dir(folder)
	}
}

// FollowsSchema fails the test unless the output of a command is one JSON document or more of the command's schema. A command is given without the
// name of the program, such as "rollout status".
func FollowsSchema(t *testing.T, command, output string) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(Schemas(t), strings.ReplaceAll(command, " ", "-")+".json"))
	if err != nil {
		t.Errorf("the schema of %s: %v", command, err)
		return
	}
	documents, count := json.NewDecoder(strings.NewReader(output)), 0
	documents.UseNumber()
	for ; ; count++ {
		var document any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) && count > 0 {
			return
		}
		if err == nil {
			err = schema.Validate(document)
		}
		if err != nil {
			t.Errorf("%s prints what its schema does not have; after a change of the type, run \"make schema\": %v\n%s", command, err, output)
			return
		}
	}
}
