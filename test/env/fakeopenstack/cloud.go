// Package fakeopenstack is a cloud for tests: Keystone v3, Nova, Cinder v3 and Manila v2 at one address, with a certificate of its own CA. It
// has what the project calls, and answers as the services' API documents and sources say (docs.openstack.org/api-ref; keystone, nova
// 00a030403f, cinder ab09bc39d, manila d28877849). Where it differs it is stricter: each difference says so.
package fakeopenstack

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Service is one of the cloud's, by its project's name.
type Service string

// The services.
const (
	Keystone Service = "keystone"
	Nova     Service = "nova"
	Cinder   Service = "cinder"
	Manila   Service = "manila"
)

// User is who may log in. An application credential belongs to it.
type User struct {
	Name, ID, Password, DomainName, DomainID string
	ProjectName, ProjectID                   string
	CredentialID, CredentialSecret           string
}

// Zone is an availability zone. It is disabled if all services in it are.
type Zone struct {
	Name     string
	Disabled bool
}

// ShareType is one of Manila's.
type ShareType struct{ ID, Name string }

// Fault is what a service does instead of answering. The zero value is no fault.
type Fault struct {
	// Status is answered instead, with RetryAfter as its header. Manila and Cinder say 413 where others say 429.
	Status     int
	RetryAfter string
	// Body is answered with status 200 (or Status) instead of what the service would say.
	Body string
	// Truncated ends the connection in the middle of the answer.
	Truncated bool
	// Latency is how long the answer takes.
	Latency time.Duration
	// Redirect is answered as the place where the answer is.
	Redirect string
	// Times is how many requests have it; 0 means all until it is set again.
	Times int
}

// Cloud is a running cloud. Its methods may be called while it runs.
type Cloud struct {
	// URL is where Keystone is, CA the PEM of who signed the certificate.
	URL string
	CA  []byte

	mutex    sync.Mutex
	address  string
	server   *http.Server
	listener net.Listener
	issuer   issuer
	user     User
	compute  []Zone
	volume   []Zone
	types    []ShareType
	pageSize int
	missing  map[Service]bool
	faults   map[Service]Fault
	counts   map[Service]int
	tokens   map[string]time.Time
	life     time.Duration
	region   string
	now      func() time.Time
}

// Start starts a cloud with a user, one zone and one share type.
func Start() (*Cloud, error) {
	c := &Cloud{
		user: User{
			Name: "cluster", ID: "u-1", Password: "p4ssw0rd-of-the-user", DomainName: "Default", DomainID: "default",
			ProjectName: "shift", ProjectID: "f1d0", CredentialID: "ac-1", CredentialSecret: "s3cret-of-the-application",
		},
		compute: []Zone{{Name: "nova"}}, volume: []Zone{{Name: "nova"}}, types: []ShareType{{ID: "t-1", Name: "default"}},
		missing: map[Service]bool{}, faults: map[Service]Fault{}, counts: map[Service]int{}, tokens: map[string]time.Time{},
		life: time.Hour, region: "RegionOne", now: time.Now,
	}
	var err error
	if c.issuer, err = newIssuer(); err != nil {
		return nil, err
	}
	c.CA = c.issuer.ca
	return c, c.listen("127.0.0.1:0")
}

// listen serves at an address.
func (c *Cloud) listen(address string) error {
	config, err := c.issuer.config("127.0.0.1")
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return fmt.Errorf("cloud: %w", err)
	}
	server := &http.Server{Handler: c.handler(), TLSConfig: config, ReadHeaderTimeout: time.Minute, ErrorLog: silent()}
	c.mutex.Lock()
	c.server, c.listener, c.address = server, listener, listener.Addr().String()
	c.URL = "https://" + c.address + "/identity/v3"
	c.mutex.Unlock()
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return nil
}

// Close ends it.
func (c *Cloud) Close() {
	c.mutex.Lock()
	server, listener := c.server, c.listener
	c.server = nil
	c.mutex.Unlock()
	if server != nil {
		// A server that does not serve yet does not know what it listens to.
		_ = listener.Close()
		_ = server.Close()
	}
}

