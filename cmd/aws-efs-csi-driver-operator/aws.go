package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/efshealth"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

const (
	// requestsPerMinute is the operator's budget: the driver of the same account needs its share.
	requestsPerMinute = 300
	// Developers wait for a few seconds for what AWS says of their share. What fails is tried again some minutes later anyway.
	mostAttempts, longestPause, longestRequest = 4, 2 * time.Second, 10 * time.Second
	// tokenFile is where the pod has its ServiceAccount's token for AWS, unless AWS_WEB_IDENTITY_TOKEN_FILE says otherwise.
	tokenFile = "/var/run/secrets/openshift/serviceaccount/token"
)

// checkAWS adds the controller that checks AWS. It does nothing without the credentials of the driver's controller.
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
	for _, predecessor := range drivers.Migration.Predecessors {
		systems.Predecessors = append(systems.Predecessors, predecessor)
	}
	return systems, systems.SetupWithManager(mgr)
}

// fipsEndpoints reports whether the operator calls FIPS endpoints: where the driver's pods do. Unlike them, it knows whether the Secret has
// keys or a role.
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
