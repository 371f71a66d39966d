package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// share is a list of tests, by the names that the table has for them.
type share struct {
	file  string
	names []string
}

// readShare reads a file with a name in each line. It leaves out empty lines, and lines that begin with #.
func readShare(file string) (share, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return share{}, fmt.Errorf("list of tests: %w", err)
	}
	list := share{file: file}
	for line := range strings.Lines(string(content)) {
		name := strings.TrimSpace(line)
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if slices.Contains(list.names, name) {
			return share{}, fmt.Errorf("list of tests: %s has this name twice: %s", file, name)
		}
		list.names = append(list.names, name)
	}
	if len(list.names) == 0 {
		return share{}, fmt.Errorf("list of tests: %s has no name", file)
	}
	return list, nil
}

// focus returns a regular expression that matches exactly the tests of the list, whatever the driver.
func (s share) focus() string {
	var quoted []string
	for _, name := range s.names {
		quoted = append(quoted, regexp.QuoteMeta(name))
	}
	return ours + ` \[Driver: [^\]]*\] (?:` + strings.Join(quoted, "|") + `)$`
}

// compare returns an error unless every test of the list has run, and no other. The table names the failed tests. Without a list, any test may run.
func (s share) compare(reports []ginkgoReport) error {
	if s.file == "" {
		return nil
	}
	found := map[string]spec{}
	for _, report := range reports {
		for _, one := range report.SpecReports {
			if one.hasRun() {
				found[one.name()] = one
			}
		}
	}
	var problems []error
	for _, name := range s.names {
		switch one, is := found[name]; {
		case !is:
			problems = append(problems, fmt.Errorf("%s: the suite has no such test, or leaves it out: %s", s.file, name))
		case one.State == "skipped":
			problems = append(problems, fmt.Errorf("%s: this test does not apply (%s): %s", s.file, reason(one.Failure.Message), name))
		}
	}
	if len(found) > len(s.names) {
		problems = append(problems, fmt.Errorf("%s: %d tests have run, and the list has %d", s.file, len(found), len(s.names)))
	}
	return errors.Join(problems...)
}
