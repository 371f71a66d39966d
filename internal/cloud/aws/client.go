// Package aws makes the few calls of EFS, EC2 and STS that this project needs. Its interfaces are narrow, so that a caller that only reads objects
// can't delete them. Its types don't expose the SDK.
//
// client.go limits the request rate with a retryer of its own, because the SDK asks the retryer for a token before each attempt. With credentials
// from a Secret (secret.go, credentials.go), the client ignores the SDK's own configuration, except for environment variables for endpoints and
// proxies (options.go).
package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"k8s.io/client-go/util/flowcontrol"
)

// Defaults of Options. AWS publishes no request limits for EFS. Ten requests a second is about the load of a user of the console, and leaves
// capacity for the drivers of the account.
const (
	DefaultRequestsPerMinute = 600
	DefaultMaxBackoff        = 20 * time.Second
	DefaultMaxAttempts       = 8
	DefaultTimeout           = 30 * time.Second
	// burst is the number of requests that the client can send without a pause.
	burst = 20
)

// Options configure a Client. The SDK chooses endpoints by region, AWS_ENDPOINT_URL, AWS_USE_FIPS_ENDPOINT and AWS's shared configuration. With
// a Secret, the client ignores the shared configuration and all other credentials.
type Options struct {
	// Region is required, so that a forgotten configuration file can't choose the region.
	Region string
	// Secret has the credentials. Without it, the client uses the SDK's default chain.
	Secret *Secret
	// TokenFile is the ServiceAccount's token, which STS exchanges for credentials of the Secret's role.
	TokenFile string
	// Endpoints maps the service names of an Infrastructure (elasticfilesystem, ec2, sts) to URLs. AWS_ENDPOINT_URL and its variants take
	// precedence.
	Endpoints map[string]string
	// FIPS selects the FIPS endpoints of all services that Endpoints does not name. Where AWS has no FIPS endpoint, the SDK invents a host name. So the
	// caller must check that the endpoint exists.
	FIPS bool
	// RootCAs are PEM certificates that the client trusts in addition to the system's.
	RootCAs []byte
	// Wrap, if set, wraps the transport of the SDK's HTTP client.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Config has the credentials and the HTTP client of a program that uses the SDK itself; nil means the SDK's default chain.
	Config *sdk.Config
	// RequestsPerMinute limits requests, including retries; 0 means DefaultRequestsPerMinute.
	RequestsPerMinute int
	// MaxBackoff caps the exponential backoff between retries; 0 means DefaultMaxBackoff.
	MaxBackoff time.Duration
	// MaxAttempts limits the attempts of a request, including the first; 0 means DefaultMaxAttempts.
	MaxAttempts int
	// Timeout limits one attempt; 0 means DefaultTimeout. With Config, the client ignores Timeout and RootCAs.
	Timeout time.Duration
}

// Client calls AWS. All of its users share the rate limit. It is safe for concurrent use.
type Client struct {
	region   string
	efs      *efs.Client
	ec2      *ec2.Client
	sts      *sts.Client
	requests atomic.Int64
}

// New creates a client. It sends no request.
func New(ctx context.Context, options Options) (*Client, error) {
	if options.Region == "" {
		return nil, errors.New("AWS: no region is given")
	}
	c := &Client{region: options.Region}
	settings, err := options.load(ctx)
	if err != nil {
		return nil, err
	}
	settings.Region = options.Region
	if options.Wrap != nil {
		settings.HTTPClient = doer{options.Wrap(tripper{settings.HTTPClient})}
	}
	retryer := c.retryer(options)
	settings.Retryer = func() sdk.Retryer { return retryer }
	settings.RetryMaxAttempts = 0
	if options.Secret != nil {
		settings.Credentials = options.credentials(settings)
	}
	c.efs, c.ec2, c.sts = efs.NewFromConfig(settings, options.efs), ec2.NewFromConfig(settings, options.ec2), sts.NewFromConfig(settings, options.sts)
	return c, nil
}

// tripper and doer adapt http.RoundTripper and the SDK's HTTPClient to each other.
type (
	tripper struct{ sdk.HTTPClient }
	doer    struct{ http.RoundTripper }
)

func (t tripper) RoundTrip(request *http.Request) (*http.Response, error) {
	return t.Do(request) //nolint:wrapcheck // Both sides need its type.
}

func (d doer) Do(request *http.Request) (*http.Response, error) {
	return d.RoundTrip(request) //nolint:wrapcheck // Both sides need its type.
}

// Region returns the client's region.
func (c *Client) Region() string { return c.region }

// Requests returns the number of requests sent, including retries.
func (c *Client) Requests() int { return int(c.requests.Load()) }

func (c *Client) retryer(options Options) sdk.RetryerV2 {
	perMinute := cmp.Or(options.RequestsPerMinute, DefaultRequestsPerMinute)
	return &budgeted{
		Standard: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = cmp.Or(options.MaxAttempts, DefaultMaxAttempts)
			o.MaxBackoff = cmp.Or(options.MaxBackoff, DefaultMaxBackoff)
			o.Backoff = retry.NewExponentialJitterBackoff(o.MaxBackoff)
			// Turn off the SDK's own limit of retries, because a long run would fail at this limit after some throttled requests. The rate limit below covers
			// retries, too.
			o.RateLimiter = ratelimit.None
			// Retry after a truncated response, which the SDK does not do by default. AWS may have created an object although the response is truncated or
			// missing. So callers that create objects must first look for existing objects.
			o.Retryables = append(o.Retryables, retry.IsErrorRetryableFunc(isCutOff))
		}),
		limiter: flowcontrol.NewTokenBucketRateLimiter(float32(perMinute)/60, min(burst, perMinute)),
		sent:    &c.requests,
	}
}

// isCutOff reports whether the response was truncated.
func isCutOff(err error) sdk.Ternary {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return sdk.TrueTernary
	}
	return sdk.UnknownTernary
}

// budgeted is the SDK's standard retryer with a rate limit. The SDK asks the retryer for a token before each attempt.
type budgeted struct {
	*retry.Standard
	limiter flowcontrol.RateLimiter
	sent    *atomic.Int64
}

// GetAttemptToken waits until the rate limit allows another request.
func (b *budgeted) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	if err := b.limiter.Wait(ctx); err != nil {
		return nil, fmt.Errorf("wait for the operator's own rate limit of requests to AWS: %w", err)
	}
	b.sent.Add(1)
	return b.Standard.GetAttemptToken(ctx) //nolint:wrapcheck // It never fails.
}

// Identity asks STS for the identity of the credentials.
func (c *Client) Identity(ctx context.Context) (Identity, error) {
	answer, err := c.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return Identity{}, failed("sts:GetCallerIdentity", "these credentials", err)
	}
	return Identity{Account: sdk.ToString(answer.Account), ARN: sdk.ToString(answer.Arn)}, nil
}

// pager reads a list page by page.
type pager[P, O any] interface {
	HasMorePages() bool
	NextPage(ctx context.Context, options ...func(*O)) (*P, error)
}

func list[P, O, T any](ctx context.Context, pages pager[P, O], action, object string, items func(*P) []T) ([]T, error) {
	var found []T
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, failed(action, object, err)
		}
		found = append(found, items(page)...)
	}
	return found, nil
}

// convert converts a response's objects to this package's types.
func convert[F, T any](from []F, one func(*F) T) []T {
	all := make([]T, 0, len(from))
	for i := range from {
		all = append(all, one(&from[i]))
	}
	return all
}
