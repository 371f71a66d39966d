package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/plugin/iam"
)

// printPolicy prints what a CredentialsRequest asks for as an IAM policy, for clusters on which an administrator makes the
// role or user by hand. The settings in the environment count.
func printPolicy(out io.Writer, args []string) error {
	if len(args) != 1 || !iam.HasCredentials(args[0]) {
		return errors.New("iam-policy takes one argument: controller or node")
	}
	document, err := iam.PolicyOf(driver.Workload(args[0]), os.Getenv)
	if err != nil {
		return err
	}
	return printJSON(out, "IAM document", document)
}

func printJSON(out io.Writer, what string, document any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("print the %s: %w", what, err)
	}
	return nil
}
