// Package openstack makes the few calls of Nova, Cinder and Manila that the drivers of OpenStack depend on, on a schedule and within a budget, and
// keeps the last answers. Nothing of it ever prints a password or a token: no error has a text of the cloud.
//
// facts.go is pure: an error keeps the last answer. Zones, share types and Manila itself change only when two answers agree. A change of the Secret
// asks at once.
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

// cloudName is the cloud in clouds.yaml, as the installer of OpenShift calls it (openshift/installer pkg/asset/machines/openstack).
const cloudName = "openstack"

// maxClouds bounds what is parsed, in bytes: a clouds.yaml has a few hundred.
const maxClouds = 256 << 10

// Credentials say where the cloud is and who asks. They print as the place alone.
type Credentials struct {
	// AuthURL is the address of Keystone, Region what the catalogue is searched for, Interface which of its addresses are used: public,
	// internal or admin. Insecure means that clouds.yaml says not to verify certificates.
	AuthURL, Region, Interface string
	Insecure                   bool

	auth authInfo
}

// authInfo has the fields of "auth" in clouds.yaml that Keystone v3 takes, by the names of openstacksdk (doc/source/user/config/configuration.rst).
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

// entry is a cloud in clouds.yaml. What is not here is for other services, or is a path in the pods of the driver.
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

// Parse reads clouds.yaml. The environment does not count: a variable OS_PASSWORD of the operator is not the driver's. An error names the
// key that is wrong, and never a value.
func Parse(clouds []byte) (Credentials, error) {
	if len(clouds) == 0 {
		return Credentials{}, badClouds("it is absent or empty", "")
	}
	if len(clouds) > maxClouds {
		return Credentials{}, badClouds(fmt.Sprintf("it has more than %d bytes", maxClouds), "")
	}
	file := struct {
		Clouds map[string]*entry `yaml:"clouds"`
	}{}
	if err := yaml.Unmarshal(clouds, &file); err != nil {
		return Credentials{}, badClouds("it is no YAML of that form"+lineOf(err), "")
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
		return Credentials{}, badClouds("the address of Keystone is absent", "auth.auth_url")
	case err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http":
		return Credentials{}, badClouds("the address of Keystone is not of the form https://HOST:PORT/v3", "auth.auth_url")
	case address.User != nil || address.RawQuery != "" || address.Fragment != "":
		return Credentials{}, badClouds("the address of Keystone has a user, a query or a fragment", "auth.auth_url")
	case strings.Contains(strings.TrimSuffix(address.Path, "/")+"/", "/v2.0/"):
		return Credentials{}, badClouds("Keystone v2 is not supported", "auth.auth_url")
	}
	switch {
	case found.Interface == "":
		return Credentials{}, badClouds("it is not public, internal or admin", "interface")
	case e.Cert != "":
		return Credentials{}, badClouds("client certificates are not supported", "cert")
	case e.Profile != "":
		return Credentials{}, badClouds("profiles are not supported: what they say must be in the file itself", "profile")
	}
	return found, found.check(e.AuthType)
}

// check says what is missing to log in.
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
		return badClouds("the user is absent", "auth.username")
	case a.Password == "":
		return badClouds("the password is absent", "auth.password")
	case a.ProjectID == "" && a.ProjectName == "":
		return badClouds("the project is absent", "auth.project_id")
	}
	return nil
}

// checkApplication says what an application credential lacks.
func (a *authInfo) checkApplication() error {
	switch {
	case a.CredentialSecret == "":
		return badClouds("the application credential has no secret", "auth.application_credential_secret")
	case a.CredentialID == "" && (a.CredentialName == "" || a.Username == "" && a.UserID == ""):
		return badClouds("the application credential has no ID, and no name with a user", "auth.application_credential_id")
	}
	return nil
}

// interfaceOf knows the names of both keys; empty if there is no such interface.
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

// lineOf is where the YAML is wrong. All else that the parser says may quote a password.
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
	const advice = "correct the Secret with the credentials, or what it is made of"
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

// Hash is the same for the same credentials, and says nothing of them.
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

// String says where the cloud is, for logs and errors.
func (c Credentials) String() string { return "credentials for " + place(c.AuthURL) }

// Format prints the same for every verb: %+v and %#v would show the fields.
func (c Credentials) Format(state fmt.State, _ rune) { _, _ = fmt.Fprint(state, c.String()) }

// LogValue is what structured logs get.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalLog is what logr gets.
func (c Credentials) MarshalLog() any { return c.String() }

// MarshalText is what encoders get.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
