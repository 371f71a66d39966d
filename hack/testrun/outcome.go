package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// event is one line of the output of "go test -json" (go doc test2json).
type event struct {
	Action, Package, Test, Output string
	// Elapsed is in seconds.
	Elapsed float64
	// FailedBuild is set if the package did not compile.
	FailedBuild string
}

// key names a test, or a package if Test is empty. A subtest counts as part of its test.
type key struct{ Package, Test string }

// outcome has the results of all lanes.
type outcome struct {
	// lanes maps each package to the lane that runs it.
	lanes map[string]string
	// elapsed has the seconds of each package and of each top-level test.
	elapsed map[key]float64
	failed  map[key]bool
	unbuilt map[string]bool
	output  map[key]*bytes.Buffer
	// running has the tests and subtests that have started and not ended.
	running       map[key]bool
	passes, fails int
}

// failure is a failed test, or a failed package without a failed test.
type failure struct {
	key
	lane   string
	output string
}

// read reads the results of the lanes.
func read(folder string, lanes []string) (outcome, error) {
	o := outcome{
		lanes: map[string]string{}, elapsed: map[key]float64{}, failed: map[key]bool{}, unbuilt: map[string]bool{}, output: map[key]*bytes.Buffer{},
		running: map[key]bool{},
	}
	for _, lane := range lanes {
		text, err := os.ReadFile(filepath.Clean(filepath.Join(folder, lane+".json")))
		if err != nil {
			return o, fmt.Errorf("results of lane %s: %w", lane, err)
		}
		for line := range bytes.Lines(text) {
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				return o, fmt.Errorf("results of lane %s: %q: %w", lane, line, err)
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
	case "run":
		o.running[key{e.Package, e.Test}] = true
	case "output":
		if o.output[k] == nil {
			o.output[k] = &bytes.Buffer{}
		}
		_, _ = o.output[k].WriteString(e.Output)
	case "pass", "fail", "skip":
		delete(o.running, key{e.Package, e.Test})
		if e.Action == "skip" {
			return
		}
		if e.Test != "" && e.Action == "pass" {
			o.passes++
		} else if e.Test != "" {
			o.fails++
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

// failures divides the failures into failures to retry and final failures. A package that does not compile is final. A failure for which isFinal
// returns true, such as a race, is also final, because it is a defect even if it is rare.
func (o *outcome) failures() (again, final []failure) {
	for k := range o.failed {
		if k.Test == "" && o.hasFailedTest(k.Package) {
			continue
		}
		one := failure{key: k, lane: o.lanes[k.Package], output: o.said(k)}
		if o.unbuilt[k.Package] || o.isFinal(k.Package) {
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

func (o *outcome) said(k key) string {
	if text := o.output[k]; text != nil {
		return text.String()
	}
	return ""
}

// isFinal reports whether a failure of a package allows no retry. A retry is not allowed if any test of the package has a race, a panic, or a broken
// promise about data (env.Broken). It is also not allowed if the package itself has failed (env.Pool), or if a test has never ended.
func (o *outcome) isFinal(pkg string) bool {
	never := regexp.MustCompile(
		`DATA RACE|race detected (during|outside)|Observed a panic|BROKEN PROMISE|PACKAGE FAILED|(?m)^\s*(panic|fatal error): `)
	for k, text := range o.output {
		if k.Package == pkg && never.Match(text.Bytes()) {
			return true
		}
	}
	for k := range o.running {
		if k.Package == pkg {
			return true
		}
	}
	return false
}

func names(all []failure) string {
	var lines []string
	for _, one := range all {
		lines = append(lines, strings.TrimSpace("  "+one.Package+" "+one.Test))
	}
	return "  " + strings.Join(lines, "\n  ")
}
