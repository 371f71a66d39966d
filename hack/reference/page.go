package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// names maps each name to the place where it was found.
type names map[string]string

// tables returns the names in backticks in the first cells of the page's tables. The key is the second-level heading above the table.
func tables(text string) map[string]names {
	quoted := regexp.MustCompile("`([^`]+)`")
	found, heading := map[string]names{}, ""
	for i, line := range strings.Split(text, "\n") {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			heading = title
			found[heading] = names{}
		}
		cells := strings.Split(line, "|")
		if heading == "" || !strings.HasPrefix(line, "|") || len(cells) < 3 {
			continue
		}
		for _, match := range quoted.FindAllStringSubmatch(cells[1], -1) {
			found[heading][match[1]] = fmt.Sprintf("%s:%d", page, i+1)
		}
	}
	return found
}

// plain removes the prefix of a driver and the suffix of a condition type from a name.
func plain(name string) string {
	name = strings.Trim(name, "…")
	if short, ok := strings.CutPrefix(name, "AWSEFS"); ok && short != "" {
		name = short
	}
	for _, end := range []string{"Available", "Progressing", "Degraded", "Upgradeable"} {
		if short, ok := strings.CutSuffix(name, end); ok && strings.HasSuffix(short, "Controller") {
			return short
		}
		for _, start := range []string{"CSIDriverOperatorCR", "CSIDriverOperatorDeployment", "OLMOperatorRemoval", "CSIDriverOperatorRemoval",
			"CSIDriverStarter", "ManagementState", "ConfigObservation"} {
			if name == start+end {
				return start
			}
		}
	}
	return name
}

// compare returns a sentence for each name that the page lacks, for each name on the page that the code lacks, and for each exception that the code
// no longer needs.
func (s subject) compare(found names, documented map[string]names) []string {
	has := names{}
	for _, heading := range s.headings {
		if documented[heading] == nil {
			return []string{fmt.Sprintf("%s: there is no section %q", page, heading)}
		}
		for name, place := range documented[heading] {
			has[plain(name)] = place
		}
	}
	var problems []string
	known := names{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		short := plain(name)
		known[short] = found[name]
		switch {
		case s.except[name] != "":
		case has[short] == "":
			problems = append(problems, fmt.Sprintf("%s: %s %q is in no table of %q in %s", found[name], s.what, name, s.headings, page))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if known[name] == "" && s.besides[name] == "" {
			problems = append(problems, fmt.Sprintf("%s: the code has no %s %q", has[name], s.what, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.except)) {
		if found[name] == "" {
			problems = append(problems, fmt.Sprintf("hack/reference: the code has no %s %q any more: remove its exception (%s)", s.what, name, s.except[name]))
		}
	}
	return problems
}
