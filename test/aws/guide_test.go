package aws

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/pkg/efscleanup"
	"github.com/csi-operators/csi-operators/test/env"
)

// blocks are the code blocks of the guide in a language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "guide", "destroy.md"))
	env.Must(t, err)
	var found []string
	for _, block := range regexp.MustCompile("(?ms)^ *```"+language+"\n(.*?)^ *```$").FindAllStringSubmatch(string(text), -1) {
		found = append(found, block[1])
	}
	return found
}

func TestTheCommandsOfTheGuideWork(t *testing.T) {
	c := newCloud(t)
	root, err := env.Root()
	env.Must(t, err)
	folder, plugins, commands := t.TempDir(), t.TempDir(), blocks(t, "bash")
	// oc starts plugins by the names of their files.
	env.Must(t, os.WriteFile(filepath.Join(plugins, "oc"), []byte("#!/bin/sh\nname=$1\nshift\nexec \"oc-$name\" \"$@\"\n"), 0o755))
	if len(commands) != 6 {
		t.Errorf("the guide has %d blocks that can run, want 6", len(commands))
	}
	for _, text := range commands {
		c.Reset(t)
		creates := strings.Contains(text, "efs create")
		if creates {
			c.VPC(of(infra))
		} else {
			c.little()
		}
		command := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail\n"+strings.ReplaceAll(text, " --region", " --poll 1ms --region"))
		command.Dir = folder
		command.Env = append(os.Environ(), "PATH="+plugins+":"+filepath.Join(root, "bin")+":"+os.Getenv("PATH"), "INFRA_ID="+infra, "ACCOUNT="+account,
			"REGION="+region)
		code, _, problems := run(t, command)
		want := 0
		if !creates && !strings.Contains(text, "--yes") {
			// A dry run that finds something.
			want = 4
		}
		if code != want {
			t.Errorf("it ends with %d, want %d:\n%s\n%s", code, want, text, problems)
		}
		if strings.Contains(text, "--yes") || strings.Contains(text, "--delete") {
			c.WantLeft()
		}
	}
}

// policy reads the actions of an IAM policy.
func policy(t *testing.T, text string) []string {
	t.Helper()
	var read struct{ Statement []struct{ Action []string } }
	env.Must(t, json.Unmarshal([]byte(text), &read))
	actions := []string{}
	for _, statement := range read.Statement {
		actions = append(actions, statement.Action...)
	}
	slices.Sort(actions)
	return actions
}

func TestThePoliciesOfTheGuideHaveExactlyTheActionsThatAreCalled(t *testing.T) {
	c := newCloud(t)
	policies := blocks(t, "json")
	if len(policies) != 2 {
		t.Fatalf("the guide has %d policies, want 2", len(policies))
	}
	called := func(more ...string) []string {
		for _, call := range c.Calls() {
			// Everybody may ask who they are.
			if call.Action != "sts:GetCallerIdentity" {
				more = append(more, call.Action)
			}
		}
		slices.Sort(more)
		return slices.Compact(more)
	}
	c.Slow = 1
	c.VPC(of(infra))
	c.Set(nil)
	share := c.create()
	// AWS asks for these beside what is called: for the interface of a mount target, and for tags at a creation.
	creating := called("ec2:DescribeNetworkInterfaces", "ec2:CreateNetworkInterface", "ec2:CreateTags", "elasticfilesystem:TagResource")
	if diff := cmp.Diff(policy(t, policies[1]), creating); diff != "" {
		t.Errorf("actions of create (-guide +called):\n%s", diff)
	}
	c.AccessPoint(share.FileSystem, of(infra))
	c.Set(nil)
	want(t, c.cleanup(), efscleanup.Clean)
	if diff := cmp.Diff(policy(t, policies[0]), called("ec2:DeleteNetworkInterface")); diff != "" {
		t.Errorf("actions of cleanup (-guide +called):\n%s", diff)
	}
}

// What deletes is held to the cluster by a condition, or by the network that the cluster is in.
func TestWhatThePolicyOfACleanupDeletesIsTheClusters(t *testing.T) {
	var read struct {
		Statement []struct {
			Action    []string
			Resource  string
			Condition map[string]map[string]string
		}
	}
	env.Must(t, json.Unmarshal([]byte(blocks(t, "json")[0]), &read))
	deletes := 0
	for _, statement := range read.Statement {
		for _, action := range statement.Action {
			if !strings.Contains(action, ":Delete") {
				continue
			}
			deletes++
			if len(statement.Condition) == 0 {
				t.Errorf("%s has no condition", action)
			}
			if action == "ec2:DeleteNetworkInterface" && (statement.Resource == "*" || statement.Condition["ArnEquals"]["ec2:Vpc"] == "") {
				t.Errorf("%s is not held to one VPC: %v", action, statement)
			}
		}
	}
	if deletes != 5 {
		t.Errorf("%d actions that delete, want 5", deletes)
	}
}

// Every flag is in the guide, and the guide has no other.
func TestTheGuideKnowsEveryFlag(t *testing.T) {
	c := newCloud(t)
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "guide", "destroy.md"))
	env.Must(t, err)
	_, table, _ := strings.Cut(string(text), "\n## Flags\n")
	table, _, _ = strings.Cut(table, "\n## ")
	// The format of the output is a flag of all commands.
	documented, real := []string{}, []string{"o"}
	for line := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, flag := range regexp.MustCompile("`-+([a-z-]+)`").FindAllStringSubmatch(cell, -1) {
			documented = append(documented, flag[1])
		}
	}
	for _, command := range []string{"cleanup", "create"} {
		_, help, _ := run(t, c.program(command, "-h"))
		help, _, _ = strings.Cut(help, "Global Flags")
		for _, flag := range regexp.MustCompile(`(?m)^      --([a-z-]+)`).FindAllStringSubmatch(help, -1) {
			real = append(real, flag[1])
		}
	}
	slices.Sort(documented)
	slices.Sort(real)
	if diff := cmp.Diff(documented, slices.Compact(real)); diff != "" {
		t.Errorf("flags (-guide +program):\n%s", diff)
	}
}
