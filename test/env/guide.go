package env

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Block is one command block of a guide.
type Block struct {
	// Place is the guide and the line, Section the heading above it without its hashes.
	Place, Section, Text string
}

// Blocks are the command blocks of a file in docs/guide that are marked with a language, in order.
func Blocks(root, name, language string) ([]Block, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "guide", name))
	if err != nil {
		return nil, fmt.Errorf("guide: %w", err)
	}
	var found []Block
	fence := regexp.MustCompile("(?ms)^( *)```" + language + "\n(.*?)^ *```$")
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	for _, at := range fence.FindAllSubmatchIndex(text, -1) {
		indent, body := string(text[at[2]:at[3]]), string(text[at[4]:at[5]])
		var lines []string
		for _, line := range strings.Split(body, "\n") {
			lines = append(lines, strings.TrimPrefix(line, indent))
		}
		block := Block{
			Place: fmt.Sprintf("%s:%d", name, strings.Count(string(text[:at[0]]), "\n")+1), Text: strings.Join(lines, "\n"),
		}
		if above := heading.FindAllSubmatch(text[:at[0]], -1); len(above) > 0 {
			block.Section = string(above[len(above)-1][1])
		}
		found = append(found, block)
	}
	return found, nil
}

// Kubectls makes a folder with kubectl and oc that talk to the cluster.
func (c *Cluster) Kubectls(folder string) error {
	environment := ""
	for _, variable := range c.kubectlEnvironment() {
		environment += fmt.Sprintf(" %q", variable)
	}
	for _, name := range []string{"kubectl", "oc"} {
		program, err := Binary("clients/" + name)
		if err != nil {
			return err
		}
		script := fmt.Sprintf("#!/bin/sh\nset -eu\nexec env%s %q \"$@\"\n", environment, program)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o700); err != nil {
			return fmt.Errorf("script: %w", err)
		}
	}
	return nil
}

// Run runs a block as a reader would in a folder, which is also where it finds its programs. Readers wait longer; a test that is wrong should
// say so soon.
func (b Block) Run(ctx context.Context, folder string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", fmt.Sprintf("PATH=%q:$PATH\n%s", folder, b.Text))
	command.Dir, command.WaitDelay = folder, time.Second
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s\n%s", b.Place, err, b.Text, output)
	}
	return nil
}
