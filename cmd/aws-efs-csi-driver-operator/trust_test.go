package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The guide shows documents for these; its readers replace them.
const (
	exampleAccount  = "123456789012"
	exampleProvider = "oidc.example.com/cluster"
)

func TestTheDocumentsOfTheGuideAreThoseThatArePrinted(t *testing.T) {
	for _, workload := range []string{"controller", "node"} {
		var policy, trust bytes.Buffer
		if err := printPolicy(&policy, []string{workload}); err != nil {
			t.Fatal(err)
		}
		if err := printTrustPolicy(&trust, []string{workload, "--account", exampleAccount, "--oidc-provider", exampleProvider}); err != nil {
			t.Fatal(err)
		}
		for name, printed := range map[string]string{"policy": policy.String(), "trust-policy": trust.String()} {
			file := workload + "-" + name + ".json"
			want, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "iam", file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), printed); diff != "" {
				t.Errorf("%s is not as \"make bundle\" makes it (-file +printed):\n%s", file, diff)
			}
		}
	}
}

// The operator looks at AWS with the role of the controller.
func TestOnlyTheAccountsOfTheDriverAndTheOperatorMayAssumeARole(t *testing.T) {
	for name, example := range map[string]struct {
		args                []string
		principal, provider string
		accounts            []any
	}{
		"controller": {
			args:      []string{"controller", "--account", exampleAccount, "--oidc-provider", exampleProvider},
			principal: "arn:aws:iam::123456789012:oidc-provider/oidc.example.com/cluster", provider: exampleProvider,
			accounts: []any{
				"system:serviceaccount:openshift-cluster-csi-drivers:aws-efs-csi-driver-controller-sa",
				"system:serviceaccount:openshift-cluster-csi-drivers:aws-efs-csi-driver-operator",
			},
		},
		"nodes, elsewhere": {
			args: []string{
				"node", "--account", exampleAccount, "--oidc-provider", "https://a-b.s3.us-gov-west-1.amazonaws.com",
				"--partition", "aws-us-gov", "--namespace", "openshift-operators",
			},
			principal: "arn:aws-us-gov:iam::123456789012:oidc-provider/a-b.s3.us-gov-west-1.amazonaws.com",
			provider:  "a-b.s3.us-gov-west-1.amazonaws.com",
			accounts:  []any{"system:serviceaccount:openshift-operators:aws-efs-csi-driver-node-sa"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var printed bytes.Buffer
			if err := printTrustPolicy(&printed, example.args); err != nil {
				t.Fatal(err)
			}
			var got any
			if err := json.Unmarshal(printed.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{
				"Effect": "Allow", "Principal": map[string]any{"Federated": example.principal}, "Action": "sts:AssumeRoleWithWebIdentity",
				"Condition": map[string]any{"StringEquals": map[string]any{
					example.provider + ":aud": "openshift", example.provider + ":sub": example.accounts,
				}},
			}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestATrustPolicyThatFitsNoTokenIsRefused(t *testing.T) {
	good := []string{"controller", "--account", exampleAccount, "--oidc-provider", exampleProvider}
	for name, example := range map[string]struct {
		args []string
		want string
	}{
		"nobody":                     {nil, "takes one argument, controller or node"},
		"somebody else":              {append([]string{"master"}, good[1:]...), "takes one argument, controller or node"},
		"two":                        {append(good, "node"), "takes one argument, controller or node"},
		"an unknown flag":            {append(good, "--region", "a"), "flag provided but not defined: -region"},
		"no account":                 {[]string{"node", "--oidc-provider", exampleProvider}, `--account "": the ID of an AWS account has 12 digits`},
		"a short account":            {append(good, "--account", "12345678901"), "has 12 digits"},
		"an account with a line end": {append(good, "--account", exampleAccount+"\n"), "has 12 digits"},
		"no issuer":                  {good[:3], `--oidc-provider "": it must be the host and the path`},
		"only a scheme":              {append(good, "--oidc-provider", "https://"), `--oidc-provider "": `},
		"another scheme":             {append(good, "--oidc-provider", "http://a.example.com"), "--oidc-provider"},
		"an ARN":                     {append(good, "--oidc-provider", "arn:aws:iam::123456789012:oidc-provider/a"), "--oidc-provider"},
		"an issuer with a space":     {append(good, "--oidc-provider", "a.example.com/ b"), "--oidc-provider"},
		"an issuer with a quote":     {append(good, "--oidc-provider", `a.example.com/"b`), "--oidc-provider"},
		"an issuer with a slash":     {append(good, "--oidc-provider", "a.example.com/"), "--oidc-provider"},
		"an unknown partition":       {append(good, "--partition", "aws-iso"), `--partition "aws-iso": it must be one of aws, aws-us-gov, aws-cn`},
		"no namespace":               {append(good, "--namespace", ""), `--namespace "": `},
		"a namespace with a colon":   {append(good, "--namespace", "a:b"), `--namespace "a:b": `},
	} {
		t.Run(name, func(t *testing.T) {
			var printed bytes.Buffer
			err := printTrustPolicy(&printed, example.args)
			if err == nil || !strings.Contains(err.Error(), example.want) || printed.Len() > 0 {
				t.Errorf("error is %v, want %q; printed %q", err, example.want, printed.String())
			}
		})
	}
}
