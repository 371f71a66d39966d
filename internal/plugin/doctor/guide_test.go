package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/plugin"
)

func TestEverySentenceIsShort(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			match := regexp.MustCompile(`^(?:ERROR|WARNING|UNKNOWN|INFO|  do) +(.*)`).FindStringSubmatch(line)
			if match != nil && (len(strings.Fields(match[1])) >= 25 || !strings.HasSuffix(match[1], ".")) {
				t.Errorf("%s: %s", file, match[1])
			}
		}
	}
}

func TestEveryPageIsThere(t *testing.T) {
	source, err := os.ReadFile("pages.go")
	if err != nil {
		t.Fatal(err)
	}
	pages := regexp.MustCompile(`"(docs/[^"#]+)(?:#([^"]+))?"`).FindAllStringSubmatch(string(source), -1)
	if len(pages) < 20 {
		t.Fatalf("%d pages", len(pages))
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(page[1])))
		if err != nil {
			t.Error(err)
			continue
		}
		found := page[2] == ""
		for line := range strings.Lines(string(text)) {
			if title, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); is && strings.HasPrefix(line, "#") {
				anchor := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
				found = found || strings.ReplaceAll(anchor, " ", "-") == page[2]
			}
		}
		if !found {
			t.Errorf("%s has no section %s", page[1], page[2])
		}
	}
}

func TestTheGuideShowsTheNumberOfChecks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guide", "plugin.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^(\d+) checks found `).FindAllStringSubmatch(string(text), -1)
	if len(shown) == 0 {
		t.Fatal("docs/guide/plugin.md shows no output of doctor")
	}
	for _, one := range shown {
		if one[1] != strconv.Itoa(len(checks())) {
			t.Errorf("docs/guide/plugin.md: %q, but doctor has %d checks", one[0], len(checks()))
		}
	}
}

// A reader finds the words of an event in the runbook, with the same cause.
func TestTheRunbookHasTheErrorsOfAnUnreachableMountTarget(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guide", "alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.ToLower(string(text)), "\n")
	for _, one := range symptoms() {
		if !strings.HasPrefix(one.topic, "event/network/") {
			continue
		}
		for _, word := range one.words {
			word = strings.TrimPrefix(word, "context ")
			if !slices.ContainsFunc(rows, func(row string) bool {
				return strings.Contains(strings.ReplaceAll(row, " ", ""), strings.ReplaceAll(word, " ", "")) && strings.Contains(row, "2049")
			}) {
				t.Errorf("no row of docs/guide/alerts.md has %q and the port", word)
			}
		}
	}
}

func TestWrongArgumentsAreUsage(t *testing.T) {
	for _, args := range [][]string{{"pod"}, {"pod", "a", "b"}, {"volume", "a"}, {"pod/"}} {
		if _, err := subjectOf(args); plugin.Code(err) != plugin.WrongUsage {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := subjectOf([]string{"statefulset", "db"}); err == nil || !strings.HasSuffix(err.Error(), "try a pod of it: doctor pod db-0") {
		t.Error(err)
	}
	for _, args := range [][]string{{"Pod", "a"}, {"sv/a"}, {"persistentvolumeclaim/a"}, {"no", "a"}, {"pv", "a"}} {
		if s, err := subjectOf(args); err != nil || s.name != "a" {
			t.Errorf("%v: %v", args, err)
		}
	}
}
