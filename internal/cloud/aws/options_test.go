package aws

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

func TestEndpointsAreThoseOfTheClusterUnlessTheEnvironmentHasSome(t *testing.T) {
	const private = "https://efs.private.example.com"
	named := map[string]string{"elasticfilesystem": private, "s3": "https://s3.example.com"}
	for name, test := range map[string]struct {
		options     Options
		environment map[string]string
		efs         string
		sts         string
	}{
		"by region":                  {Options{Region: "eu-west-1"}, nil, "https://elasticfilesystem.eu-west-1.amazonaws.com", "https://sts.eu-west-1.amazonaws.com"},
		"China":                      {Options{Region: "cn-north-1"}, nil, "https://elasticfilesystem.cn-north-1.amazonaws.com.cn", "https://sts.cn-north-1.amazonaws.com.cn"},
		"FIPS":                       {Options{Region: "us-east-2", FIPS: true}, nil, "https://elasticfilesystem-fips.us-east-2.amazonaws.com", "https://sts-fips.us-east-2.amazonaws.com"},
		"FIPS in GovCloud":           {Options{Region: "us-gov-west-1", FIPS: true}, nil, "https://elasticfilesystem-fips.us-gov-west-1.amazonaws.com", "https://sts.us-gov-west-1.amazonaws.com"},
		"FIPS is the caller's word":  {Options{Region: "us-east-2"}, map[string]string{"AWS_USE_FIPS_ENDPOINT": "true"}, "https://elasticfilesystem.us-east-2.amazonaws.com", "https://sts.us-east-2.amazonaws.com"},
		"named":                      {Options{Region: "eu-west-1", Endpoints: named}, nil, private, "https://sts.eu-west-1.amazonaws.com"},
		"named, with FIPS":           {Options{Region: "us-east-2", Endpoints: named, FIPS: true}, nil, private, "https://sts-fips.us-east-2.amazonaws.com"},
		"the environment counts":     {Options{Region: "us-east-2", Endpoints: named, FIPS: true}, map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "http://127.0.0.1:1", "http://127.0.0.1:1"},
		"also for one service alone": {Options{Region: "us-east-2", Endpoints: named}, map[string]string{"AWS_ENDPOINT_URL_EFS": "http://127.0.0.1:2"}, "http://127.0.0.1:2", "https://sts.us-east-2.amazonaws.com"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EFS", "AWS_USE_FIPS_ENDPOINT", "AWS_CA_BUNDLE"} {
				t.Setenv(key, "")
			}
			for key, value := range test.environment {
				t.Setenv(key, value)
			}
			environment, err := config.NewEnvConfig()
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []Secret{{AccessKeyID: "AKIA1", SecretAccessKey: "secret"}, {RoleARN: role}} {
				var asked hosts
				options := test.options
				options.MaxAttempts, options.Secret, options.TokenFile = 1, &secret, tokenFile(t, "token")
				options.Config = &sdk.Config{HTTPClient: &asked, ConfigSources: []any{environment}}
				if environment.BaseEndpoint != "" {
					options.Config.BaseEndpoint = &environment.BaseEndpoint
				}
				c, err := New(t.Context(), options)
				if err != nil {
					t.Fatal(err)
				}
				want := []string{test.efs}
				if secret.RoleARN != "" {
					want = []string{test.sts}
				}
				if _, err := c.FileSystems(t.Context()); err == nil || !slices.Equal(asked, want) {
					t.Errorf("%v was asked, want %v: %v", asked, want, err)
				}
			}
		})
	}
}

func TestMoreCertificatesAreTrustedBesideThoseOfTheSystem(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	options := Options{Region: "us-east-1", MaxAttempts: 1, Secret: &Secret{AccessKeyID: "AKIA1", SecretAccessKey: "secret"}}
	list := func() error {
		c, err := New(t.Context(), options)
		if err != nil {
			return err
		}
		_, err = c.FileSystems(t.Context())
		return err
	}
	if err := list(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that nobody knows: %v", err)
	}
	options.RootCAs = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := list(); err != nil {
		t.Errorf("a server whose certificate is trusted: %v", err)
	}
	options.RootCAs = []byte("no certificate")
	if err := list(); err == nil || !strings.Contains(err.Error(), "the CA bundle has no certificate") {
		t.Errorf("no certificate: %v", err)
	}
}
