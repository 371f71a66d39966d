package rules

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// A promise about security names the test that would fail if it were broken.
func TestTheSecurityGuideNamesTestsThatExist(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	exist := map[string]bool{}
	// A test that shares a cluster with others is a row of a table.
	declared := regexp.MustCompile(`(?m)^(?:func |\t\t\{")((?:Test|Fuzz)[A-Za-z0-9]+)[("]`)
	env.Must(t, fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (name == "bin" || strings.HasPrefix(entry.Name(), ".") && name != ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		for _, found := range declared.FindAllSubmatch(text, -1) {
			exist[string(found[1])] = true
		}
		return err
	}))
	text, err := os.ReadFile(filepath.Join(root, "docs/guide/security.md"))
	env.Must(t, err)
	for _, test := range regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1) {
		if !exist[test[1]] {
			t.Errorf("there is no %s", test[1])
		}
	}
	_, table, _ := strings.Cut(string(text), "\n## Who is trusted with what\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for line := range strings.Lines(table) {
		named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(line, -1)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| Who ") {
			continue
		}
		if rows++; len(named) == 0 {
			t.Errorf("no test shows this: %s", line)
		}
	}
	if rows < 10 {
		t.Errorf("%d rows: the table is not read", rows)
	}
}
