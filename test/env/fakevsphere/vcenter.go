// Package fakevsphere is a vCenter for tests: govmomi's simulator for the inventory, behind a server that counts, refuses and fails.
// Tags and storage policies are its own: the simulator's accept what a vCenter refuses, and share their policies between the vCenters of a
// process. Everything that no program of the project calls is refused. Where it differs from a vCenter it is stricter: each difference says so.
package fakevsphere

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/vpx"
	"github.com/vmware/govmomi/vim25/types"
)

// Options say what a vCenter is like at the start. The zero value is one that can be used.
type Options struct {
	// Address is an IP address of this machine; 127.0.0.1 if it is empty. vCenters of one cluster need one each: see StartAll.
	Address string
	// SelfSigned makes it use a certificate that no CA has signed.
	SelfSigned bool
	// User is such as "user@domain"; User and Password have defaults.
	User, Password string
	// Version, Build and APIVersion have defaults of a vCenter 8.
	Version, Build, APIVersion string
	// Datacenters are the inventory. Without any, it is Small().
	Datacenters []Datacenter
}

// VCenter is a running vCenter. Its methods may be called while it runs.
type VCenter struct {
	// Server is its address without the port, as the configuration of a cluster names it.
	Server string
	Port   int
	// CA is the PEM of who signed the certificate: the certificate itself, if it signed itself.
	CA []byte
	// Thumbprint is the SHA-1 of the certificate, as vSphere writes it.
	Thumbprint string
	// User and Password are who may log in at the start.
	User, Password string

	listening   net.Listener
	server      *http.Server
	certificate certificate
	service     *simulator.Service
	registry    *simulator.Registry
	rest        http.Handler

	// placing is held while the inventory changes, mutex while anything else does. Nothing is called while mutex is held.
	placing sync.Mutex
	mutex   sync.Mutex
	objects map[string]types.ManagedObjectReference
	places  map[types.ManagedObjectReference]string
	vms     map[string]place
	users   map[string]string
	denied  map[string]map[types.ManagedObjectReference]map[string]bool
	page    int32

	tokens     map[string]string
	categories map[string]Category
	tags       map[string]Tag
	attached   map[string]map[types.ManagedObjectReference]bool
	policies   []policy
	inUse      map[string][]string
	created    int

	faults   map[string]Fault
	requests []Request
	logins   map[string]int
}

// Start starts a vCenter.
func Start(options Options) (*VCenter, error) {
	v := &VCenter{
		Server: orElse(options.Address, "127.0.0.1"), User: orElse(options.User, "cluster@vsphere.local"),
		Password: orElse(options.Password, `p4ss"w0rd; of\the #cluster`), objects: map[string]types.ManagedObjectReference{},
		places: map[types.ManagedObjectReference]string{}, vms: map[string]place{}, users: map[string]string{},
		denied: map[string]map[types.ManagedObjectReference]map[string]bool{}, tokens: map[string]string{}, categories: map[string]Category{},
		tags: map[string]Tag{}, attached: map[string]map[types.ManagedObjectReference]bool{}, inUse: map[string][]string{},
		faults: map[string]Fault{}, logins: map[string]int{},
	}
	v.users[canonical(v.User)] = v.Password
	v.policies = []policy{builtIn()}
	if err := v.build(options); err != nil {
		return nil, err
	}
	var err error
	if v.certificate, err = newCertificate(v.Server, options.SelfSigned); err != nil {
		return nil, err
	}
	v.CA, v.Thumbprint = v.certificate.ca, v.certificate.thumbprint
	return v, v.listen(net.JoinHostPort(v.Server, "0"))
}

