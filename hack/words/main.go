// Command words checks the prose of the guides: sentences are short, and words are the field's.
//
//	go run ./hack/words          prints what is wrong
//	go run ./hack/words -all     prints what is wrong in pages that are not converted yet as well
//
// Pages that are older than the rules are in pages.txt, with the number of their faults. A number may only shrink.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// list is the file with the pages that are not converted yet.
const list = "hack/words/pages.txt"

func main() {
	all := flag.Bool("all", false, "print the faults of pages that are not converted yet as well")
	flag.Parse()
	found, err := check(os.DirFS("."), *all)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	for _, line := range slices.Concat(found.old, found.problems) {
		fmt.Println(line)
	}
	if len(found.problems) > 0 {
		fmt.Fprintf(os.Stderr, "%d problems: see \"Write a guide\" in CONTRIBUTING.md\n", len(found.problems))
		os.Exit(1)
	}
}

// findings are lines to print: problems, and faults that the list allows.
type findings struct{ problems, old []string }

func (f *findings) say(format string, arguments ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, arguments...))
}

// pages are the files with prose for users.
func pages(repository fs.FS) ([]string, error) {
	var found []string
	for _, pattern := range []string{"docs/guide/*.md", "README.md", "SECURITY.md", "CHANGELOG.md", "ARCHITECTURE.md"} {
		names, err := fs.Glob(repository, pattern)
		if err != nil {
			return nil, fmt.Errorf("pages: %w", err)
		}
		found = append(found, names...)
	}
	if len(found) == 0 {
		return nil, errors.New("there is no guide here: run it in the root of the repository")
	}
	slices.Sort(found)
	return found, nil
}

// check reads all pages and the list. With all, it tells the faults that the list allows as well.
func check(repository fs.FS, all bool) (*findings, error) {
	text, err := fs.ReadFile(repository, list)
	if err != nil {
		return nil, fmt.Errorf("list of pages: %w", err)
	}
	allowed, err := readList(string(text))
	if err != nil {
		return nil, err
	}
	names, err := pages(repository)
	if err != nil {
		return nil, err
	}
	found := &findings{}
	for _, name := range names {
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return nil, fmt.Errorf("page: %w", err)
		}
		may, old := allowed[name]
		delete(allowed, name)
		found.page(name, faults(string(text)), may, old, all)
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		found.say("%s: there is no page %s: drop it", list, name)
	}
	return found, nil
}

// page compares the faults of a page with what the list allows, if it is on the list.
func (f *findings) page(name string, wrong []fault, may tally, old, all bool) {
	have := count(wrong)
	var lines []string
	for _, one := range wrong {
		lines = append(lines, fmt.Sprintf("%s:%d: %s", name, one.line, one.text))
	}
	switch {
	case !old || have.more(may):
		f.problems = append(f.problems, lines...)
	case all:
		f.old = append(f.old, lines...)
	}
	switch {
	case !old || have.more(may):
	case have == (tally{}):
		f.say("%s: %s has no faults any more: drop it", list, name)
	case have != may:
		f.say("%s: %s has %d long sentences and %d words: write that", list, name, have.long, have.words)
	}
}

// readList reads lines with a page, its number of long sentences, and its number of refused words.
func readList(text string) (map[string]tally, error) {
	read := map[string]tally{}
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var name string
		var numbers tally
		if n, err := fmt.Sscanf(line, "%s %d %d", &name, &numbers.long, &numbers.words); n != 3 {
			return nil, fmt.Errorf("%s:%d: want a page and two numbers: %w", list, i+1, err)
		}
		if _, twice := read[name]; twice {
			return nil, fmt.Errorf("%s:%d: %s is there twice", list, i+1, name)
		}
		read[name] = numbers
	}
	return read, nil
}
