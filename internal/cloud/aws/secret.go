package aws

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

// Keys of a Secret with credentials. The cloud-credential-operator and ccoctl write these keys.
const (
	keyID     = "aws_access_key_id"
	keySecret = "aws_secret_access_key"
	keyFile   = "credentials"
)

// maxCredentials limits the size of a credentials file, in bytes.
const maxCredentials = 16 << 10

// Secret is the content of a Kubernetes Secret with access keys or a role. It never prints its content.
type Secret struct {
	AccessKeyID, SecretAccessKey, SessionToken string
	// RoleARN is the role to assume with the ServiceAccount's token. It is empty if the Secret has access keys.
	RoleARN string
}

const redacted = "credentials that are not shown"

func (Secret) String() string { return redacted }

// GoString redacts the content for %#v.
func (Secret) GoString() string { return redacted }

// LogValue redacts the content for slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON redacts the content for loggers that write JSON.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// ReadSecret reads a Secret's access keys or its AWS configuration file. Access keys take precedence, as in the driver's environment. In mint mode,
// the file repeats the access keys of the Secret. Errors quote no values.
func ReadSecret(data map[string][]byte) (Secret, error) {
	s := Secret{AccessKeyID: strings.TrimSpace(string(data[keyID])), SecretAccessKey: strings.TrimSpace(string(data[keySecret]))}
	if s.AccessKeyID == "" || s.SecretAccessKey == "" {
		if len(data[keyFile]) == 0 {
			return Secret{}, fmt.Errorf("AWS: the Secret needs keys %s and %s, or key %s", keyID, keySecret, keyFile)
		}
		settings, err := readDefaultProfile(data[keyFile])
		if err != nil {
			return Secret{}, fmt.Errorf("AWS: key %s of the Secret: %w", keyFile, err)
		}
		if s, err = fromProfile(settings); err != nil {
			return Secret{}, fmt.Errorf("AWS: key %s of the Secret: %w", keyFile, err)
		}
	}
	// The values become part of an HTTP header, so reject characters that a header must not have.
	for name, value := range map[string]string{keyID: s.AccessKeyID, keySecret: s.SecretAccessKey, "aws_session_token": s.SessionToken} {
		if len(value) > maxCredentials || !regexp.MustCompile(`^[!-~]*$`).MatchString(value) {
			return Secret{}, fmt.Errorf("AWS: %s of the Secret is too long, or has invalid characters", name)
		}
	}
	return s, nil
}

// fromProfile reads the access keys or the role. If the profile has both, the access keys take precedence, as in the SDK.
func fromProfile(settings map[string]string) (Secret, error) {
	if settings[keyID] != "" && settings[keySecret] != "" {
		return Secret{AccessKeyID: settings[keyID], SecretAccessKey: settings[keySecret], SessionToken: settings["aws_session_token"]}, nil
	}
	role := settings["role_arn"]
	if role == "" {
		return Secret{}, fmt.Errorf("section [default] needs %s and %s, or role_arn", keyID, keySecret)
	}
	if !regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]{1,576}$`).MatchString(role) {
		return Secret{}, errors.New("role_arn is not the ARN of an IAM role, such as arn:aws:iam::<account>:role/<name>")
	}
	return Secret{RoleARN: role}, nil
}

// externalSettings lists settings that refer to credentials outside of the Secret. The operator rejects them, so that a Secret can't make it run a
// program, open a file or call another server.
func externalSettings() []string {
	return []string{
		"credential_process", "credential_source", "source_profile", "mfa_serial", "login_session",
		"sso_session", "sso_account_id", "sso_role_name", "sso_start_url",
	}
}

// readDefaultProfile reads section [default] of an AWS configuration file. It ignores web_identity_token_file, because the operator always uses its
// own pod's token. It also ignores region and endpoints, because the cluster defines them.
func readDefaultProfile(content []byte) (map[string]string, error) {
	if len(content) > maxCredentials {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(content), maxCredentials)
	}
	known := []string{keyID, keySecret, "aws_session_token", "role_arn"}
	settings, inside, nested := map[string]string{}, false, false
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == '#' || text[0] == ';':
			continue
		case text[0] == '[':
			name, _, closed := strings.Cut(text[1:], "]")
			if !closed {
				return nil, fmt.Errorf("line %d: the section header has no closing bracket", number)
			}
			inside, nested = strings.TrimSpace(name) == "default", false
			continue
		case !inside, nested && strings.ContainsAny(line[:1], " \t"):
			// Indented lines are nested settings, such as those below s3.
			continue
		}
		key, value, is := setting(text)
		if !is {
			return nil, fmt.Errorf("line %d is neither a section nor a setting", number)
		}
		nested = value == ""
		if _, twice := settings[key]; twice {
			return nil, fmt.Errorf("line %d: %s is set twice", number, key)
		}
		if slices.Contains(externalSettings(), key) {
			return nil, fmt.Errorf("line %d: %s is not supported: set %s and %s, or role_arn, instead", number, key, keyID, keySecret)
		}
		if slices.Contains(known, key) {
			settings[key] = value
		}
	}
	return settings, nil
}

// setting splits a line into key and value, and drops a trailing comment.
func setting(text string) (key, value string, is bool) {
	for _, begin := range []string{" #", " ;", "\t#", "\t;"} {
		text, _, _ = strings.Cut(text, begin)
	}
	key, value, is = strings.Cut(text, "=")
	return strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value), is
}
