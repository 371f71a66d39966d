package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// sessionName identifies the operator in CloudTrail.
const sessionName = "aws-efs-csi-driver-operator"

const (
	// maxToken bounds the token file, in bytes. STS accepts up to 20000 characters.
	maxToken = 32 << 10
	// early is the time before the expiry of credentials at which the client renews them, so that they don't expire during a request.
	early = time.Minute
)

// exchange exchanges a ServiceAccount's token for the credentials of a role.
type exchange struct {
	sts       *sts.Client
	role      string
	tokenFile string
}

// Retrieve reads the token file each time, because the kubelet rotates the token.
func (e exchange) Retrieve(ctx context.Context) (sdk.Credentials, error) {
	const action = "sts:AssumeRoleWithWebIdentity"
	token, err := readToken(e.tokenFile)
	if err != nil {
		return sdk.Credentials{}, repeated{failed(action, e.role, err)}
	}
	answer, err := e.sts.AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{
		RoleArn: &e.role, RoleSessionName: sdk.String(sessionName), WebIdentityToken: &token,
	})
	if err != nil {
		return sdk.Credentials{}, repeated{failed(action, e.role, err)}
	}
	if answer.Credentials == nil || sdk.ToString(answer.Credentials.AccessKeyId) == "" {
		return sdk.Credentials{}, repeated{failed(action, e.role, errors.New("the answer has no credentials"))}
	}
	return sdk.Credentials{
		AccessKeyID: sdk.ToString(answer.Credentials.AccessKeyId), SecretAccessKey: sdk.ToString(answer.Credentials.SecretAccessKey),
		SessionToken: sdk.ToString(answer.Credentials.SessionToken), Source: sessionName,
		CanExpire: true, Expires: sdk.ToTime(answer.Credentials.Expiration),
	}, nil
}

// repeated wraps the error of a credentials call that the SDK has already retried. Without this wrapper, the SDK would also retry the call that needs
// the credentials, and the attempts would multiply.
type repeated struct{ error }

// RetryableError tells the SDK not to retry.
func (repeated) RetryableError() bool { return false }

func (r repeated) Unwrap() error { return r.error }

func readToken(name string) (string, error) {
	if name == "" {
		return "", errors.New("no file with a ServiceAccount's token is configured")
	}
	file, err := os.Open(name) //nolint:gosec // The path is from the operator's settings, never from the Secret.
	if err != nil {
		return "", fmt.Errorf("read the ServiceAccount's token: %w", err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("read the ServiceAccount's token: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || len(content) > maxToken {
		return "", fmt.Errorf("the ServiceAccount's token in %s is empty or longer than %d bytes", name, maxToken)
	}
	return token, nil
}

// credentials returns a provider for the Secret's credentials. The caller must already have set all other fields of settings.
func (o *Options) credentials(settings sdk.Config) sdk.CredentialsProvider {
	if o.Secret.RoleARN == "" {
		keys := sdk.Credentials{
			AccessKeyID: o.Secret.AccessKeyID, SecretAccessKey: o.Secret.SecretAccessKey, SessionToken: o.Secret.SessionToken, Source: "Secret",
		}
		return sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) { return keys, nil })
	}
	settings.Credentials = sdk.AnonymousCredentials{}
	return sdk.NewCredentialsCache(exchange{sts: sts.NewFromConfig(settings, o.sts), role: o.Secret.RoleARN, tokenFile: o.TokenFile},
		func(cache *sdk.CredentialsCacheOptions) { cache.ExpiryWindow = early })
}
