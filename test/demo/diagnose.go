package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/csi-operators/csi-operators/test/env"
)

// diagnose prints what "oc storage status" and "oc storage doctor" say. A finding of doctor is no failure of the demonstration.
func (d *demo) diagnose(ctx context.Context) error {
	binary, err := env.Binary("oc-storage")
	if err != nil {
		return err
	}
	for _, name := range []string{"status", "doctor"} {
		d.say("\"oc storage %s\" (bin/oc-storage %s) says:", name, name)
		command := exec.CommandContext(ctx, binary, name)
		command.Env = append(os.Environ(), "KUBECONFIG="+d.cluster.Kubeconfig())
		output, err := command.CombinedOutput()
		fmt.Println("           " + strings.ReplaceAll(strings.TrimSpace(string(output)), "\n", "\n           "))
		// Its exit code says whether something was found.
		if failed := new(exec.ExitError); err != nil && (!errors.As(err, &failed) || failed.ExitCode() < found) {
			return fmt.Errorf("oc storage %s: %w", name, err)
		}
	}
	return nil
}

// found is the least exit code of oc storage with which it has done its work, and found something.
const found = 3
