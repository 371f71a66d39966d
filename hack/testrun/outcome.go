package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// event is a line of "go test -json": go doc test2json.
type event struct {
	Action, Package, Test, Output string
	// Elapsed is in seconds.
	Elapsed float64
	// FailedBuild is set if the package could not be compiled.
	FailedBuild string
}

// key is a test, or a package if Test is empty. A subtest counts as part of its test.
type key struct{ Package, Test string }

// outcome is what all lanes have said.
type outcome struct {
	// lanes is the lane of each package.
	lanes map[string]string
	// elapsed is in seconds, for packages and for tests without subtests.
	elapsed        map[key]float64
	failed         map[key]bool
	unbuilt        map[string]bool
	output         map[key]*bytes.Buffer
	passed, failes int
}

// failure is a test that has failed, or a package whose tests have all passed and that has failed all the same.
type failure struct {
	key
	lane   string
	output string
}

// read reads what the lanes have written.
func read(folder string, lanes []string) (outcome, error) {
	o := outcome{
		lanes: map[string]string{}, elapsed: map[key]float64{}, failed: map[key]bool{}, unbuilt: map[string]bool{}, output: map[key]*bytes.Buffer{},
	}
	for _, lane := range lanes {
		text, err := os.ReadFile(filepath.Clean(filepath.Join(folder, lane+".json")))
		if errors.Is(err, fs.ErrNotExist) {
			// No test was asked for in this lane, or its make has failed, which counts.
			continue
		}
		if err != nil {
			return o, fmt.Errorf("results of lane %s: %w", lane, err)
		}
		lines := bufio.NewReader(bytes.NewReader(text))
		for {
			line, err := lines.ReadBytes('\n')
			var e event
			// The last line of a lane that was killed may lack its end.
			if err != nil || json.Unmarshal(line, &e) != nil {
				break
			}
			o.add(lane, e)
		}
	}
	return o, nil
}

func (o *outcome) add(lane string, e event) {
	if e.Package == "" {
		return
	}
	o.lanes[e.Package] = lane
	root, sub, _ := strings.Cut(e.Test, "/")
	k := key{e.Package, root}
	switch e.Action {
	case "output":
		if o.output[k] == nil {
			o.output[k] = &bytes.Buffer{}
		}
		_, _ = o.output[k].WriteString(e.Output)
	case "pass", "fail":
		if e.Test != "" {
			o.count(e.Action)
		}
		if sub == "" {
			o.elapsed[k] = e.Elapsed
		}
		if e.Action == "fail" {
			o.failed[k] = true
			o.unbuilt[e.Package] = o.unbuilt[e.Package] || e.FailedBuild != ""
		}
	}
}

func (o *outcome) count(action string) {
	if action == "pass" {
		o.passed++
	} else {
		o.failes++
	}
}

// failures are the tests that may run again, and those that may not: a race, a panic and a broken promise are defects however rarely they come.
func (o *outcome) failures() (again, final []failure) {
	for k := range o.failed {
		if k.Test == "" && o.hasFailedTest(k.Package) {
			continue
		}
		one := failure{key: k, lane: o.lanes[k.Package], output: o.said(k)}
		if o.unbuilt[k.Package] || isFinal(one.output) || o.hasEnded(k.Package) {
			final = append(final, one)
		} else {
			again = append(again, one)
		}
	}
	for _, list := range [][]failure{again, final} {
		slices.SortFunc(list, func(a, b failure) int { return strings.Compare(a.Package+" "+a.Test, b.Package+" "+b.Test) })
	}
	return again, final
}

func (o *outcome) hasFailedTest(pkg string) bool {
	for k := range o.failed {
		if k.Package == pkg && k.Test != "" {
			return true
		}
	}
	return false
}

// hasEnded is true for a package in which something has ended the program, whichever test was running then.
func (o *outcome) hasEnded(pkg string) bool {
	for k, text := range o.output {
		if k.Package == pkg && regexp.MustCompile(`(?m)^(panic|fatal error): `).Match(text.Bytes()) {
			return true
		}
	}
	return false
}

func (o *outcome) said(k key) string {
	if text := o.output[k]; text != nil {
		return text.String()
	}
	return ""
}

// isFinal tells whether a test has seen what must never happen. A test says BROKEN PROMISE of data by env.Broken.
func isFinal(output string) bool {
	final := regexp.MustCompile(`DATA RACE|race detected during execution|Observed a panic|BROKEN PROMISE|(?m)^\s*(panic|fatal error): `)
	return final.MatchString(output)
}

func names(all []failure) string {
	var lines []string
	for _, one := range all {
		lines = append(lines, strings.TrimSpace("  "+one.Package+" "+one.Test))
	}
	return "  " + strings.Join(lines, "\n  ")
}
