package openstack

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopherstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
)

// Zones knows the availability zones that take servers and volumes.
type Zones interface {
	// ComputeZones are those of Nova, VolumeZones those of Cinder: names, sorted, without zones whose services are all disabled.
	ComputeZones(ctx context.Context) ([]string, error)
	VolumeZones(ctx context.Context) ([]string, error)
}

// Shares knows the share types of Manila.
type Shares interface {
	// ShareTypes are all that the project may use, by name. found is false if the catalogue lacks Manila.
	ShareTypes(ctx context.Context) (types []ShareType, found bool, err error)
}

// Cloud is what a Client answers.
type Cloud interface {
	Zones
	Shares
}

// ShareType is what Manila offers. The name is what a StorageClass asks for, and what users call it.
type ShareType struct {
	ID, Name string
}

// Options are what a Client needs besides the credentials. All but Now and Budget have defaults.
type Options struct {
	// Roots are certificates in PEM that are trusted besides those of the system.
	Roots   []byte
	Timeout time.Duration
	Budget  *poll.Budget
	Now     func() time.Time
	// Count is told of each request: which service, and the HTTP status, or 0 without an answer.
	Count func(service string, status int)
}

const (
	// tokenMargin is how long before its end a token is not used any more, maxSession how old a catalogue may get.
	tokenMargin = 2 * time.Minute
	maxSession  = time.Hour
	userAgent   = "csi-operators"
	// loggingIn is what an Error of Keystone was about.
	loggingIn = "log in"
	// maxPages bounds a list.
	maxPages = 50
)

// Client asks one cloud with one set of credentials. It is for one goroutine.
type Client struct {
	credentials Credentials
	options     Options
	http        http.Client
	session     *session
	asks        string
}

// session is what a log-in gives.
type session struct {
	provider *gophercloud.ProviderClient
	catalog  []tokens.CatalogEntry
	ends     time.Time
}

