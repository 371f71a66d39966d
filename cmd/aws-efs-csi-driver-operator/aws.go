package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/efshealth"
	"github.com/csi-operators/csi-operators/internal/controller/efshealth/reports"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/prometheus"
)

const (
	// requestsPerMinute limits the operator's requests to AWS, because the operator and the driver share the quota of the AWS account.
	requestsPerMinute = 300
	// The operator retries a failed request to AWS only a few times, because developers wait until the operator has checked their share. The next poll
	// sends a failed request again anyway.
	mostAttempts, longestPause, longestRequest = 4, 2 * time.Second, 10 * time.Second
	// tokenFile is the default of AWS_WEB_IDENTITY_TOKEN_FILE. It is the file with the ServiceAccount token with which the pod authenticates to AWS.
	tokenFile = "/var/run/secrets/openshift/serviceaccount/token"
	// serviceCA is the file with the CA certificates that verify the serving certificates of Services. OpenShift publishes these CA certificates in each
	// namespace, in ConfigMap openshift-service-ca.crt (openshift/kubernetes, openshift-kube-controller-manager/servicecacertpublisher).
	serviceCA = "/var/run/secrets/service-ca/service-ca.crt"
)

// checkAWS adds the controller that checks AWS. If the driver's controller pods have no credentials, the added controller does nothing.
func checkAWS(mgr ctrl.Manager, drivers *clustercsidriver.Reconciler, lookup func(variable string) string) (*efshealth.Reconciler, error) {
	efs := drivers.Driver
	limit, err := strconv.Atoi(drivers.Settings[awsefs.AccessPointLimit])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", awsefs.AccessPointLimit, err)
	}
	token := cmp.Or(lookup("AWS_WEB_IDENTITY_TOKEN_FILE"), tokenFile)
	systems := &efshealth.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder(efs.Operator),
		Driver: efs, Namespace: drivers.Namespace, Secrets: drivers.Credentials.Secrets,
		Controller: efs.CredentialsOf(driver.Controller), Node: efs.CredentialsOf(driver.Node),
		HasInfrastructure: drivers.Kinds[openshift.InfrastructureKind()], Region: lookup("AWS_REGION"), Limit: limit,
		Off: drivers.Settings[awsefs.CheckAWS] == "false",
		Tags: func(infraID string, wanted []configv1.AWSResourceTag) map[string]string {
			cfg := driver.Config{Images: drivers.Images, Settings: drivers.Settings, InfrastructureID: infraID, ResourceTags: wanted}
			return awsefs.AccessPointTags(cfg)
		},
		OwnerTag: driver.ClusterTag, DriverTag: awsefs.DriverTag, Now: time.Now,
		Connect: func(ctx context.Context, options aws.Options) (efshealth.Cloud, error) {
			options.TokenFile, options.FIPS, options.RequestsPerMinute = token, fipsEndpoints(drivers.Environment, options), requestsPerMinute
			options.MaxAttempts, options.MaxBackoff, options.Timeout = mostAttempts, longestPause, longestRequest
			client, err := aws.New(ctx, options)
			if err != nil {
				return nil, fmt.Errorf("connect to AWS: %w", err)
			}
			return client, nil
		},
	}
	if awsefs.WatchesMounts(drivers.Settings, drivers.Kinds) {
		systems.Reports = &reports.Watch{
			Live: mgr.GetAPIReader(), Cache: mgr.GetClient(), Namespace: drivers.Namespace, NodePods: efs.SelectorOf(driver.Node), Now: time.Now,
			Prometheus: &prometheus.Client{
				URL: prometheus.Address, Namespace: drivers.Namespace, TokenFile: prometheus.Token, CAFile: serviceCA,
			},
		}
		drivers.Nodes.Hanging, drivers.Mounted = systems.Reports.Hanging, systems.Reports.Mounted
	}
	for _, predecessor := range drivers.Migration.Predecessors {
		systems.Predecessors = append(systems.Predecessors, predecessor)
	}
	return systems, systems.SetupWithManager(mgr)
}

// checkVariables rejects invalid environment variables for AWS. Without this check, the operator would start with an invalid variable, and later
// report that AWS does not answer. The SDK does not trim surrounding blanks from endpoints (github.com/aws/aws-sdk-go-v2/config v1.33.15,
// env_config.go).
func checkVariables(lookup func(variable string) string) error {
	const endpoint = "an endpoint URL, such as https://vpce.example.com"
	region := regexp.MustCompile(`^(?:` + accept.AWSRegion().Match + `)$`)
	isURL := func(value string) bool {
		parsed, err := url.Parse(value)
		return err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http") && parsed.Hostname() != ""
	}
	var problems []error
	check := func(variable, value, wanted string, isRight func(string) bool) {
		if value != "" && (!isRight(value) || !accept.IsPlain(value) || strings.TrimSpace(value) != value) {
			// Do not print the value, because a URL can contain a password.
			problems = append(problems, fmt.Errorf("environment variable %s: must be %s, without surrounding blanks: correct or remove it in the operator's "+
				"Deployment or in spec.config.env of its Subscription", variable, wanted))
		}
	}
	check("AWS_REGION", lookup("AWS_REGION"), "an AWS region, such as us-east-1", region.MatchString)
	check("AWS_WEB_IDENTITY_TOKEN_FILE", lookup("AWS_WEB_IDENTITY_TOKEN_FILE"), "the absolute path of a file, such as "+tokenFile, filepath.IsAbs)
	for _, service := range []string{"", "_EFS", "_EC2", "_STS"} {
		check("AWS_ENDPOINT_URL"+service, lookup("AWS_ENDPOINT_URL"+service), endpoint, isURL)
	}
	return errors.Join(problems...)
}

// fipsEndpoints reports whether the operator calls the FIPS endpoints of AWS. It applies the same rule as for the driver's pods, with one difference.
// The code that renders the pods can't know whether the Secret has keys or a role. fipsEndpoints knows this, because the operator has read the
// Secret.
func fipsEndpoints(started clustercsidriver.Environment, options aws.Options) bool {
	cfg := driver.Config{
		FIPS: started.FIPS, Settings: started.Settings, Region: options.Region, Kinds: map[schema.GroupKind]bool{driver.CredentialsRequestKind(): true},
		Platform: &configv1.PlatformStatus{AWS: &configv1.AWSPlatformStatus{}},
	}
	for service, url := range options.Endpoints {
		cfg.Platform.AWS.ServiceEndpoints = append(cfg.Platform.AWS.ServiceEndpoints, configv1.AWSServiceEndpoint{Name: service, URL: url})
	}
	if options.Secret != nil {
		cfg.RoleARNs = map[string]string{"the Secret": options.Secret.RoleARN}
	}
	use, _ := awsefs.UsesFIPSEndpoints(cfg)
	return use
}