// Away makes the cloud refuse connections, and cuts open ones.
func (c *Cloud) Away() { c.Close() }

// Back ends Away: the cloud is at the same address again, and knows what it knew.
func (c *Cloud) Back() error {
	c.mutex.Lock()
	address, running := c.address, c.server != nil
	c.mutex.Unlock()
	if running {
		return nil
	}
	return c.listen(address)
}

// CloudsYAML is what the Secret has that logs in by password; with an application credential if that is wanted.
func (c *Cloud) CloudsYAML(application bool) []byte {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	head := fmt.Sprintf("clouds:\n  openstack:\n    region_name: %q\n    verify: true\n", c.region)
	if application {
		return fmt.Appendf(nil, "%s    auth_type: v3applicationcredential\n    auth:\n      auth_url: %q\n      application_credential_id: %q\n"+
			"      application_credential_secret: %q\n", head, c.URL, c.user.CredentialID, c.user.CredentialSecret)
	}
	return fmt.Appendf(nil, "%s    auth:\n      auth_url: %q\n      username: %q\n      password: %q\n      user_domain_name: %q\n      project_id: %q\n", head,
		c.URL, c.user.Name, c.user.Password, c.user.DomainName, c.user.ProjectID)
}

// User is who may log in.
func (c *Cloud) User() User {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.user
}

// SetUser changes who may log in. Tokens stay good, as with Keystone until they are revoked.
func (c *Cloud) SetUser(user User) { c.set(func() { c.user = user }) }

// SetZones changes the zones of Nova and Cinder.
func (c *Cloud) SetZones(compute, volume []Zone) {
	c.set(func() { c.compute, c.volume = compute, volume })
}

// SetShareTypes changes what Manila offers. IDs are made of names where they are empty.
func (c *Cloud) SetShareTypes(types ...ShareType) {
	for i := range types {
		if types[i].ID == "" {
			types[i].ID = fmt.Sprintf("id-%x", types[i].Name)
		}
	}
	c.set(func() { c.types = types })
}

// SetPageSize makes Manila answer in pages; 0 ends that. The share types of a real one come all at once, other lists in pages.
func (c *Cloud) SetPageSize(size int) { c.set(func() { c.pageSize = size }) }

// SetMissing takes a service out of the catalogue, or puts it in again.
func (c *Cloud) SetMissing(service Service, missing bool) {
	c.set(func() { c.missing[service] = missing })
}

// SetFault makes a service fail in a way. The zero value ends it.
func (c *Cloud) SetFault(service Service, fault Fault) { c.set(func() { c.faults[service] = fault }) }

// SetTokenLife is how long the tokens live that are issued from now on.
func (c *Cloud) SetTokenLife(life time.Duration) { c.set(func() { c.life = life }) }

// SetClock changes the clock of Keystone, by which tokens end.
func (c *Cloud) SetClock(now func() time.Time) { c.set(func() { c.now = now }) }

// ExpireTokens makes all tokens expired that were issued.
func (c *Cloud) ExpireTokens() {
	c.set(func() {
		for token := range c.tokens {
			c.tokens[token] = c.now().Add(-time.Second)
		}
	})
}

// Tokens are all that were issued.
func (c *Cloud) Tokens() []string {
	var all []string
	c.set(func() {
		for token := range c.tokens {
			all = append(all, token)
		}
	})
	return all
}

// Requests counts a service's requests since the last Reset, including refused and failed ones.
func (c *Cloud) Requests(service Service) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.counts[service]
}

// AllRequests is the sum of them.
func (c *Cloud) AllRequests() int {
	sum := 0
	c.set(func() {
		for _, count := range c.counts {
			sum += count
		}
	})
	return sum
}

// Reset begins to count anew.
func (c *Cloud) Reset() { c.set(func() { clear(c.counts) }) }

func (c *Cloud) set(change func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	change()
}
