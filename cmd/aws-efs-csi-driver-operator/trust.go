package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/manager"
)

// trust is the document that says who may assume an IAM role.
type trust struct {
	Version   string
	Statement []trustStatement
}

type trustStatement struct {
	Effect    string
	Principal map[string]string
	Action    string
	Condition map[string]map[string]any
}

type trustOptions struct {
	workload                                driver.Workload
	account, provider, partition, namespace string
}

// printTrustPolicy prints who may assume the role of the controller or the nodes: the ServiceAccounts of the
// CredentialsRequest, with a token for the audience that the pods ask for.
func printTrustPolicy(out io.Writer, args []string) error {
	options, err := parseTrust(args)
	if err != nil {
		return err
	}
	found, err := renderAccess(options.workload, options.namespace)
	if err != nil {
		return err
	}
	audience, err := found.audience(options.workload)
	if err != nil {
		return err
	}
	var subjects []string
	for _, name := range found.request.Spec.ServiceAccountNames {
		subjects = append(subjects, fmt.Sprintf("system:serviceaccount:%s:%s", found.request.Spec.SecretRef.Namespace, name))
	}
	if len(subjects) == 0 {
		return fmt.Errorf("CredentialsRequest %s names no ServiceAccount", found.request.Name)
	}
	return printJSON(out, "IAM document", trust{Version: policyVersion, Statement: []trustStatement{{
		Effect:    "Allow",
		Principal: map[string]string{"Federated": fmt.Sprintf("arn:%s:iam::%s:oidc-provider/%s", options.partition, options.account, options.provider)},
		Action:    "sts:AssumeRoleWithWebIdentity",
		Condition: map[string]map[string]any{"StringEquals": {options.provider + ":aud": audience, options.provider + ":sub": subjects}},
	}}})
}

func parseTrust(args []string) (trustOptions, error) {
	var options trustOptions
	flags := flag.NewFlagSet("aws-efs-csi-driver-operator iam-trust-policy controller|node", flag.ContinueOnError)
	flags.StringVar(&options.account, "account", "", "`ID` of the AWS account with the role, 12 digits")
	flags.StringVar(&options.provider, "oidc-provider", "",
		"`issuer` of the cluster's tokens, host and path: spec.serviceAccountIssuer of Authentication cluster, with or without https://")
	flags.StringVar(&options.partition, "partition", "aws", "`partition` of AWS: aws, aws-us-gov or aws-cn")
	flags.StringVar(&options.namespace, "namespace", manager.DefaultNamespace, "`namespace` of the operator and the driver")
	if len(args) > 0 && hasCredentials(args[0]) {
		options.workload, args = driver.Workload(args[0]), args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return options, err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	if options.workload == "" || flags.NArg() > 0 {
		return options, errors.New("iam-trust-policy takes one argument, controller or node, and then flags: iam-trust-policy -h lists them")
	}
	options.provider = strings.TrimPrefix(options.provider, "https://")
	return options, options.check()
}

// check refuses what would make a document that AWS takes but that fits no token.
func (o trustOptions) check() error {
	if !regexp.MustCompile(`^[0-9]{12}$`).MatchString(o.account) {
		return fmt.Errorf("--account %q: the ID of an AWS account has 12 digits", o.account)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(/[A-Za-z0-9._~-]+)*$`).MatchString(o.provider) {
		return fmt.Errorf("--oidc-provider %q: it must be the host and the path of the issuer, like oidc.example.com/cluster: "+
			"oc get authentication cluster -o jsonpath='{.spec.serviceAccountIssuer}' prints it", o.provider)
	}
	partitions := []string{"aws", "aws-us-gov", "aws-cn"}
	if !slices.Contains(partitions, o.partition) {
		return fmt.Errorf("--partition %q: it must be one of %s", o.partition, strings.Join(partitions, ", "))
	}
	if wrong := validation.IsDNS1123Label(o.namespace); len(wrong) > 0 {
		return fmt.Errorf("--namespace %q: %s", o.namespace, wrong[0])
	}
	return nil
}

// audience is the one of the tokens that the pods of a workload show to AWS.
func (a access) audience(workload driver.Workload) (string, error) {
	for _, object := range a.objects {
		var pods corev1.PodSpec
		switch object := object.(type) {
		case *appsv1.Deployment:
			if workload != driver.Controller {
				continue
			}
			pods = object.Spec.Template.Spec
		case *appsv1.DaemonSet:
			if workload != driver.Node {
				continue
			}
			pods = object.Spec.Template.Spec
		default:
			continue
		}
		for _, volume := range pods.Volumes {
			if volume.Projected == nil {
				continue
			}
			for _, source := range volume.Projected.Sources {
				if source.ServiceAccountToken != nil {
					return source.ServiceAccountToken.Audience, nil
				}
			}
		}
	}
	return "", fmt.Errorf("the pods of the %s have no token for AWS", workload)
}
