package cloudconfig

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Login is a user and a password for one vCenter. Printing it omits the password.
type Login struct{ User, Password string }

// Key returns the key of a vCenter's user or password in the cloud-credential-operator's Secret: SERVER.username or SERVER.password.
func Key(server, field string) string { return server + "." + field }

// UserAdvice describes the user names that the driver accepts.
const UserAdvice = `the driver takes user@domain or domain\user, of letters, digits, ".", "-" and, in the user, "_", even if the vCenter allows more`

// UserProblem returns why the driver rejects a user name. It returns an empty text if the driver accepts the name (kubernetes-sigs/vsphere-csi-driver
// bf8090256, pkg/common/config/config.go, isValidvCenterUsernameWithDomain).
func UserProblem(user string) string {
	taken := regexp.MustCompile(`^(?:[a-zA-Z0-9.-]+\\[a-zA-Z0-9._-]+|[a-zA-Z0-9._-]+@[a-zA-Z0-9.-]+)$`)
	switch {
	case taken.MatchString(user):
		return ""
	case !strings.ContainsAny(user, `@\`):
		return "has no domain"
	case strings.Count(user, "@") > 1:
		return "has more than one @"
	default:
		return "has a character that the driver does not accept"
	}
}

// Logins returns the logins of all configured vCenters, by server. Errors name keys of the Secret, and never quote values.
func Logins(config Config, secret map[string][]byte) (map[string]Login, error) {
	logins := map[string]Login{}
	for _, one := range config.VCenters {
		user, err := loginField(secret, one.Server, "username")
		if err != nil {
			return nil, err
		}
		password, err := loginField(secret, one.Server, "password")
		if err != nil {
			return nil, err
		}
		logins[one.Server] = Login{User: user, Password: password}
	}
	return logins, nil
}

func loginField(secret map[string][]byte, server, field string) (string, error) {
	key := Key(server, field)
	data, found := secret[key]
	value, why := string(data), ""
	switch {
	case !found:
		why = "the Secret with the credentials has no key " + key
	case value == "":
		why = "the key " + key + " of the Secret with the credentials is empty"
	case !utf8.ValidString(value):
		why = "the key " + key + " of the Secret with the credentials is not UTF-8"
	case strings.ContainsFunc(value, invisible):
		why = "the key " + key + " of the Secret with the credentials has line breaks or other invisible characters"
	default:
		return value, nil
	}
	const advice = "correct Secret vsphere-creds in kube-system, from which the other Secrets are copied"
	return "", &Error{Server: server, What: "read the credentials", Reason: InvalidCredentials, Why: why + ": " + advice}
}

// String returns the user without the password.
func (l Login) String() string { return "user " + l.User }

// Format prints the result of String for every verb, because %+v and %#v would show the fields.
func (l Login) Format(state fmt.State, _ rune) { _, _ = fmt.Fprint(state, l.String()) }

// LogValue omits the password for slog.
func (l Login) LogValue() slog.Value { return slog.StringValue(l.String()) }

// MarshalLog omits the password for logr.
func (l Login) MarshalLog() any { return l.String() }

// MarshalText omits the password for encoders.
func (l Login) MarshalText() ([]byte, error) { return []byte(l.String()), nil }
