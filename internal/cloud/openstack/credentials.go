// Package openstack polls Nova, Cinder and Manila for what the OpenStack drivers need, within a request limit, and stores the last answers. It never
// prints a password or a token, so its errors quote no text of the cloud.
//
// facts.go merges answers without side effects. After an error, the last answer stays in effect. A new share type counts at once. Changed zones, a
// missing share type and a missing Manila count only after two answers in a row agree. A change of the Secret triggers a poll.
package openstack

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// cloudName is the installer's name for the cloud in clouds.yaml (openshift/installer pkg/asset/machines/openstack).
const cloudName = "openstack"

// maxClouds limits the size of clouds.yaml, in bytes. Usual files have a few hundred.
const maxClouds = 256 << 10

// Credentials are the address of the cloud and a login. Printing them omits the login.
type Credentials struct {
	// AuthURL is the address of Keystone. Region and Interface (public, internal or admin) select addresses in the catalogue. Insecure means that
	// clouds.yaml disables the verification of certificates.
	AuthURL, Region, Interface string
	Insecure                   bool

	auth authInfo
}

// authInfo has the fields of "auth" in clouds.yaml that Keystone v3 uses. Their names come from openstacksdk
// (doc/source/user/config/configuration.rst).
type authInfo struct {
	AuthURL           string `yaml:"auth_url"`
	Username          string `yaml:"username"`
	UserID            string `yaml:"user_id"`
	Password          string `yaml:"password"`
	ProjectID         string `yaml:"project_id"`
	ProjectName       string `yaml:"project_name"`
	TenantID          string `yaml:"tenant_id"`
	TenantName        string `yaml:"tenant_name"`
	DomainID          string `yaml:"domain_id"`
	DomainName        string `yaml:"domain_name"`
	UserDomainID      string `yaml:"user_domain_id"`
	UserDomainName    string `yaml:"user_domain_name"`
	ProjectDomainID   string `yaml:"project_domain_id"`
	ProjectDomainName string `yaml:"project_domain_name"`
	DefaultDomain     string `yaml:"default_domain"`
	CredentialID      string `yaml:"application_credential_id"`
	CredentialName    string `yaml:"application_credential_name"`
	CredentialSecret  string `yaml:"application_credential_secret"`
}

// entry is a cloud in clouds.yaml. It lacks fields that are for other services, and fields that are paths in the driver's pods.
type entry struct {
	Auth         *authInfo `yaml:"auth"`
	AuthType     string    `yaml:"auth_type"`
	Region       string    `yaml:"region_name"`
	Interface    string    `yaml:"interface"`
	EndpointType string    `yaml:"endpoint_type"`
	Verify       *bool     `yaml:"verify"`
	Cert         string    `yaml:"cert"`
	Profile      string    `yaml:"profile"`
}

// Parse reads clouds.yaml. It ignores environment variables such as OS_PASSWORD, because the operator's environment is not the driver's. Errors name
// keys, and never quote values.
func Parse(clouds []byte) (Credentials, error) {
	if len(clouds) == 0 {
		return Credentials{}, badClouds("it is missing or empty", "")
	}
	if len(clouds) > maxClouds {
		return Credentials{}, badClouds(fmt.Sprintf("it has more than %d bytes", maxClouds), "")
	}
	file := struct {
		Clouds map[string]*entry `yaml:"clouds"`
	}{}
	if err := yaml.Unmarshal(clouds, &file); err != nil {
		return Credentials{}, badClouds("it is not valid YAML in the form of clouds.yaml"+lineOf(err), "")
	}
	cloud := file.Clouds[cloudName]
	if cloud == nil {
		return Credentials{}, badClouds("it has no cloud "+cloudName, "clouds."+cloudName)
	}
	if cloud.Auth == nil {
		return Credentials{}, badClouds("the cloud has no auth", "auth")
	}
	return cloud.credentials()
}

