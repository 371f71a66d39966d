// Package iam prints the IAM documents of the EFS driver. In clusters with STS, administrators create the IAM roles from these documents. The package
// derives the documents from the rendered driver.
package iam

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// policyVersion is the version of the IAM policy language.
const policyVersion = "2012-10-17"

// Policy is the IAM document that lists the actions for which a role or user has permission.
type Policy struct {
	Version   string
	Statement []Statement
}

// Statement is a part of a Policy.
type Statement struct {
	Effect    string
	Action    []string
	Resource  string
	Condition map[string]map[string]string `json:",omitempty"`
}

// Trust is the document that says who can assume an IAM role.
type Trust struct {
	Version   string
	Statement []TrustStatement
}

// TrustStatement is a part of a Trust.
type TrustStatement struct {
	Effect    string
	Principal map[string]string
	Action    string
	Condition map[string]map[string]any
}

// TrustOptions are the inputs of TrustOf.
type TrustOptions struct {
	Workload driver.Workload
	// Account is the ID of the AWS account. Provider is the issuer of the cluster's tokens, without https://.
	Account, Provider, Partition, Namespace string
}

// PolicyOf returns the policy that a workload's CredentialsRequest asks for. Parameter settings has the settings of the operator.
func PolicyOf(workload driver.Workload, settings map[string]string) (Policy, error) {
	for variable := range settings {
		if !slices.ContainsFunc(awsefs.Driver().Settings, func(one driver.Setting) bool { return one.Variable == variable }) {
			return Policy{}, plugin.Usage("--setting %s: the operator of EFS has no such setting", variable)
		}
	}
	found, err := renderAccess(workload, kube.DefaultNamespace, settings)
	if err != nil {
		return Policy{}, err
	}
	document := Policy{Version: policyVersion}
	for _, entry := range found.request.Spec.ProviderSpec.StatementEntries {
		document.Statement = append(document.Statement, Statement{entry.Effect, entry.Action, entry.Resource, entry.PolicyCondition})
	}
	return document, nil
}

// TrustOf returns the trust policy for the IAM role of a workload. It lets the ServiceAccounts of the workload's CredentialsRequest assume the role,
// with a token for the audience of the workload's pods.
func TrustOf(options TrustOptions) (Trust, error) {
	options.Provider = strings.TrimPrefix(options.Provider, "https://")
	if err := options.check(); err != nil {
		return Trust{}, plugin.Usage("%w", err)
	}
	found, err := renderAccess(options.Workload, options.Namespace, nil)
	if err != nil {
		return Trust{}, err
	}
	audience, err := found.audience(options.Workload)
	if err != nil {
		return Trust{}, err
	}
	var subjects []string
	for _, name := range found.request.Spec.ServiceAccountNames {
		subjects = append(subjects, fmt.Sprintf("system:serviceaccount:%s:%s", found.request.Spec.SecretRef.Namespace, name))
	}
	if len(subjects) == 0 {
		return Trust{}, fmt.Errorf("CredentialsRequest %s names no ServiceAccount", found.request.Name)
	}
	return Trust{Version: policyVersion, Statement: []TrustStatement{{
		Effect:    "Allow",
		Principal: map[string]string{"Federated": fmt.Sprintf("arn:%s:iam::%s:oidc-provider/%s", options.Partition, options.Account, options.Provider)},
		Action:    "sts:AssumeRoleWithWebIdentity",
		Condition: map[string]map[string]any{"StringEquals": {options.Provider + ":aud": audience, options.Provider + ":sub": subjects}},
	}}}, nil
}

// check rejects invalid options. AWS would accept a document with some of these options, but no token of the cluster would match the document.
func (o TrustOptions) check() error {
	if !regexp.MustCompile(`^[0-9]{12}$`).MatchString(o.Account) {
		return fmt.Errorf("--account %q: the ID of an AWS account has 12 digits", o.Account)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(/[A-Za-z0-9._~-]+)*$`).MatchString(o.Provider) {
		return fmt.Errorf("--oidc-provider %q: it must be the host and the path of the issuer, like oidc.example.com/cluster: "+
			"oc get authentication cluster -o jsonpath='{.spec.serviceAccountIssuer}' prints it", o.Provider)
	}
	if !slices.Contains(plugin.Partitions(), o.Partition) {
		return fmt.Errorf("--partition %q: it must be one of %s", o.Partition, strings.Join(plugin.Partitions(), ", "))
	}
	if wrong := validation.IsDNS1123Label(o.Namespace); len(wrong) > 0 {
		return fmt.Errorf("--operator-namespace %q: %s", o.Namespace, wrong[0])
	}
	return nil
}
