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

// sessionName is what CloudTrail says of who used the role.
const sessionName = "aws-efs-csi-driver-operator"

const (
	// maxToken is more than any token has; STS takes 20000 characters.
	maxToken = 32 << 10
	// early is how long before their end credentials are replaced, so that no request is under way with them then.
	early = time.Minute
)

// exchange gets the credentials of a role for a ServiceAccount's token.
type exchange struct {
	sts       *sts.Client
	role      string
	tokenFile string
}

// Retrieve reads the token anew each time: the kubelet replaces it.
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

// repeated is an error of a call that the SDK has repeated as often as it may. The call that needed the credentials is not to be
// repeated because of it, or the attempts would multiply.
type repeated struct{ error }

// RetryableError is what the SDK asks.
func (repeated) RetryableError() bool { return false }

func (r repeated) Unwrap() error { return r.error }

func readToken(name string) (string, error) {
	if name == "" {
		return "", errors.New("there is no file with a ServiceAccount's token to exchange")
	}
	file, err := os.Open(name) //nolint:gosec // The path is the operator's own setting, never the Secret's.
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

// credentials are those of the Secret. settings must have all else.
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