// New makes a Client. It asks nothing yet.
func New(credentials Credentials, options Options) (*Client, error) {
	base, err := newTransport(options.Roots, credentials.Insecure)
	if err != nil {
		return nil, err
	}
	if options.Timeout == 0 {
		options.Timeout = poll.RequestTimeout
	}
	client := &Client{credentials: credentials, options: options}
	client.http = http.Client{
		Timeout: options.Timeout,
		Transport: &poll.Transport{Next: base, Budget: options.Budget, MaxAnswer: maxAnswer, Count: func(status int) {
			if options.Count != nil {
				options.Count(client.asks, status)
			}
		}},
		// Go would send the token, which is in a header that it does not know, to wherever it is redirected.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client, nil
}

// Close gives the connections back.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// ComputeZones asks Nova.
func (c *Client) ComputeZones(ctx context.Context) ([]string, error) {
	return c.zones(ctx, service{name: "nova", what: "list the availability zones of Nova", types: []string{"compute"}})
}

// VolumeZones asks Cinder. Types of its older APIs are left out.
func (c *Client) VolumeZones(ctx context.Context) ([]string, error) {
	return c.zones(ctx, service{
		name: "cinder", what: "list the availability zones of Cinder", types: []string{"block-storage", "volumev3", "volume", "block-store"},
	})
}

// zones reads a list that Nova and Cinder have in the same form (nova/api/openstack/compute/availability_zone.py at 00a030403f,
// cinder/api/views/availability_zones.py at ab09bc39d). A zone is unavailable if an administrator has disabled all services in it.
func (c *Client) zones(ctx context.Context, of service) ([]string, error) {
	answer := struct {
		Zones *[]struct {
			Name  string `json:"zoneName"`
			State struct {
				Available bool `json:"available"`
			} `json:"zoneState"`
		} `json:"availabilityZoneInfo"`
	}{}
	found, where, err := c.get(ctx, of, "os-availability-zone", &answer)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, &Error{
			What: of.what, Where: place(c.credentials.AuthURL), Reason: ServiceMissing, Why: "the service catalogue lacks it" + c.inRegion(),
			Do: "correct region_name in clouds.yaml, or the catalogue",
		}
	case answer.Zones == nil:
		return nil, lacks(of, where, "availabilityZoneInfo")
	}
	var zones []string
	for _, zone := range *answer.Zones {
		if zone.State.Available && zone.Name != "" {
			zones = append(zones, zone.Name)
		}
	}
	if len(zones) == 0 {
		return nil, &Error{
			What: of.what, Where: place(where), Reason: InvalidAnswer, Why: "no zone is available",
			Do: "enable the services of a zone; the operator asks again by itself",
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones), nil
}

// ShareTypes asks Manila. It answers all at once (manila/api/v2/share_types.py at d28877849). Links to further pages are followed all the
// same, as other lists of Manila have them, and what is between may add them.
func (c *Client) ShareTypes(ctx context.Context) ([]ShareType, bool, error) {
	manila := service{
		name: "manila", what: "list the share types of Manila", types: []string{"shared-file-system", "sharev2", "share"},
		// 2.7 is of OpenStack Mitaka; without the header Manila answers as 2.0.
		microversion: "2.7", version: "v2",
	}
	types := map[string]ShareType{}
	path, seen := "types", map[string]bool{}
	for range maxPages {
		answer := struct {
			Types *[]struct {
				ID   string `json:"id"`
				Name string `json:"name"`
			} `json:"share_types"`
			Links []struct {
				Rel  string `json:"rel"`
				Href string `json:"href"`
			} `json:"share_types_links"`
		}{}
		found, where, err := c.get(ctx, manila, path, &answer)
		switch {
		case err != nil || !found:
			return nil, found, err
		case answer.Types == nil:
			return nil, true, lacks(manila, where, "share_types")
		}
		for _, one := range *answer.Types {
			types[one.Name] = ShareType{ID: one.ID, Name: one.Name}
		}
		next := ""
		for _, link := range answer.Links {
			if link.Rel == "next" {
				next = link.Href
			}
		}
		if next == "" {
			return sorted(types), true, nil
		}
		if path, err = following(where, next); err != nil || seen[path] {
			return nil, true, lacks(manila, where, "a next page that is another one of the same list")
		}
		seen[path] = true
	}
	return nil, true, lacks(manila, c.credentials.AuthURL, "an end")
}

// following is the path with query of the next page. Its host is not followed: the token is for the endpoint alone.
func following(where, next string) (string, error) {
	link, err := url.Parse(next)
	if err != nil || link.RawQuery == "" {
		return "", errors.New("no query")
	}
	base, err := url.Parse(where)
	if err != nil || link.Path != "" && strings.TrimSuffix(link.Path, "/") != strings.TrimSuffix(base.Path, "/") {
		return "", errors.New("another path")
	}
	return "types?" + link.RawQuery, nil
}

func sorted(types map[string]ShareType) []ShareType {
	list := make([]ShareType, 0, len(types))
	for _, one := range types {
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b ShareType) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func lacks(of service, where, what string) error {
	return &Error{
		What: of.what, Where: place(where), Reason: InvalidAnswer, Why: "the answer has no " + what,
		Do: "check whether the address is that of the service, or of a proxy before it",
	}
}

func (c *Client) inRegion() string {
	if c.credentials.Region == "" {
		return ""
	}
	return " in region " + c.credentials.Region
}

// get asks a service for a path. It logs in where that is due, and once more where the token is refused or the service is new in the catalogue.
// found is false if the catalogue lacks the service.
func (c *Client) get(ctx context.Context, of service, path string, into any) (found bool, where string, err error) {
	isOld := c.session != nil && !c.session.ends.Before(c.options.Now())
	if isOld {
		found, where, err = c.ask(ctx, of, path, into)
		if isRefused := c.session == nil; !isRefused && (found || err != nil) {
			return found, where, err
		}
	}
	if err := c.login(ctx); err != nil {
		return found, where, err
	}
	return c.ask(ctx, of, path, into)
}

// ask does so once. It ends the session if the service refuses the token.
func (c *Client) ask(ctx context.Context, of service, path string, into any) (found bool, where string, err error) {
	endpoint, err := c.endpoint(of)
	if err != nil || endpoint == "" {
		return false, "", err
	}
	where = endpoint + path
	client := gophercloud.ServiceClient{ProviderClient: c.session.provider, Endpoint: endpoint, Type: of.types[0], Microversion: of.microversion}
	c.asks = of.name
	_, err = client.Get(ctx, where, into, nil) //nolint:bodyclose // It is read and closed where into is filled.
	if err == nil {
		return true, where, nil
	}
	if gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		c.session = nil
	}
	return true, where, failed(of.what, where, err)
}

// login gets a token and the catalogue from Keystone.
func (c *Client) login(ctx context.Context) error {
	const what = loggingIn
	c.session = nil
	provider, err := gopherstack.NewClient(c.credentials.AuthURL)
	if err != nil {
		return failed(what, c.credentials.AuthURL, err)
	}
	provider.HTTPClient = c.http
	provider.UserAgent.Prepend(userAgent)
	c.asks = "keystone"
	if err := gopherstack.AuthenticateV3(ctx, provider, c.credentials.options(), gophercloud.EndpointOpts{}); err != nil {
		return failed(what, c.credentials.AuthURL, err)
	}
	answer, ok := provider.GetAuthResult().(tokens.CreateResult)
	if !ok || provider.Token() == "" {
		return lacks(service{what: what}, c.credentials.AuthURL, "token")
	}
	token, err := answer.ExtractToken()
	if err != nil {
		return lacks(service{what: what}, c.credentials.AuthURL, "end of the token's life")
	}
	catalog, err := answer.ExtractServiceCatalog()
	if err != nil || len(catalog.Entries) == 0 {
		return &Error{
			What: what, Where: place(c.credentials.AuthURL), Reason: InvalidAnswer, Why: "the token has no service catalogue",
			Do: "the credentials must be for a project: check project_id or project_name in clouds.yaml",
		}
	}
	now := c.options.Now()
	ends := now.Add(maxSession)
	if last := token.ExpiresAt.Add(-tokenMargin); !token.ExpiresAt.IsZero() && last.Before(ends) {
		ends = last
	}
	c.session = &session{provider: provider, catalog: catalog.Entries, ends: ends}
	return nil
}

// options are what gophercloud logs in with.
func (c *Credentials) options() *gophercloud.AuthOptions {
	a := &c.auth
	options := &gophercloud.AuthOptions{IdentityEndpoint: c.AuthURL, UserID: a.UserID}
	if a.UserID == "" {
		options.Username = a.Username
		options.DomainID, options.DomainName = domain(a.UserDomainID, a.UserDomainName, a.DomainID, a.DomainName, a.DefaultDomain)
	}
	if a.CredentialSecret != "" {
		options.ApplicationCredentialID, options.ApplicationCredentialSecret = a.CredentialID, a.CredentialSecret
		if a.CredentialID == "" {
			options.ApplicationCredentialName = a.CredentialName
			return options
		}
		// The ID says which user's it is.
		options.UserID, options.Username, options.DomainID, options.DomainName = "", "", "", ""
		return options
	}
	options.Password = a.Password
	options.Scope = &gophercloud.AuthScope{ProjectID: a.ProjectID}
	if a.ProjectID == "" {
		options.Scope.ProjectName = a.ProjectName
		options.Scope.DomainID, options.Scope.DomainName = domain(a.ProjectDomainID, a.ProjectDomainName, a.DomainID, a.DomainName, a.DefaultDomain)
	}
	return options
}

// domain is the first that is set, as an ID or as a name, never both. Without any it is the one that every Keystone begins with
// (keystone/conf/identity.py default_domain_id).
func domain(id, name, commonID, commonName, defaultID string) (string, string) {
	switch {
	case id != "":
		return id, ""
	case name != "":
		return "", name
	case commonID != "":
		return commonID, ""
	case commonName != "":
		return "", commonName
	default:
		return firstOf(defaultID, "default"), ""
	}
}
