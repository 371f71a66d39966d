package aws

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
)

// client calls a server that answers every request with an EFS error, or with an empty list if code is empty.
func client(t *testing.T, options Options, status int, code string) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if code != "" {
			w.Header().Set("X-Amzn-Errortype", code)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"Message": "AWS says why"}`))
	}))
	t.Cleanup(server.Close)
	for key, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "very-secret", "AWS_CONFIG_FILE": "/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(key, value)
	}
	options.Region = "us-east-1"
	c, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestARegionMustBeGiven(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	if _, err := New(t.Context(), Options{}); err == nil {
		t.Error("the region of the environment is taken")
	}
}

// hosts is an HTTP client that records the hosts of requests, and sends none.
type hosts []string

func (h *hosts) Do(request *http.Request) (*http.Response, error) {
	*h = append(*h, request.URL.Scheme+"://"+request.URL.Host)
	return nil, errors.New("no network here")
}

func TestEndpointsFollowTheRegionAndTheConfigurationOfAWS(t *testing.T) {
	// Which this client could not be given.
	t.Setenv("AWS_CA_BUNDLE", "")
	t.Setenv("AWS_ACCESS_KEY_ID", "testing")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testing")
	for want, test := range map[string]struct{ region, fips, endpoint string }{
		"https://elasticfilesystem.eu-west-1.amazonaws.com":          {"eu-west-1", "", ""},
		"https://elasticfilesystem.cn-north-1.amazonaws.com.cn":      {"cn-north-1", "", ""},
		"https://elasticfilesystem-fips.us-gov-west-1.amazonaws.com": {"us-gov-west-1", "true", ""},
		"https://elasticfilesystem.us-gov-west-1.amazonaws.com":      {"us-gov-west-1", "", ""},
		"http://127.0.0.1:1": {"eu-west-1", "", "http://127.0.0.1:1"},
	} {
		t.Setenv("AWS_USE_FIPS_ENDPOINT", test.fips)
		t.Setenv("AWS_ENDPOINT_URL", test.endpoint)
		var asked hosts
		settings, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-2"), config.WithHTTPClient(&asked))
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(t.Context(), Options{Region: test.region, Config: &settings, MaxAttempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.FileSystems(t.Context()); err == nil || len(asked) != 1 || asked[0] != want {
			t.Errorf("region %s: %v was asked, want %s: %v", test.region, asked, want, err)
		}
	}
}

func TestTheBudgetHoldsBackRequests(t *testing.T) {
	c := client(t, Options{RequestsPerMinute: 6000}, http.StatusOK, "")
	begin := time.Now()
	const requests = burst + 30
	for range requests {
		if _, err := c.FileSystems(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// After the burst, a hundred a second.
	if took := time.Since(begin); took < 280*time.Millisecond {
		t.Errorf("%d requests took %s", requests, took)
	}
	if c.Requests() != requests {
		t.Errorf("%d of %d requests were counted", c.Requests(), requests)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, err := c.FileSystems(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("who is not waited for any more gets %v", err)
	}
}

func TestErrorsSayWhichCallFailedForWhat(t *testing.T) {
	for name, test := range map[string]struct {
		status   int
		code     string
		is       func(error) bool
		attempts int
	}{
		"not found":     {http.StatusNotFound, "AccessPointNotFound", IsNotFound, 1},
		"in use":        {http.StatusConflict, "FileSystemInUse", IsInUse, 1},
		"throttled":     {http.StatusTooManyRequests, "ThrottlingException", func(error) bool { return true }, 3},
		"throttled 400": {http.StatusBadRequest, "TooManyRequestsException", func(error) bool { return true }, 3},
		"broken":        {http.StatusInternalServerError, "InternalServerError", func(error) bool { return true }, 3},
		"denied": {http.StatusForbidden, "AccessDeniedException", func(err error) bool {
			action, denied := IsAccessDenied(err)
			return denied && action == "elasticfilesystem:DescribeAccessPoints"
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, Options{MaxAttempts: 3, MaxBackoff: time.Millisecond}, test.status, test.code)
			_, err := c.AccessPoint(t.Context(), "fsap-1")
			if err == nil || !test.is(err) {
				t.Fatalf("the error is %v", err)
			}
			if text := err.Error(); text != "elasticfilesystem:DescribeAccessPoints of fsap-1: "+test.code+": AWS says why" {
				t.Errorf("it says %q", text)
			}
			if strings.Contains(err.Error(), "very-secret") {
				t.Error("it says the secret key")
			}
			if c.Requests() != test.attempts {
				t.Errorf("%d attempts, want %d", c.Requests(), test.attempts)
			}
			for other, is := range map[string]func(error) bool{
				"AccessPointNotFound": IsNotFound, "FileSystemInUse": IsInUse, "MountTargetConflict": IsExisting, "UnsupportedAvailabilityZone": IsUnsupportedZone,
			} {
				if is(err) != (other == test.code) {
					t.Errorf("%s is taken for %s", test.code, other)
				}
			}
		})
	}
}

// A response about another object must not decide what is deleted.
func TestAnAnswerAboutAnotherObjectIsAnError(t *testing.T) {
	c := client(t, Options{}, http.StatusOK, "")
	if _, err := c.FileSystem(t.Context(), "fs-1"); err == nil || IsNotFound(err) {
		t.Errorf("no file system: %v", err)
	}
	if _, err := c.AccessPoint(t.Context(), "fsap-1"); err == nil || IsNotFound(err) {
		t.Errorf("no access point: %v", err)
	}
}
