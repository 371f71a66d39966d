package openstack

import (
	"cmp"
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

// Zones lists the availability zones for servers and volumes.
type Zones interface {
	// ComputeZones returns the names of Nova's zones, and VolumeZones returns the names of Cinder's zones. Both are sorted, and omit disabled zones.
	ComputeZones(ctx context.Context) ([]string, error)
	VolumeZones(ctx context.Context) ([]string, error)
}

// Shares lists the share types of Manila.
type Shares interface {
	// ShareTypes lists the share types that the project is allowed to use, sorted by name. Result "found" is false if the catalogue lacks Manila.
	ShareTypes(ctx context.Context) (types []ShareType, found bool, err error)
}

// Cloud has the queries that the Poller sends. Client implements it.
type Cloud interface {
	Zones
	Shares
}

// ShareType is a share type of Manila. StorageClasses refer to its name.
type ShareType struct {
	ID, Name string
}

// Options configure a Client. All options except Now and Budget have defaults.
type Options struct {
	// Roots are PEM certificates that the client trusts in addition to the system's.
	Roots   []byte
	Timeout time.Duration
	Budget  *poll.Budget
	// MaxAnswer limits a response, in bytes. If it is 0, DefaultMaxAnswer applies.
	MaxAnswer int
	Now       func() time.Time
	// Count, if set, is called for each request, with the service and the HTTP status. Without a response, the status is 0.
	Count func(service string, status int)
}

const (
	// tokenMargin is the time before a token's expiry at which the client renews the token. maxSession is the maximum age of a catalogue.
	tokenMargin = 2 * time.Minute
	maxSession  = time.Hour
	userAgent   = "csi-operators"
	// loggingIn is the value of Error.What if a request to Keystone fails.
	loggingIn = "log in"
	// maxPages limits the pages of a list.
	maxPages = 50
)

// Client queries one cloud with one set of credentials. It is not safe for concurrent use.
type Client struct {
	credentials Credentials
	options     Options
	http        http.Client
	session     *session
	asks        string
}

// session is the result of a login.
type session struct {
	provider *gophercloud.ProviderClient
	catalog  []tokens.CatalogEntry
	ends     time.Time
}

// New creates a Client. It sends no request.
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
		Transport: &poll.Transport{Next: base, Budget: options.Budget, MaxAnswer: cmp.Or(options.MaxAnswer, DefaultMaxAnswer), Count: func(status int) {
			if options.Count != nil {
				options.Count(client.asks, status)
			}
		}},
		// On a redirect, Go would send the token's header to the other host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// ComputeZones queries Nova.
func (c *Client) ComputeZones(ctx context.Context) ([]string, error) {
	return c.zones(ctx, service{name: "nova", what: "list the availability zones of Nova", types: []string{"compute"}})
}

// VolumeZones queries Cinder. It does not use the service types of Cinder's older APIs.
func (c *Client) VolumeZones(ctx context.Context) ([]string, error) {
	return c.zones(ctx, service{
		name: "cinder", what: "list the availability zones of Cinder", types: []string{"block-storage", "volumev3", "volume", "block-store"},
	})
}

// zones reads a list of zones, whose format Nova and Cinder share (nova/api/openstack/compute/availability_zone.py at 00a030403f,
// cinder/api/views/availability_zones.py at ab09bc39d). The cloud reports a zone as unavailable if an administrator has disabled all services of the
// zone.
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
			What: of.what, Where: place(c.credentials.AuthURL), Reason: ServiceMissing, Why: "the service catalogue lacks the service" + c.inRegion(),
			Do: "correct region_name in clouds.yaml, or add the region to the service catalogue",
		}
	case answer.Zones == nil:
		return nil, missing(of, where, "availabilityZoneInfo")
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
			Do: "enable the cloud's services in at least one zone; the operator retries",
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones), nil
}

// ShareTypes queries Manila, which returns all types at once (manila/api/v2/share_types.py at d28877849). The client still follows links to further
// pages, because other lists of Manila have pages, and proxies can add such links.
func (c *Client) ShareTypes(ctx context.Context) ([]ShareType, bool, error) {
	manila := service{
		name: "manila", what: "list the share types of Manila", types: []string{"shared-file-system", "sharev2", "share"},
		// Microversion 2.7 of Manila's API exists since OpenStack Mitaka. Without a header that requests a microversion, Manila uses version 2.0.
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
			return nil, true, missing(manila, where, "share_types")
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
		if path, err = nextPage(where, next); err != nil || seen[path] {
			return nil, true, missing(manila, where, "valid link to the next page")
		}
		seen[path] = true
	}
	return nil, true, missing(manila, c.credentials.AuthURL, "last page")
}

// nextPage returns path and query of the next page. It ignores the host in the link, so that only the service's own endpoint gets the token.
func nextPage(where, next string) (string, error) {
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

func missing(of service, where, what string) error {
	return &Error{
		What: of.what, Where: place(where), Reason: InvalidAnswer, Why: "the answer has no " + what,
		Do: "check whether the address belongs to the service, or to a proxy in front of it",
	}
}

func (c *Client) inRegion() string {
	if c.credentials.Region == "" {
		return ""
	}
	return " in region " + c.credentials.Region
}

// get reads a path of a service. It logs in if necessary. If the service rejects the token, or if the catalogue lacks the service, get logs in again.
// Result "found" is false if the catalogue still lacks the service.
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

// ask makes one attempt. It ends the session if the service rejects the token.
func (c *Client) ask(ctx context.Context, of service, path string, into any) (found bool, where string, err error) {
	endpoint, err := c.endpoint(of)
	if err != nil || endpoint == "" {
		return false, "", err
	}
	where = endpoint + path
	client := gophercloud.ServiceClient{ProviderClient: c.session.provider, Endpoint: endpoint, Type: of.types[0], Microversion: of.microversion}
	c.asks = of.name
	_, err = client.Get(ctx, where, into, nil) //nolint:bodyclose // gophercloud reads and closes the body.
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
		return missing(service{what: what}, c.credentials.AuthURL, "token")
	}
	token, err := answer.ExtractToken()
	if err != nil {
		return missing(service{what: what}, c.credentials.AuthURL, "expiry of the token")
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

// options returns gophercloud's login options.
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
		// The ID of an application credential also identifies the user, so send no user.
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

// domain returns the ID or the name of a domain, but never both: the first of these arguments that is set. If none is set, it returns the ID of
// Keystone's default domain (keystone/conf/identity.py default_domain_id).
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
