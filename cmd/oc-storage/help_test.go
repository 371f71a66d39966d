package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/csi-operators/csi-operators/internal/plugin"
)

// leaves returns the commands that do something.
func leaves(command *cobra.Command) []*cobra.Command {
	if !command.HasSubCommands() {
		return []*cobra.Command{command}
	}
	var found []*cobra.Command
	for _, below := range command.Commands() {
		found = append(found, leaves(below)...)
	}
	return found
}

func TestEveryCommandHasAnExampleThatItAccepts(t *testing.T) {
	streams := genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard}
	for _, command := range leaves(rootOf(plugin.New(streams), "kubectl storage")) {
		count := 0
		for line := range strings.Lines(command.Example) {
			words := strings.Fields(line)
			if len(words) > 0 && words[0] == "#" {
				continue
			}
			count++
			// Flags keep their values, so each line gets commands of its own.
			root := rootOf(plugin.New(streams), "kubectl storage")
			if !strings.HasPrefix(strings.TrimSpace(line), "kubectl storage ") {
				t.Errorf("example of %q: %q", command.CommandPath(), line)
				continue
			}
			found, left, err := root.Find(words[2:])
			if err != nil || found.CommandPath() != command.CommandPath() {
				t.Errorf("example of %q is one of %q: %v", command.CommandPath(), found.CommandPath(), err)
				continue
			}
			if err := found.ParseFlags(left); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
		if count == 0 {
			t.Errorf("%q has no example", command.CommandPath())
		}
	}
}

func help(t *testing.T, line ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), nil, append([]string{"oc-storage"}, line...), genericiooptions.IOStreams{Out: &out, ErrOut: &out}); err != nil {
		t.Errorf("%q: %v", line, err)
	}
	return out.String()
}

func TestFlagsOfKubectlAreListedByOptionsOnly(t *testing.T) {
	for _, line := range [][]string{{"-h"}, {"share", "-h"}, {"share", "create", "-h"}} {
		text := help(t, line...)
		for words, want := range map[string]bool{
			"--namespace": true, "--output": true, `Use "oc storage options"`: true, "--insecure-skip-tls-verify": false, "--as-uid": false,
		} {
			if strings.Contains(text, words) != want {
				t.Errorf("help of %q says %q: %v\n%s", line, words, !want, text)
			}
		}
	}
	if text := help(t, "options"); !strings.Contains(text, "--insecure-skip-tls-verify") || !strings.Contains(text, "--namespace") {
		t.Error(text)
	}
}

func TestACommandThatIsNearAWrongOneIsNamed(t *testing.T) {
	got := map[string]string{}
	for _, line := range []string{"docter", "share lst", "xyz"} {
		err := run(t.Context(), nil, append([]string{"oc-storage"}, strings.Fields(line)...), genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard})
		if err == nil {
			t.Fatalf("%s succeeds", line)
		}
		_, got[line], _ = strings.Cut(err.Error(), "; did you mean ")
	}
	if diff := cmp.Diff(map[string]string{"docter": `"doctor"?`, "share lst": `"list"?`, "xyz": ""}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
