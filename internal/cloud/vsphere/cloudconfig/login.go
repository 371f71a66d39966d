package cloudconfig

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Login is user and password of one vCenter. It prints as the user alone.
type Login struct{ User, Password string }

// Key is that of the user or password of a vCenter in the Secret that the cloud-credential-operator makes: SERVER.username and
// SERVER.password.
func Key(server, field string) string { return server + "." + field }

// UserAdvice is how the driver wants the name of a user.
const UserAdvice = `the driver takes user@domain or domain\user, of letters, digits, ".", "-" and, in the user, "_", even if the vCenter takes more`

// UserProblem says why the driver does not take the name of a user; empty if it does (kubernetes-sigs/vsphere-csi-driver bf8090256,
// pkg/common/config/config.go, isValidvCenterUsernameWithDomain).
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
		return "has a character that the driver does not take"
	}
}

// Logins are those of all vCenters of the configuration, by server. An error names the key of the Secret, and never a value.
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
		why = "the key " + key + " of the Secret with the credentials has line breaks or other characters that nobody sees"
	default:
		return value, nil
	}
	const advice = "correct the Secret vsphere-creds in kube-system, from which the others are made"
	return "", &Error{Server: server, What: "read the credentials", Reason: InvalidCredentials, Why: why + ": " + advice}
}

// String says who logs in, without the password.
func (l Login) String() string { return "user " + l.User }

// Format prints the same for every verb: %+v and %#v would show the fields.
func (l Login) Format(state fmt.State, _ rune) { _, _ = fmt.Fprint(state, l.String()) }

// LogValue is what structured logs get.
func (l Login) LogValue() slog.Value { return slog.StringValue(l.String()) }

// MarshalLog is what logr gets.
func (l Login) MarshalLog() any { return l.String() }

// MarshalText is what encoders get.
func (l Login) MarshalText() ([]byte, error) { return []byte(l.String()), nil }
