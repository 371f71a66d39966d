package aws

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

// The keys of a Secret with credentials, as OpenShift's cloud-credential-operator and ccoctl write it.
const (
	keyID     = "aws_access_key_id"
	keySecret = "aws_secret_access_key"
	keyFile   = "credentials"
)

// maxCredentials is the most that anybody has to say in a file of credentials.
const maxCredentials = 16 << 10

// Secret is what a Secret of Kubernetes says of the credentials: either keys or a role. Nothing of it is ever printed.
type Secret struct {
	AccessKeyID, SecretAccessKey, SessionToken string
	// RoleARN is the role that a token of a ServiceAccount is exchanged for; empty if there are keys.
	RoleARN string
}

const redacted = "credentials that are not shown"

func (Secret) String() string { return redacted }

// GoString is what %#v prints.
func (Secret) GoString() string { return redacted }

// LogValue is what package slog logs.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON is what loggers that write JSON log.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// ReadSecret finds the credentials in the data of a Secret: the two keys, or a configuration file of AWS. The keys count if both
// are there, as for the driver, which has them in its environment; in mint mode the file says the same. No error says what was read.
func ReadSecret(data map[string][]byte) (Secret, error) {
	s := Secret{AccessKeyID: strings.TrimSpace(string(data[keyID])), SecretAccessKey: strings.TrimSpace(string(data[keySecret]))}
	if s.AccessKeyID == "" || s.SecretAccessKey == "" {
		if len(data[keyFile]) == 0 {
			return Secret{}, fmt.Errorf("AWS: the Secret has neither %s and %s nor %s", keyID, keySecret, keyFile)
		}
		settings, err := readDefaultProfile(data[keyFile])
		if err != nil {
			return Secret{}, fmt.Errorf("AWS: key %s of the Secret: %w", keyFile, err)
		}
		if s, err = fromProfile(settings); err != nil {
			return Secret{}, fmt.Errorf("AWS: key %s of the Secret: %w", keyFile, err)
		}
	}
	// They become part of a header of HTTP.
	for name, value := range map[string]string{keyID: s.AccessKeyID, keySecret: s.SecretAccessKey, "aws_session_token": s.SessionToken} {
		if len(value) > maxCredentials || !regexp.MustCompile(`^[!-~]*$`).MatchString(value) {
			return Secret{}, fmt.Errorf("AWS: %s of the Secret has characters that no key has, or too many", name)
		}
	}
	return s, nil
}

// fromProfile takes the keys or the role, in the order of the SDK.
func fromProfile(settings map[string]string) (Secret, error) {
	if settings[keyID] != "" && settings[keySecret] != "" {
		return Secret{AccessKeyID: settings[keyID], SecretAccessKey: settings[keySecret], SessionToken: settings["aws_session_token"]}, nil
	}
	role := settings["role_arn"]
	if role == "" {
		return Secret{}, fmt.Errorf("section [default] has neither %s and %s nor role_arn", keyID, keySecret)
	}
	if !regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]{1,576}$`).MatchString(role) {
		return Secret{}, errors.New("role_arn is not the ARN of an IAM role: arn:aws:iam::<account>:role/<name>")
	}
	return Secret{RoleARN: role}, nil
}

// followed are the settings that lead to credentials outside of the Secret. A writer of the Secret must not make the operator run a
// program, open a file or ask another server, so that none is followed.
func followed() []string {
	return []string{
		"credential_process", "credential_source", "source_profile", "mfa_serial", "login_session",
		"sso_session", "sso_account_id", "sso_role_name", "sso_start_url",
	}
}

// readDefaultProfile reads section [default] of a configuration file of AWS. What it says of web_identity_token_file is not
// followed either: the token is always that of the operator's own pod. Region and endpoints are those of the cluster.
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
				return nil, fmt.Errorf("line %d: the name of the section has no end", number)
			}
			inside, nested = strings.TrimSpace(name) == "default", false
			continue
		case !inside, nested && strings.ContainsAny(line[:1], " \t"):
			// The settings of a setting without a value are indented below it, such as those of s3.
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
		if slices.Contains(followed(), key) {
			return nil, fmt.Errorf("line %d: %s is not followed: the credentials themselves must be in the Secret, or a role_arn", number, key)
		}
		if slices.Contains(known, key) {
			settings[key] = value
		}
	}
	return settings, nil
}

// setting splits a line, without the comment at its end.
func setting(text string) (key, value string, is bool) {
	for _, begin := range []string{" #", " ;", "\t#", "\t;"} {
		text, _, _ = strings.Cut(text, begin)
	}
	key, value, is = strings.Cut(text, "=")
	return strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value), is
}
