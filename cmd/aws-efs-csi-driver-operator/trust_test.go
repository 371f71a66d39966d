package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/manager"
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

// A token that the trust policy does not mean would be refused by STS, on clusters with STS only.
func TestThePodOfTheOperatorHasATokenThatTheRoleTrusts(t *testing.T) {
	manifest, err := os.ReadFile(filepath.Join("..", "..", "config", "manager", "manager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(manifest, &deployment); err != nil {
		t.Fatal(err)
	}
	found, err := renderAccess(driver.Controller, manager.DefaultNamespace)
	if err != nil {
		t.Fatal(err)
	}
	want, err := found.audience(driver.Controller)
	if err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	if !slices.Contains(found.request.Spec.ServiceAccountNames, pod.ServiceAccountName) {
		t.Errorf("the role of %v is not for %s", found.request.Spec.ServiceAccountNames, pod.ServiceAccountName)
	}
	got, err := access{objects: []client.Object{&deployment}}.audience(driver.Controller)
	if err != nil || got != want {
		t.Errorf("the operator has a token for %q, want %q: %v", got, want, err)
	}
	files := map[string]string{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		for _, volume := range pod.Volumes {
			if volume.Name == mount.Name && volume.Projected != nil {
				files[path.Join(mount.MountPath, volume.Projected.Sources[0].ServiceAccountToken.Path)] = mount.Name
			}
		}
	}
	for _, variable := range pod.Containers[0].Env {
		if variable.Name == "AWS_WEB_IDENTITY_TOKEN_FILE" && files[variable.Value] == "" {
			t.Errorf("%s is %s, and no token is there: %v", variable.Name, variable.Value, files)
		}
	}
	if len(files) != 1 {
		t.Errorf("the tokens are %v, want one", files)
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
