package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

const (
	// reportFile has what ginkgo says about each test, and tableFile what certify makes of it.
	reportFile, tableFile = "report.json", "result.md"
)

// ginkgoReport has those fields of a report that are read here (github.com/onsi/ginkgo/v2 v2.28.1, types/types.go).
type ginkgoReport struct {
	SpecReports []spec
}

// spec is one test.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	RunTime                 int64
	Failure                 struct{ Message string }
}

// name is what the test is called, without the name of the suite and of the driver. As in ginkgo, containers without a text are left out: a list of tests
// chooses by this name (github.com/onsi/ginkgo/v2 v2.28.1, types/types.go, FullText).
func (s spec) name() string {
	texts := slices.DeleteFunc(slices.Clone(s.ContainerHierarchyTexts), func(text string) bool { return text == "" || strings.HasPrefix(text, ours) })
	return strings.Join(append(texts, s.LeafNodeText), " ")
}

// area is what a test is about: provisioning, snapshottable, and so on. Kubernetes names it after the pattern of the volume.
func (s spec) area() string {
	for _, text := range s.ContainerHierarchyTexts {
		if _, after, is := strings.Cut(text, "[Testpattern:"); is {
			if _, after, is = strings.Cut(after, "]"); is {
				for _, word := range strings.Fields(after) {
					if !strings.HasPrefix(word, "[") {
						return word
					}
				}
			}
		}
	}
	return "other"
}

// hasRun reports whether a test has come to an end, or does not apply. The suite skips tests that FOCUS and SKIP leave out, without a message.
func (s spec) hasRun() bool {
	return s.LeafNodeType == "It" && s.State != "pending" && s.State != "interrupted" && (s.State != "skipped" || s.Failure.Message != "")
}

// counts are the tests of an area.
type counts struct{ passed, failed, without int }

// unfit lists the tests that do not apply, each below the reason.
func unfit(reports []ginkgoReport) string {
	names := map[string][]string{}
	for _, report := range reports {
		for _, one := range report.SpecReports {
			if one.hasRun() && one.State == "skipped" {
				why := reason(one.Failure.Message)
				names[why] = append(names[why], one.name())
			}
		}
	}
	var text strings.Builder
	for _, why := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&text, "\nNot applicable: %s\n\n* %s\n", why, strings.Join(slices.Sorted(slices.Values(names[why])), "\n* "))
	}
	return text.String()
}

// table says what the tests of a report have shown, and counts them.
func table(reports []ginkgoReport) (string, counts) {
	areas, reasons := map[string]*counts{}, map[string]int{}
	var passed, failed []string
	for _, report := range reports {
		for _, one := range report.SpecReports {
			if !one.hasRun() {
				continue
			}
			count := areas[one.area()]
			if count == nil {
				count = &counts{}
				areas[one.area()] = count
			}
			switch one.State {
			case "passed":
				count.passed++
				passed = append(passed, one.name())
			case "skipped":
				count.without++
				reasons[reason(one.Failure.Message)]++
			default:
				count.failed++
				failed = append(failed, one.name()+": "+firstLine(one.Failure.Message))
			}
		}
	}
	var text strings.Builder
	text.WriteString("| Tests of | Passed | Failed | Not applicable |\n|---|---|---|---|\n")
	all := counts{}
	for _, area := range slices.Sorted(maps.Keys(areas)) {
		one := areas[area]
		fmt.Fprintf(&text, "| %s | %d | %d | %d |\n", area, one.passed, one.failed, one.without)
		all = counts{all.passed + one.passed, all.failed + one.failed, all.without + one.without}
	}
	fmt.Fprintf(&text, "| all | %d | %d | %d |\n", all.passed, all.failed, all.without)
	write := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&text, "\n%s\n\n* %s\n", title, strings.Join(lines, "\n* "))
		}
	}
	write("Failed:", failed)
	var why []string
	for _, one := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return cmp.Or(reasons[b]-reasons[a], cmp.Compare(a, b)) }) {
		why = append(why, fmt.Sprintf("%d: %s", reasons[one], one))
	}
	write("Not applicable, with the number of tests:", why)
	write("Passed:", passed)
	return text.String(), all
}

// reason is why a test does not apply, in one line.
func reason(message string) string {
	return strings.TrimRight(strings.TrimSuffix(firstLine(message), "skipping"), " -")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// String is what a reader asks first. A line of the report of make prove has nothing else.
func (c counts) String() string {
	return fmt.Sprintf("%d tests passed, %d failed, and %d do not apply.", c.passed, c.failed, c.without)
}

// ran returns an error unless a test has run. What does not apply has shown nothing about the driver.
func (c counts) ran() error {
	if c.passed+c.failed > 0 {
		return nil
	}
	return fmt.Errorf("no test has run: %d do not apply to the driver, and FOCUS= and SKIP= leave out all others", c.without)
}

// report reads what the tests have written, and writes the table. It returns an error if no test has run, or
// others than the share has.
func (c *certification) report() (text string, all counts, failure error) {
	content, err := os.ReadFile(c.file(reportFile))
	if err != nil {
		return "", all, fmt.Errorf("the tests have written no report: %w", err)
	}
	var reports []ginkgoReport
	if err := json.Unmarshal(content, &reports); err != nil {
		return "", all, fmt.Errorf("report of the tests: %w", err)
	}
	text, all = table(reports)
	return text, all, errors.Join(os.WriteFile(c.file(tableFile), []byte(text+unfit(reports)), 0o600), all.ran(), c.share.compare(reports))
}