func (e *entry) credentials() (Credentials, error) {
	found := Credentials{
		AuthURL: e.Auth.AuthURL, Region: e.Region, Insecure: e.Verify != nil && !*e.Verify, auth: *e.Auth,
		Interface: interfaceOf(firstOf(e.EndpointType, e.Interface)),
	}
	switch address, err := url.Parse(found.AuthURL); {
	case found.AuthURL == "":
		return Credentials{}, badClouds("the address of Keystone is missing", "auth.auth_url")
	case err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http":
		return Credentials{}, badClouds("the address of Keystone is not of the form https://HOST:PORT/v3", "auth.auth_url")
	case address.User != nil || address.RawQuery != "" || address.Fragment != "":
		return Credentials{}, badClouds("the address of Keystone has a user, a query or a fragment", "auth.auth_url")
	case strings.Contains(strings.TrimSuffix(address.Path, "/")+"/", "/v2.0/"):
		return Credentials{}, badClouds("Keystone v2 is not supported", "auth.auth_url")
	}
	switch {
	case found.Interface == "":
		return Credentials{}, badClouds("it must be public, internal or admin", "interface")
	case e.Cert != "":
		return Credentials{}, badClouds("client certificates are not supported", "cert")
	case e.Profile != "":
		return Credentials{}, badClouds("profiles are not supported: write their settings into the file", "profile")
	}
	return found, found.check(e.AuthType)
}

// check returns an error if the credentials lack something that the login needs.
func (c *Credentials) check(authType string) error {
	a := &c.auth
	a.ProjectID, a.ProjectName = firstOf(a.ProjectID, a.TenantID), firstOf(a.ProjectName, a.TenantName)
	application := a.CredentialID != "" || a.CredentialName != ""
	switch authType {
	case "":
	case "password", "v3password":
		application = false
	case "v3applicationcredential":
		application = true
	default:
		return badClouds("only password, v3password and v3applicationcredential are supported", "auth_type")
	}
	if application {
		return a.checkApplication()
	}
	a.CredentialID, a.CredentialName, a.CredentialSecret = "", "", ""
	switch {
	case a.Username == "" && a.UserID == "":
		return badClouds("the user is missing", "auth.username")
	case a.Password == "":
		return badClouds("the password is missing", "auth.password")
	case a.ProjectID == "" && a.ProjectName == "":
		return badClouds("the project is missing", "auth.project_id")
	}
	return nil
}

// checkApplication returns an error if the application credential lacks something.
func (a *authInfo) checkApplication() error {
	switch {
	case a.CredentialSecret == "":
		return badClouds("the application credential has no secret", "auth.application_credential_secret")
	case a.CredentialID == "" && (a.CredentialName == "" || a.Username == "" && a.UserID == ""):
		return badClouds("the application credential has no ID, and no name with a user", "auth.application_credential_id")
	}
	return nil
}

// interfaceOf normalizes the value of key endpoint_type or interface in clouds.yaml. For an unknown interface, it returns an empty text.
func interfaceOf(name string) string {
	switch name = strings.TrimSuffix(name, "URL"); name {
	case "":
		return "public"
	case "public", "internal", "admin":
		return name
	default:
		return ""
	}
}

// lineOf returns the line number in a parser's error. It drops the rest of the error, which can quote a password.
func lineOf(err error) string {
	if match := regexp.MustCompile(`line \d+`).FindString(err.Error()); match != "" {
		return ", " + match
	}
	return ""
}

func badClouds(why, key string) error {
	what := "read clouds.yaml"
	if key != "" {
		what += ", key " + key
	}
	const advice = "correct the Secret with the credentials, or its source"
	return &Error{What: what, Reason: InvalidCredentials, Why: why, Do: advice, err: errors.New(why)}
}

func firstOf(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}

// Hash returns a hash that does not reveal the credentials.
func (c Credentials) Hash() string {
	text := fmt.Sprintf("%q %q %q %t %q", c.AuthURL, c.Region, c.Interface, c.Insecure, c.auth.fields())
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

func (a authInfo) fields() []string {
	return []string{
		a.AuthURL, a.Username, a.UserID, a.Password, a.ProjectID, a.ProjectName, a.DomainID, a.DomainName, a.UserDomainID, a.UserDomainName,
		a.ProjectDomainID, a.ProjectDomainName, a.DefaultDomain, a.CredentialID, a.CredentialName, a.CredentialSecret,
	}
}

// String returns the address without the login, for logs and errors.
func (c Credentials) String() string { return "credentials for " + place(c.AuthURL) }

// Format prints the result of String for every verb, because %+v and %#v would show the fields.
func (c Credentials) Format(state fmt.State, _ rune) { _, _ = fmt.Fprint(state, c.String()) }

// LogValue redacts the login for slog.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalLog redacts the login for logr.
func (c Credentials) MarshalLog() any { return c.String() }

// MarshalText redacts the login for encoders.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
