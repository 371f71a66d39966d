package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/manager"
)

// policyVersion is that of the language of IAM policies.
const policyVersion = "2012-10-17"

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
	if len(args) != 1 || !hasCredentials(args[0]) {
		return errors.New("iam-policy takes one argument: controller or node")
	}
	found, err := renderAccess(driver.Workload(args[0]), manager.DefaultNamespace)
	if err != nil {
		return err
	}
	document := policy{Version: policyVersion}
	for _, entry := range found.request.Spec.ProviderSpec.StatementEntries {
		document.Statement = append(document.Statement, statement{entry.Effect, entry.Action, entry.Resource, entry.PolicyCondition})
	}
	return printJSON(out, "IAM document", document)
}

func hasCredentials(workload string) bool {
	return workload == string(driver.Controller) || workload == string(driver.Node)
}

func printJSON(out io.Writer, what string, document any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("print the %s: %w", what, err)
	}
	return nil
}

// access is how a workload gets at AWS: what it asks for, among all that the driver has.
type access struct {
	request *cloudcredentialv1.CredentialsRequest
	objects []client.Object
}

// renderAccess renders the driver as the operator does in a namespace, and finds the workload's CredentialsRequest.
func renderAccess(workload driver.Workload, namespace string) (access, error) {
	efs := awsefs.Driver()
	scheme, err := manager.Scheme()
	if err != nil {
		return access{}, err
	}
	settings, err := efs.ReadSettings(os.Getenv)
	if err != nil {
		return access{}, err
	}
	objects, err := efs.Everything(scheme, namespace, settings)
	if err != nil {
		return access{}, err
	}
	for _, credentials := range efs.Credentials {
		for _, object := range objects {
			request, ok := object.(*cloudcredentialv1.CredentialsRequest)
			if ok && credentials.Workload == workload && request.Name == credentials.Request {
				return access{request, objects}, nil
			}
		}
	}
	return access{}, fmt.Errorf("the %s of %s needs no credentials", workload, efs.Name)
}
