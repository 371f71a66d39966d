package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/test/env"
)

// The blocks are pasted as they are into a shell that goes on after a failure. git and oc are programs of the test.
func TestTheCommandsOfTheReadmeApplyNothingWithoutARelease(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	env.Must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Install the EFS driver\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var pasted strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		pasted.WriteString(block[1])
	}
	for tag, want := range map[string][]string{
		"": nil, "v5.1.0": {"apply -f bundle/install/", "apply -f config/limits/", "apply -f config/samples/clustercsidriver.yaml"},
	} {
		folder := t.TempDir()
		for name, program := range map[string]string{
			"git": "case $1 in clone) mkdir csi-operators && touch csi-operators/VERSION;; describe) echo " + tag + `; [ "` + tag + `" ];; *) [ "$2" ];; esac`,
			"oc":  `printf "%s\n" "$*" >> "$0.log"`,
		} {
			env.Must(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+program+"\n"), 0o700))
		}
		shell := exec.CommandContext(t.Context(), "bash", "-c", pasted.String())
		shell.Dir, shell.Env = folder, append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
		// The exit code is that of the last command.
		output, _ := shell.CombinedOutput()
		log, err := os.ReadFile(filepath.Join(folder, "oc.log"))
		env.Must(t, err)
		var applied []string
		for line := range strings.Lines(string(log)) {
			if strings.HasPrefix(line, "apply ") {
				applied = append(applied, strings.TrimSpace(line))
			}
		}
		if diff := cmp.Diff(want, applied); diff != "" {
			t.Errorf("tag %q: applied (-want +got):\n%s\n%s", tag, diff, output)
		}
	}
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
