package rules

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// Readers paste a whole block, and their shell goes on after a command that has failed. A list that && joins is one command, and so is a loop.
func TestNoBlockOfAPageGoesOnAfterACommandHasFailed(t *testing.T) {
	fence, blocks := regexp.MustCompile("(?ms)^( *)```(?:bash|sh)\n(.*?)^ *```$"), 0
	for page, text := range pages(t) {
		for _, at := range fence.FindAllSubmatchIndex(text, -1) {
			blocks++
			block := strings.ReplaceAll("\n"+string(text[at[4]:at[5]]), "\n"+string(text[at[2]:at[3]]), "\n")
			if found := commands(t, withoutDocuments(block)); len(found) != 1 {
				t.Errorf("%s:%d: join these commands with &&, or give each a block of its own: %q", page, strings.Count(string(text[:at[0]]), "\n")+1, found)
			}
		}
	}
	if blocks < 300 {
		t.Errorf("%d blocks were found: the fences are not read", blocks)
	}
}

// commands splits a block where a command ends: where bash reads the lines so far as the body of a function.
func commands(t *testing.T, block string) []string {
	t.Helper()
	goesOn := regexp.MustCompile(`(&&|\||\\)( +# .*)?$`)
	var found []string
	open := ""
	for line := range strings.SplitSeq(block, "\n") {
		if open == "" && (strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#")) {
			continue
		}
		open += line + "\n"
		if !goesOn.MatchString(line) && exec.CommandContext(t.Context(), "bash", "-n", "-c", "f() {\n"+open+"}").Run() == nil {
			found, open = append(found, open), ""
		}
	}
	if strings.Trim(open, "\n") != "" {
		found = append(found, "unfinished: "+open)
	}
	return found
}

// withoutDocuments leaves out here-documents, half of which bash would read as a whole function.
func withoutDocuments(block string) string {
	begin, end, lines := regexp.MustCompile(`<<-?'?(\w+)'?`), "", []string{}
	for line := range strings.SplitSeq(block, "\n") {
		switch found := begin.FindStringSubmatch(line); {
		case end != "" && strings.TrimSpace(line) == end:
			end = ""
		case end == "" && found != nil:
			end = found[1]
			lines = append(lines, strings.Replace(line, found[0], "<document", 1))
		case end == "":
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// pages are all pages for people, by their path.
func pages(t *testing.T) map[string][]byte {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	found, repository := map[string][]byte{}, os.DirFS(root)
	for _, folder := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs"} {
		env.Must(t, fs.WalkDir(repository, folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".md" {
				return err
			}
			found[path], err = fs.ReadFile(repository, path)
			return err
		}))
	}
	return found
}

// Who asks what this is sees it, its state and the way to try it, without scrolling twice.
func TestTheReadmeIsOneScreen(t *testing.T) {
	text := string(pages(t)["README.md"])
	if lines := strings.Count(text, "\n"); lines >= 90 {
		t.Errorf("README.md has %d lines", lines)
	}
	// In this order.
	for _, part := range []string{
		"\n**Status**", "/issues)", "\n![", "`make demo`", "`make test`", "make demo KEEP=1", "| a release |", "make publish REGISTRY=", "| neither |",
	} {
		_, rest, has := strings.Cut(text, part)
		if !has {
			t.Fatalf("README.md lacks %q, or has it too early", part)
		}
		text = rest
	}
}

// People open the page of a driver because they want a volume.
func TestThePageOfADriverBeginsWithAVolume(t *testing.T) {
	sections := regexp.MustCompile(`(?m)^## (.*)$`)
	seen := 0
	for path, text := range pages(t) {
		if !regexp.MustCompile(`^docs/guide/driver-[a-z-]+\.md$`).MatchString(path) || path == "docs/guide/driver-image.md" {
			continue
		}
		seen++
		var names []string
		for _, section := range sections.FindAllStringSubmatch(string(text), -1) {
			names = append(names, section[1])
		}
		// Between them, each driver has what only it has.
		rest := strings.Join(names, "\n") + "\n"
		for i, part := range []string{"Make a volume\n", "What it installs\n", "Credentials", "Troubleshooting\n", "Logs\n"} {
			before, after, has := strings.Cut(rest, part)
			if !has || i == 0 && before != "" {
				t.Errorf("%s: section %q is missing, or in another order: %q", path, strings.TrimSpace(part), names)
				break
			}
			rest = after
		}
		if rest != "" {
			t.Errorf("%s ends with %q, not with its logs", path, rest)
		}
	}
	if seen < 7 {
		t.Errorf("%d pages of drivers", seen)
	}
}
