package rules

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// The block is pasted as it is into a shell that goes on after a failure. podman and make are programs of the test.
func TestTheCommandsOfTheReadmePublishNothingWithoutALogin(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	env.Must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Install the EFS driver\n")
	section, _, _ = strings.Cut(section, "\n## ")
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(section)
	if block == nil {
		t.Fatal("README.md has no commands to publish a release")
	}
	for login, want := range map[string]string{"exit 1": "", "exit 0": "publish REGISTRY=quay.io/me\n"} {
		folder := t.TempDir()
		for name, program := range map[string]string{"podman": login, "make": `printf "%s\n" "$*" >> "$0.log"`} {
			env.Must(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+program+"\n"), 0o700))
		}
		shell := exec.CommandContext(t.Context(), "bash", "-c", block[1])
		shell.Dir, shell.Env = folder, append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
		// The exit code is that of the last command.
		output, _ := shell.CombinedOutput()
		log, err := os.ReadFile(filepath.Join(folder, "make.log"))
		if !errors.Is(err, fs.ErrNotExist) {
			env.Must(t, err)
		}
		if string(log) != want {
			t.Errorf("podman login with %q: make ran with %q, want %q:\n%s", login, log, want, output)
		}
	}
}

// The drivers smb and sample are those that the pages make.
func TestPagesForContributorsNameWhatIsThere(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "contribute", "*.md"))
	env.Must(t, err)
	named := regexp.MustCompile("`((?:api|cmd|config|docs|hack|images|internal|pkg|test)/[a-zA-Z0-9_./-]+)`|\\]\\(([^)#:]*)(#[^)]*)?\\)")
	for _, page := range append(pages, filepath.Join(root, "ARCHITECTURE.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "docs", "add-a-driver.md")) {
		text, err := os.ReadFile(page)
		env.Must(t, err)
		found := named.FindAllStringSubmatch(string(text), -1)
		for _, match := range found {
			if strings.HasPrefix(match[1], "internal/driver/smb") || strings.HasPrefix(match[1], "internal/driver/sample") {
				continue
			}
			path := filepath.Join(root, match[1])
			if match[1] == "" {
				path = filepath.Join(filepath.Dir(page), match[2])
			}
			if match[1]+match[2] == "" {
				path = page
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s names %s: %v", page, match[0], err)
			} else if match[3] != "" && !slices.Contains(anchors(t, path), match[3]) {
				t.Errorf("%s names %s: there is no such heading", page, match[0])
			}
		}
		if len(found) == 0 {
			t.Errorf("no name is found in %s", page)
		}
	}
}

// ARCHITECTURE.md names files by their end, package comments those of their folder.
func TestPackageCommentsAndTheArchitectureNameFilesThatAreThere(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	var paths []string
	named := regexp.MustCompile(`[a-z0-9_/-]+\.go\b`)
	for _, folder := range []string{"api", "cmd", "hack", "internal", "pkg", "test"} {
		env.Must(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			paths = append(paths, path)
			text, err := os.ReadFile(path)
			comment := regexp.MustCompile(`(?m)^// (?:Package|Command) (?:.*\n//)*.*`).Find(text)
			for _, name := range named.FindAllString(string(comment), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), name)); err != nil {
					t.Errorf("%s: its package comment names %s: %v", path, name, err)
				}
			}
			return err
		}))
	}
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	env.Must(t, err)
	for _, name := range named.FindAllString(string(text), -1) {
		if !slices.ContainsFunc(paths, func(path string) bool { return strings.HasSuffix(path, "/"+name) }) {
			t.Errorf("ARCHITECTURE.md names %s, which is nowhere", name)
		}
	}
}

// anchors are those of the headings of a page, as GitHub makes them.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	env.Must(t, err)
	var found []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		plain := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		found = append(found, "#"+strings.ReplaceAll(plain, " ", "-"))
	}
	return found
}

// mkdocs-material 9.8.1 stores the first choice that fits in the browser. If that is light or dark, the site follows the system no more.
func TestTheSiteFollowsTheColoursOfTheSystem(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "hack/docs/mkdocs.yml"))
	env.Must(t, err)
	_, palette, _ := strings.Cut(string(text), "\n  palette:\n")
	palette, _, _ = strings.Cut(palette, "\nplugins:")
	choices := strings.Split(palette, "    - media: ")[1:]
	if len(choices) != 3 || !strings.HasPrefix(choices[0], `"(prefers-color-scheme)"`) {
		t.Errorf("the first of %d choices is %q", len(choices), choices[0])
	}
	for _, one := range choices {
		if !strings.Contains(one, "toggle:") {
			t.Errorf("no button leads on from %s", one)
		}
	}
}

// A map of 6,500 words sent readers to the code. What a package does is in its comment.
func TestTheArchitectureIsTwoPages(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	env.Must(t, err)
	if words := len(strings.Fields(string(text))); words >= 1500 {
		t.Errorf("ARCHITECTURE.md has %d words", words)
	}
}
