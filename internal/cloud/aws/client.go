// Package aws holds the few calls of EFS, EC2 and STS that this project makes, behind interfaces that are as narrow as each caller's need, with types
// that have nothing of the SDK. A caller that reads can't delete.
//
// client.go has the budget: the SDK asks the retryer for a token before each attempt. The operator's credentials come from a Secret (secret.go,
// credentials.go). Then nothing of the SDK's own configuration counts, except how the environment says that AWS is reached (options.go).
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

// What Options mean if they say nothing. AWS publishes no limits for the requests of EFS. Ten a second is what a person could
// not tell from the console, and leaves the drivers of the account room.
const (
	DefaultRequestsPerMinute = 600
	DefaultMaxBackoff        = 20 * time.Second
	DefaultMaxAttempts       = 8
	DefaultTimeout           = 30 * time.Second
	// burst is how many requests may follow each other at once.
	burst = 20
)

// Options say how to reach AWS. Endpoints are those of the SDK: by region, with AWS_ENDPOINT_URL, AWS_USE_FIPS_ENDPOINT and
// the shared configuration of AWS. A Secret leaves out the latter, and all other credentials that the SDK would look for.
type Options struct {
	// Region must be given, so that nobody works in the region of a forgotten configuration file.
	Region string
	// Secret has the credentials; nil for those of the SDK's default chain.
	Secret *Secret
	// TokenFile has the ServiceAccount's token that is exchanged for the credentials of the Secret's role.
	TokenFile string
	// Endpoints are the URLs of services, by the names that an Infrastructure has for them: elasticfilesystem, ec2, sts. AWS_ENDPOINT_URL
	// and its like count more.
	Endpoints map[string]string
	// FIPS asks for the FIPS endpoints of all services. The SDK makes them up where AWS has none: the caller has to know. Endpoints
	// that somebody named are taken as they are.
	FIPS bool
	// RootCAs are certificates in PEM that are trusted besides those of the system.
	RootCAs []byte
	// Wrap, if set, puts something between the SDK and its HTTP client, which sees all requests and answers.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Config has the credentials and the HTTP client of a program that uses the SDK itself; nil for the SDK's default chain.
	Config *sdk.Config
	// RequestsPerMinute is the most that is sent, repeated ones included; 0 for DefaultRequestsPerMinute.
	RequestsPerMinute int
	// MaxBackoff caps the random, growing pause before a request is repeated; 0 for DefaultMaxBackoff.
	MaxBackoff time.Duration
	// MaxAttempts is how often a request is sent in all; 0 for DefaultMaxAttempts.
	MaxAttempts int
	// Timeout is how long one attempt may take; 0 for DefaultTimeout. It and RootCAs are not used with Config, which has its own client.
	Timeout time.Duration
}

// Client makes the calls. All of its users share the budget of requests. It is safe for concurrent use.
type Client struct {
	region   string
	efs      *efs.Client
	ec2      *ec2.Client
	sts      *sts.Client
	requests atomic.Int64
}

// New makes a client. It sends nothing yet.
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

// tripper and doer are the same with two names: one request, and its answer.
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

// Region is where the client works.
func (c *Client) Region() string { return c.region }

// Requests is how many requests were sent, repeated ones included.
func (c *Client) Requests() int { return int(c.requests.Load()) }

func (c *Client) retryer(options Options) sdk.RetryerV2 {
	perMinute := cmp.Or(options.RequestsPerMinute, DefaultRequestsPerMinute)
	return &budgeted{
		Standard: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = cmp.Or(options.MaxAttempts, DefaultMaxAttempts)
			o.MaxBackoff = cmp.Or(options.MaxBackoff, DefaultMaxBackoff)
			o.Backoff = retry.NewExponentialJitterBackoff(o.MaxBackoff)
			// The budget bounds repetitions as well. The SDK's own bucket would end a long run in which some are throttled.
			o.RateLimiter = ratelimit.None
			// Nor does the SDK repeat a request whose answer breaks off. Who creates must look for what exists already, as after a
			// connection that ends without an answer.
			o.Retryables = append(o.Retryables, retry.IsErrorRetryableFunc(isCutOff))
		}),
		limiter: flowcontrol.NewTokenBucketRateLimiter(float32(perMinute)/60, min(burst, perMinute)),
		sent:    &c.requests,
	}
}

// isCutOff reports whether the end of an answer is missing.
func isCutOff(err error) sdk.Ternary {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return sdk.TrueTernary
	}
	return sdk.UnknownTernary
}

// budgeted is the SDK's standard retryer with a budget: the SDK asks it for a token before each attempt.
type budgeted struct {
	*retry.Standard
	limiter flowcontrol.RateLimiter
	sent    *atomic.Int64
}

// GetAttemptToken waits until one more request may be sent.
func (b *budgeted) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	if err := b.limiter.Wait(ctx); err != nil {
		return nil, fmt.Errorf("wait for the budget of requests: %w", err)
	}
	b.sent.Add(1)
	return b.Standard.GetAttemptToken(ctx) //nolint:wrapcheck // It never fails.
}

// Identity asks STS whose credentials these are.
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

// convert turns the objects of an answer into ours.
func convert[F, T any](from []F, one func(*F) T) []T {
	all := make([]T, 0, len(from))
	for i := range from {
		all = append(all, one(&from[i]))
	}
	return all
}
