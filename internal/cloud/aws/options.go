package aws

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// load finds the settings of the SDK.
func (o *Options) load(ctx context.Context) (sdk.Config, error) {
	if o.Config != nil {
		return o.Config.Copy(), nil
	}
	client, err := o.client()
	if err != nil {
		return sdk.Config{}, err
	}
	if o.Secret == nil {
		settings, err := config.LoadDefaultConfig(ctx, config.WithRegion(o.Region), config.WithHTTPClient(client))
		if err != nil {
			return sdk.Config{}, fmt.Errorf("AWS: read the configuration: %w", err)
		}
		return settings, nil
	}
	// Of the environment only what says how to reach AWS counts. Files and credentials of it are for the default chain, which
	// would also ask the node that the pod runs on.
	environment, err := config.NewEnvConfig()
	if err != nil {
		return sdk.Config{}, fmt.Errorf("AWS: read the configuration: %w", err)
	}
	settings := sdk.Config{HTTPClient: client, ConfigSources: []any{environment}}
	if environment.BaseEndpoint != "" {
		settings.BaseEndpoint = &environment.BaseEndpoint
	}
	return settings, nil
}

// client follows the proxies of the environment, and trusts further certificates if there are any.
func (o *Options) client() (*awshttp.BuildableClient, error) {
	client := awshttp.NewBuildableClient().WithTimeout(cmp.Or(o.Timeout, DefaultTimeout))
	if len(o.RootCAs) == 0 {
		return client, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("AWS: read the certificates that the system trusts: %w", err)
	}
	if !roots.AppendCertsFromPEM(o.RootCAs) {
		return nil, errors.New("AWS: there is no certificate among those to trust: they must be in PEM")
	}
	return client.WithTransportOptions(func(transport *http.Transport) {
		if transport.TLSClientConfig == nil {
			transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		transport.TLSClientConfig.RootCAs = roots
	}), nil
}

func (o *Options) efs(to *efs.Options) {
	o.endpoint("elasticfilesystem", &to.BaseEndpoint, &to.EndpointOptions.UseFIPSEndpoint)
}

func (o *Options) ec2(to *ec2.Options) {
	o.endpoint("ec2", &to.BaseEndpoint, &to.EndpointOptions.UseFIPSEndpoint)
}

func (o *Options) sts(to *sts.Options) {
	o.endpoint("sts", &to.BaseEndpoint, &to.EndpointOptions.UseFIPSEndpoint)
}

// endpoint chooses the endpoint of a service: of the environment, of the options, or by region. The SDK refuses FIPS for endpoints that
// somebody named.
func (o *Options) endpoint(service string, named **string, fips *sdk.FIPSEndpointState) {
	if url := o.Endpoints[service]; *named == nil && url != "" {
		*named = &url
	}
	switch {
	case *named != nil:
		*fips = sdk.FIPSEndpointStateDisabled
	case o.FIPS:
		*fips = sdk.FIPSEndpointStateEnabled
	case o.Secret != nil:
		// The owner of a Secret has decided, and the variable of the environment is a wish for the driver.
		*fips = sdk.FIPSEndpointStateDisabled
	}
}
