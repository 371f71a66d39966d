package iam

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

// The guide shows documents with these values, which readers replace.
const (
	exampleAccount  = "123456789012"
	exampleProvider = "oidc.example.com/cluster"
)

// document runs a subcommand of "oc storage iam", which must not read a cluster.
func document(t *testing.T, line ...string) plugintest.Result {
	t.Helper()
	cluster := plugintest.Cluster(t)
	result := plugintest.Run(t, cluster, "", Command, append([]string{"iam"}, line...)...)
	if len(cluster.Reads) > 0 {
		t.Errorf("the cluster is asked %q", cluster.Reads)
	}
	return result
}

func TestTheDocumentsOfTheGuideAreThoseThatArePrinted(t *testing.T) {
	for _, workload := range []string{"controller", "node"} {
		for name, line := range map[string][]string{
			"policy":       {"policy", workload},
			"trust-policy": {"trust-policy", workload, "--account", exampleAccount, "--oidc-provider", exampleProvider},
		} {
			file := workload + "-" + name + ".json"
			want, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guide", "iam", file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), document(t, line...).Out); diff != "" {
				t.Errorf("%s is not as \"make iam\" makes it (-file +printed):\n%s", file, diff)
			}
		}
	}
	if got := document(t, "policy", "node", "-o", "yaml"); !strings.HasPrefix(got.Out, "Statement:\n- Action:\n") {
		t.Errorf("as YAML: %s", got.Text())
	}
}

// The security guide lists exactly these actions.
func TestTheIAMPolicyIsWhatTheCredentialsRequestAsksFor(t *testing.T) {
	for workload, want := range map[driver.Workload][]string{
		driver.Controller: {
			"ec2:DescribeAvailabilityZones", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups", "ec2:GetManagedPrefixListEntries",
			"elasticfilesystem:CreateAccessPoint", "elasticfilesystem:DeleteAccessPoint", "elasticfilesystem:DescribeAccessPoints",
			"elasticfilesystem:DescribeFileSystems", "elasticfilesystem:DescribeMountTargetSecurityGroups", "elasticfilesystem:DescribeMountTargets",
			"elasticfilesystem:TagResource", "elasticfilesystem:UntagResource",
		},
		driver.Node: {"ec2:DescribeAvailabilityZones", "elasticfilesystem:DescribeMountTargets"},
	} {
		policy, err := PolicyOf(workload, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, statement := range policy.Statement {
			got = append(got, statement.Action...)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || policy.Version != "2012-10-17" {
			t.Errorf("%s: version %q, actions (-want +got):\n%s", workload, policy.Version, diff)
		}
	}
}

// Each of these settings needs further actions or conditions.
func TestSettingsOfTheOperatorChangeThePolicy(t *testing.T) {
	for name, example := range map[string]struct {
		line []string
		want []string
	}{
		"mounts with an IAM identity": {[]string{"node", "--setting", "NODE_IAM_MOUNTS=true"}, []string{
			"elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite",
		}},
		"directories are deleted": {[]string{"controller", "--setting", "DELETE_ACCESS_POINT_ROOT_DIR=true"}, []string{
			"elasticfilesystem:ClientMount", "elasticfilesystem:ClientRootAccess", "elasticfilesystem:ClientWrite",
		}},
		"one cluster": {[]string{"controller", "--setting", "IAM_CLUSTER_ID=dev-x7k2p", "--setting", "NODE_IAM_MOUNTS=true"}, []string{
			"kubernetes.io/cluster/dev-x7k2p",
		}},
	} {
		without, with := document(t, "policy", example.line[0]), document(t, append([]string{"policy"}, example.line...)...)
		for _, want := range example.want {
			if strings.Contains(without.Out, want) || !strings.Contains(with.Out, want) {
				t.Errorf("%s: want %s in\n%s\nand not in\n%s", name, want, with.Text(), without.Text())
			}
		}
	}
	for setting, want := range map[string]string{
		"NODE_IAM=true":         "--setting NODE_IAM: the operator of EFS has no such setting",
		"NODE_IAM_MOUNTS=maybe": `environment variable NODE_IAM_MOUNTS="maybe": must be true or false`,
	} {
		if got := document(t, "policy", "node", "--setting", setting); got.Code != plugin.WrongUsage || got.Out != "" || !strings.Contains(got.Err.Error(), want) {
			t.Errorf("%s: want %q, got %s", setting, want, got.Text())
		}
	}
}

// The operator's AWS checks use the controller's role.
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
				"--partition", "aws-us-gov", "--operator-namespace", "openshift-operators",
			},
			principal: "arn:aws-us-gov:iam::123456789012:oidc-provider/a-b.s3.us-gov-west-1.amazonaws.com",
			provider:  "a-b.s3.us-gov-west-1.amazonaws.com",
			accounts:  []any{"system:serviceaccount:openshift-operators:aws-efs-csi-driver-node-sa"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got any
			printed := document(t, append([]string{"trust-policy"}, example.args...)...)
			if err := json.Unmarshal([]byte(printed.Out), &got); err != nil {
				t.Fatalf("%v: %s", err, printed.Text())
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
		"nobody":                     {nil, "takes one argument: controller or node"},
		"somebody else":              {append([]string{"master"}, good[1:]...), "takes one argument: controller or node"},
		"two":                        {append(good, "node"), "takes one argument: controller or node"},
		"an unknown flag":            {append(good, "--region", "a"), "unknown flag: --region"},
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
		"an unknown partition":       {append(good, "--partition", "aws-moon"), `--partition "aws-moon": it must be one of aws, aws-cn, aws-eusc`},
		"no namespace":               {append(good, "--operator-namespace", ""), `--operator-namespace "": `},
		"a namespace with a colon":   {append(good, "--operator-namespace", "a:b"), `--operator-namespace "a:b": `},
		"the user's own namespace":   {append(good, "--namespace", "a"), "--operator-namespace sets the namespace of the operator"},
	} {
		t.Run(name, func(t *testing.T) {
			got := document(t, append([]string{"trust-policy"}, example.args...)...)
			if got.Code != plugin.WrongUsage || !strings.Contains(got.Err.Error(), example.want) || got.Out != "" {
				t.Errorf("want %q, got %s", example.want, got.Text())
			}
		})
	}
}