// StartAll starts vCenters at addresses of their own: 127.0.0.1, 127.0.0.2 and so on. The keys of the Secret with the credentials have no
// port, so that the vCenters of a cluster can't share an address.
func StartAll(options ...Options) ([]*VCenter, error) {
	var all []*VCenter
	for i, one := range options {
		one.Address = fmt.Sprintf("127.0.0.%d", i+1)
		v, err := Start(one)
		if err != nil {
			CloseAll(all)
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// CloseAll ends vCenters.
func CloseAll(all []*VCenter) {
	for _, v := range all {
		v.Close()
	}
}

// build makes the services without a server.
func (v *VCenter) build(options Options) error {
	ctx, instance := simulator.NewServiceInstance(simulator.NewContext(), vpx.ServiceContent, vpx.RootFolder)
	v.registry = ctx.Map
	v.service = simulator.New(ctx, instance)
	// The simulator calls ValidLogin only with a user here. admit has already checked the password.
	v.service.Listen = &url.URL{Scheme: "https", Host: v.Server, Path: "/sdk", User: url.User("nobody")}
	v.registry.SessionManager().ValidLogin = func(*types.Login) bool { return true }
	content := instance.Content
	v.place("/", content.RootFolder)
	v.place("TaskManager", *content.TaskManager)
	manager := v.registry.Get(*content.AuthorizationManager).(*simulator.AuthorizationManager)
	v.registry.Put(&authorization{AuthorizationManager: manager, vcenter: v, all: privileges(manager)})
	properties := &collector{}
	properties.Self = content.PropertyCollector
	v.registry.Put(properties)
	v.SetVersion(orElse(options.Version, "8.0.3"), orElse(options.Build, "24022515"), orElse(options.APIVersion, "8.0.3.0"))
	datacenters := options.Datacenters
	if len(datacenters) == 0 {
		datacenters = Small()
	}
	if err := v.populate(ctx, datacenters); err != nil {
		return fmt.Errorf("inventory of a vCenter: %w", err)
	}
	v.registry.Handler = v.admit
	v.service.RegisterSDK(v.registry, v.registry.Path+"/vimService")
	v.service.RegisterSDK(v.policyRegistry())
	v.service.ServeMux.HandleFunc(v.registry.Path+"/vimServiceVersions.xml", v.service.ServiceVersions)
	v.rest = v.restHandler()
	return nil
}

// listen serves at an address.
func (v *VCenter) listen(address string) error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return fmt.Errorf("vCenter: %w", err)
	}
	server := v.newServer()
	v.mutex.Lock()
	v.server, v.listening = server, listener
	if at, ok := listener.Addr().(*net.TCPAddr); ok {
		v.Port = at.Port
	}
	v.mutex.Unlock()
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return nil
}

// Close ends it.
func (v *VCenter) Close() {
	v.mutex.Lock()
	server, listener := v.server, v.listening
	v.server = nil
	v.mutex.Unlock()
	if server != nil {
		// A server that does not serve yet does not know what it listens to.
		_ = listener.Close()
		_ = server.Close()
	}
}

// Away makes the vCenter refuse connections, and cuts open ones.
func (v *VCenter) Away() { v.Close() }

// Back ends Away: the vCenter is at the same address again, and knows what it knew.
func (v *VCenter) Back() error {
	v.mutex.Lock()
	running := v.server != nil
	v.mutex.Unlock()
	if running {
		return nil
	}
	return v.listen(net.JoinHostPort(v.Server, strconv.Itoa(v.Port)))
}

// URL is where SOAP clients connect, without user and password.
func (v *VCenter) URL() *url.URL {
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(v.Server, strconv.Itoa(v.Port)), Path: "/sdk"}
}

// SetUser lets a user log in by a password, from now on. Sessions stay good, as a vCenter's do.
func (v *VCenter) SetUser(user, password string) {
	v.set(func() { v.users[canonical(user)] = password })
}

// RemoveUser lets a user log in no more.
func (v *VCenter) RemoveUser(user string) { v.set(func() { delete(v.users, canonical(user)) }) }

// valid reports whether a user may log in. A vCenter refuses users without a domain.
func (v *VCenter) valid(user, password string) bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	wanted, known := v.users[canonical(user)]
	return strings.ContainsAny(user, `@\`) && known && password != "" && password == wanted
}

// canonical is "user@domain" in lower case, also of `DOMAIN\user`. Both are one user to a vCenter, in any case of letters.
func canonical(user string) string {
	if domain, name, found := strings.Cut(user, `\`); found {
		user = name + "@" + domain
	}
	return strings.ToLower(user)
}

func (v *VCenter) set(change func()) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	change()
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
