package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/manager"
)

// policy is an IAM policy document.
type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Effect    string
	Action    []string
	Resource  string
	Condition map[string]map[string]string `json:",omitempty"`
}

// printPolicy prints what a CredentialsRequest asks for as an IAM policy, for clusters on which an administrator makes the
// role or user by hand. The settings in the environment count.
func printPolicy(out io.Writer, args []string) error {
	if len(args) != 1 || (args[0] != string(driver.Controller) && args[0] != string(driver.Node)) {
		return errors.New("iam-policy takes one argument: controller or node")
	}
	efs, err := awsefs.Driver()
	if err != nil {
		return err
	}
	request, err := requestOf(efs, driver.Workload(args[0]))
	if err != nil {
		return err
	}
	document := policy{Version: "2012-10-17"}
	for _, entry := range request.Spec.ProviderSpec.StatementEntries {
		document.Statement = append(document.Statement, statement{entry.Effect, entry.Action, entry.Resource, entry.PolicyCondition})
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("print the IAM policy: %w", err)
	}
	return nil
}

func requestOf(efs driver.Driver, workload driver.Workload) (*cloudcredentialv1.CredentialsRequest, error) {
	scheme, err := manager.Scheme()
	if err != nil {
		return nil, err
	}
	settings, err := efs.ReadSettings(os.Getenv)
	if err != nil {
		return nil, err
	}
	objects, err := efs.Everything(scheme, manager.DefaultNamespace, settings)
	if err != nil {
		return nil, err
	}
	for _, credentials := range efs.Credentials {
		for _, object := range objects {
			request, ok := object.(*cloudcredentialv1.CredentialsRequest)
			if ok && credentials.Workload == workload && request.Name == credentials.Request {
				return request, nil
			}
		}
	}
	return nil, fmt.Errorf("the %s of %s needs no credentials", workload, efs.Name)
}
