package driver

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Setting is an environment variable of the operator that the administrator can set, for instance in spec.config.env of the Subscription.
type Setting struct {
	// Variable is the name in the environment.
	Variable string
	// Default is the value of an empty variable. Default can be empty, too.
	Default string
	// Check returns an error for an invalid value. The error begins with "must be".
	Check func(value string) error
	// Argument, if set, is the matching flag of the controller's driver container, without dashes. If the variable is empty, a migration keeps the
	// predecessor's value of this flag.
	Argument string
}

// Inheritable returns the unset settings for which a predecessor can have a value.
func (d Driver) Inheritable(lookup func(variable string) string) []Setting {
	var open []Setting
	for _, setting := range d.Settings {
		if setting.Argument != "" && strings.TrimSpace(lookup(setting.Variable)) == "" {
			open = append(open, setting)
		}
	}
	return open
}

// Inherited returns the setting's value in the arguments of a predecessor's driver container. Result "found" is true only if this value is valid and
// differs from the default.
func (s Setting) Inherited(containers []corev1.Container) (value string, found bool) {
	for _, container := range containers {
		if container.Name != Container {
			continue
		}
		for _, argument := range container.Args {
			name, given, hasValue := strings.Cut(strings.TrimLeft(argument, "-"), "=")
			if name != s.Argument {
				continue
			}
			if !hasValue {
				given = "true"
			}
			// If the container has the argument twice, the last value counts.
			value = given
		}
	}
	return value, value != "" && value != s.Default && s.Check(value) == nil
}

// ReadSettings reads the settings with a function such as os.Getenv, and fills in the defaults. One error names every
// invalid variable.
func (d Driver) ReadSettings(lookup func(variable string) string) (map[string]string, error) {
	values := map[string]string{}
	for _, setting := range d.Settings {
		values[setting.Variable] = cmp.Or(strings.TrimSpace(lookup(setting.Variable)), setting.Default)
	}
	return values, d.checkSettings(values)
}

func (d Driver) checkSettings(values map[string]string) error {
	var problems []error
	for _, setting := range d.Settings {
		value := values[setting.Variable]
		if value == "" && setting.Default == "" {
			continue
		}
		if err := setting.Check(value); err != nil {
			problems = append(problems, wrongVariable(setting.Variable, value, err))
		}
	}
	return errors.Join(problems...)
}

// ReadRoles reads the IAM roles of the driver's credentials, by variable. One error names every invalid variable. ReadRoles checks the roles because
// rendering copies them into CredentialsRequests unchanged.
func (d Driver) ReadRoles(lookup func(variable string) string) (map[string]string, error) {
	roles := map[string]string{}
	var problems []error
	for _, credentials := range d.Credentials {
		variable := credentials.RoleARNVariable
		if variable == "" {
			continue
		}
		roles[variable] = lookup(variable)
		if err := CheckRole(roles[variable]); roles[variable] != "" && err != nil {
			problems = append(problems, wrongVariable(variable, roles[variable], err))
		}
	}
	return roles, errors.Join(problems...)
}

// CheckRole rejects anything but the ARN of an IAM role. Its error begins with "must be"
// (https://docs.aws.amazon.com/IAM/latest/APIReference/API_Role.html).
func CheckRole(arn string) error {
	return Matching(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]{0,511}[A-Za-z0-9+=,.@_-]$`,
		"must be the ARN of an IAM role, such as arn:aws:iam::123456789012:role/name, without spaces")(arn)
}

// wrongVariable is the error for an invalid environment variable, with advice.
func wrongVariable(variable, value string, err error) error {
	return fmt.Errorf("environment variable %s=%q: %w: correct it in the operator's Deployment or in spec.config.env of its Subscription, "+
		"or remove it", variable, value, err)
}

// Matching returns a check that accepts values that match a regular expression. Argument "sentence" is the error for all other values.
func Matching(pattern, sentence string) func(string) error {
	allowed := regexp.MustCompile(pattern)
	return func(value string) error {
		if !allowed.MatchString(value) {
			return errors.New(sentence)
		}
		return nil
	}
}

// Number returns a check that accepts whole numbers in a range.
func Number(least, most int) func(string) error {
	return func(value string) error {
		if number, err := strconv.Atoi(value); err != nil || number < least || number > most {
			return fmt.Errorf("must be a whole number from %d to %d", least, most)
		}
		return nil
	}
}

// Duration returns a check that accepts durations in the syntax of Go, such as 90s or 5m.
func Duration(least, most time.Duration) func(string) error {
	return func(value string) error {
		if duration, err := time.ParseDuration(value); err != nil || duration < least || duration > most {
			return fmt.Errorf("must be a duration from %s to %s, such as 90s or 5m", least, most)
		}
		return nil
	}
}

// Boolean accepts true and false.
func Boolean(value string) error {
	if value != "true" && value != "false" {
		return errors.New("must be true or false")
	}
	return nil
}

// Memory returns a check that accepts numbers of bytes in the syntax of Kubernetes, such as 2Gi. The number must not be smaller than argument
// "least".
func Memory(least string) func(string) error {
	return func(value string) error {
		quantity, err := resource.ParseQuantity(value)
		if err != nil || quantity.Cmp(resource.MustParse(least)) < 0 {
			return fmt.Errorf("must be a number of bytes, such as 2Gi, and at least %s", least)
		}
		return nil
	}
}
