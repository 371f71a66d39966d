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

// load loads the SDK's configuration.
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
	// From the environment, read only settings such as endpoints. The SDK's default chain would also read files and credentials, and query the metadata
	// service of the pod's node.
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

// client creates an HTTP client that uses the environment's proxies and trusts RootCAs.
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
		return nil, errors.New("AWS: the CA bundle has no certificate in PEM")
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

// endpoint chooses the endpoint of a service. The environment takes precedence, then the options, then the region. The SDK can't combine FIPS with a
// custom endpoint.
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
		// Ignore AWS_USE_FIPS_ENDPOINT in the environment, which can be a setting for the driver. In this client, only Options.FIPS turns FIPS on.
		*fips = sdk.FIPSEndpointStateDisabled
	}
}
