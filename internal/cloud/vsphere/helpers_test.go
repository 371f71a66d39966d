package vsphere_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	configv1 "github.com/openshift/api/config/v1"
	_ "github.com/vmware/govmomi/pbm/simulator"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/esx"
	_ "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

const (
	user     = "operator@vsphere.local"
	password = "s3cret-p4ss&<\"#"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMain removes most settings of the simulator's hosts, which are a thousand unused lines per host.
func TestMain(m *testing.M) {
	all := esx.HostSystem.Config
	esx.AdvancedOptions = esx.AdvancedOptions[:1]
	esx.HostSystem.Config = &types.HostConfigInfo{
		Product: all.Product, Certificate: all.Certificate, Network: &types.HostNetworkInfo{}, StorageDevice: &types.HostStorageDeviceInfo{},
	}
	os.Exit(m.Run())
}

// center is a vCenter: govmomi's simulator behind a TLS server that counts requests, ends sessions and injects faults.
type center struct {
	host  string
	port  int
	ca    []byte
	model *simulator.Model
	vc    *simulator.Server
	// small returns pages of a tenth of the requested size.
	small bool

	mutex  sync.Mutex
	server *httptest.Server
	proxy  http.Handler
	// counts are by operation.
	counts map[string]int
	// ended are the expired sessions.
	ended, seen map[string]bool
	// fault, if set, handles a request instead of the vCenter if it returns true.
	fault func(w http.ResponseWriter, r *http.Request, asked string) bool
	// sent has all requests except logins; leaked has those with the password.
	leaked []string
}

// startCenter starts a vCenter at 127.0.0.N. Without a change, it has one host.
func startCenter(t *testing.T, last int, change func(*simulator.Model)) *center {
	t.Helper()
	c := &center{host: fmt.Sprintf("127.0.0.%d", last), counts: map[string]int{}, ended: map[string]bool{}, seen: map[string]bool{}}
	c.model = simulator.VPX()
	// Networks and running VMs don't matter for storage.
	c.model.Portgroup, c.model.Autostart = 0, false
	c.model.Host, c.model.ClusterHost = 0, 1
	if change != nil {
		change(c.model)
	}
	must(t, c.model.Create())
	c.limitPrivileges()
	c.model.Service.RegisterEndpoints = true
	c.model.Service.Listen = &url.URL{User: url.UserPassword(user, password)}
	c.vc = c.model.Service.NewServer()
	target := *c.vc.URL
	target.User, target.Path = nil, ""
	proxy := httputil.NewSingleHostReverseProxy(&target)
	proxy.ErrorLog, c.proxy = log.New(io.Discard, "", 0), proxy
	certificate, ca := certify(t, c.host)
	c.ca = ca
	c.serve(t, certificate)
	t.Cleanup(func() {
		c.server.Close()
		c.vc.Close()
		c.model.Remove()
		if len(c.leaked) > 0 {
			t.Errorf("the password is in %q", c.leaked)
		}
	})
	return c
}

// severalHosts gives a vCenter a host without a cluster, and three with one.
func severalHosts(model *simulator.Model) { model.Host, model.ClusterHost = 1, 3 }

// limitPrivileges removes privileges that don't concern storage: a vCenter has 482, and a poll would read all of them for each object.
func (c *center) limitPrivileges() {
	manager := c.model.Map().Get(*c.model.ServiceContent.AuthorizationManager).(*simulator.AuthorizationManager)
	for i, role := range manager.RoleList {
		manager.RoleList[i].Privilege = slices.DeleteFunc(slices.Clone(role.Privilege), func(one string) bool {
			return !slices.ContainsFunc([]string{
				"Cns.", "Datastore.", "InventoryService.Tagging.", "Resource.", "Sessions.", "StorageProfile.", "System.", "VApp.Assign", "VApp.Import",
				"VirtualMachine.Config.", "VirtualMachine.Interact.", "VirtualMachine.Inventory.", "VirtualMachine.Provisioning.",
			}, func(begin string) bool { return strings.HasPrefix(one, begin) })
		})
	}
}

func (c *center) serve(t *testing.T, certificate tls.Certificate) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(c.host, fmt.Sprint(c.port)))
	must(t, err)
	c.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: c}}
	c.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	c.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	c.server.StartTLS()
	c.port = listener.Addr().(*net.TCPAddr).Port
}

// ServeHTTP counts requests and injects faults.
func (c *center) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if c.small {
		body = regexp.MustCompile(`<maxObjects>(\d+)0</maxObjects>`).ReplaceAll(body, []byte("<maxObjects>$1</maxObjects>"))
		r.ContentLength = int64(len(body))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	asked := askedFor(r, body)
	session := sessionOf(r, body)
	c.mutex.Lock()
	c.counts[asked]++
	fault, ended := c.fault, c.ended[session]
	if session != "" {
		c.seen[session] = true
	}
	if asked != "Login" && bytes.Contains(body, []byte("s3cret-p4ss")) {
		c.leaked = append(c.leaked, asked)
	}
	c.mutex.Unlock()
	switch {
	case fault != nil && fault(w, r, asked):
	case ended && strings.HasPrefix(r.URL.Path, "/rest"):
		w.WriteHeader(http.StatusUnauthorized)
	case ended:
		soapFault(w, "NotAuthenticated")
	default:
		c.proxy.ServeHTTP(w, r)
	}
}

// askedFor returns the SOAP method or the REST path of a request.
func askedFor(r *http.Request, body []byte) string {
	if strings.HasPrefix(r.URL.Path, "/rest") {
		path, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/rest/com/vmware/cis"), "/id:")
		return r.Method + " " + path + " " + r.URL.Query().Get("~action")
	}
	_, rest, _ := bytes.Cut(body, []byte("Body><"))
	name, _, _ := bytes.Cut(rest, []byte(" "))
	return string(name)
}

func sessionOf(r *http.Request, body []byte) string {
	if cookie, err := r.Cookie("vmware_soap_session"); err == nil {
		return cookie.Value
	}
	if _, rest, found := bytes.Cut(body, []byte("vcSessionCookie")); found {
		_, rest, _ = bytes.Cut(rest, []byte(">"))
		value, _, _ := bytes.Cut(rest, []byte("<"))
		return string(value)
	}
	return r.Header.Get("vmware-api-session-id")
}

func soapFault(w http.ResponseWriter, name string) { soapFaultWith(w, name, "") }

// soapFaultWith returns a fault with fields.
func soapFaultWith(w http.ResponseWriter, name, fields string) {
	w.WriteHeader(http.StatusInternalServerError)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" `+
		`xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body><soapenv:Fault>`+
		`<faultcode>ServerFaultCode</faultcode><faultstring>secret text of a vCenter %s</faultstring><detail>`+
		`<%sFault xmlns="urn:vim25" xsi:type="%s">%s</%sFault></detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>`, strings.ReplaceAll(strings.ReplaceAll(password, "&", "&amp;"), "<", "&lt;"), name, name, fields, name)
}

// expire ends all current sessions.
func (c *center) expire() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for session := range c.seen {
		c.ended[session] = true
	}
}

func (c *center) setFault(fault func(w http.ResponseWriter, r *http.Request, asked string) bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.fault = fault
}

func (c *center) reset() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.counts = map[string]int{}
}

// requests counts the requests whose name has a prefix.
func (c *center) requests(begin string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	count := 0
	for asked, times := range c.counts {
		if strings.HasPrefix(asked, begin) {
			count += times
		}
	}
	return count
}

func (c *center) config() cloudconfig.VCenterConfig {
	return cloudconfig.VCenterConfig{Server: c.host, Port: c.port, Datacenters: []string{"DC0"}}
}

// certify creates a certificate for a host, and returns its CA in PEM.
func certify(t *testing.T, host string) (tls.Certificate, []byte) {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		return made
	}
	from, to := time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of " + host}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	rootKey, leafKey := key(), key()
	rootRaw, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	must(t, err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: to, IPAddresses: []net.IP{net.ParseIP(host)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	leafRaw, err := x509.CreateCertificate(rand.Reader, leaf, root, &leafKey.PublicKey, rootKey)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{leafRaw}, PrivateKey: leafKey}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootRaw})
}

// clock is a clock that tests advance.
type clock struct {
	mutex sync.Mutex
	at    time.Time
}

func (c *clock) now() time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.at
}

func (c *clock) pass(by time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.at = c.at.Add(by)
}

// scene is a Poller with fake vCenters, a fake clock and a log.
type scene struct {
	*vsphere.Poller
	t       *testing.T
	centers []*center
	clock   *clock
	config  cloudconfig.Config
	logins  map[string]cloudconfig.Login
	roots   []byte
	want    vsphere.Want
	woken   int
	reads   int
	log     strings.Builder
}

func newScene(t *testing.T, centers ...*center) *scene {
	t.Helper()
	s := &scene{t: t, centers: centers, clock: &clock{at: time.Now()}, logins: map[string]cloudconfig.Login{}}
	for _, one := range centers {
		s.config.VCenters = append(s.config.VCenters, one.config())
		s.logins[one.host] = cloudconfig.Login{User: user, Password: password}
		s.roots = append(s.roots, one.ca...)
		s.want.FailureDomains = append(s.want.FailureDomains, configv1.VSpherePlatformFailureDomainSpec{
			Name: "fd-" + one.host, Region: "r", Zone: "z", Server: one.host, Topology: configv1.VSpherePlatformTopology{
				Datacenter: "DC0", ComputeCluster: "/DC0/host/DC0_C0", Datastore: "/DC0/datastore/LocalDS_0", Folder: "/DC0/vm",
				ResourcePool: "/DC0/host/DC0_C0/Resources",
			},
		})
	}
	s.want.InfrastructureID = "infra"
	s.Poller = &vsphere.Poller{
		Now: s.clock.now, Wake: func() { s.woken++ }, Jitter: func(pause time.Duration) time.Duration { return pause },
		Log: funcr.New(func(prefix, args string) { fmt.Fprintln(&s.log, prefix, args) }, funcr.Options{Verbosity: 10}),
		Source: func(context.Context) (cloudconfig.Config, map[string]cloudconfig.Login, []byte, error) {
			s.reads++
			return s.config, s.logins, s.roots, nil
		},
		Want: func(context.Context) (vsphere.Want, error) { return s.want, nil },
	}
	s.SetInputs("first")
	t.Cleanup(func() {
		if text := s.log.String() + fmt.Sprintf("%v %+v %#v", s.Snapshot(), s.Snapshot(), s.Snapshot()); strings.Contains(text, "s3cret-p4ss") {
			t.Errorf("the password is in the log or the snapshot: %.2000s", text)
		}
	})
	return s
}

// tick runs a poll, which must be due, and fails if a vCenter does not answer.
func (s *scene) tick() time.Duration {
	s.t.Helper()
	wait := s.Tick(s.t.Context())
	for _, one := range s.Snapshot().VCenters {
		if one.Err != nil {
			s.t.Fatal(one.Err)
		}
	}
	return wait
}

// only returns the answer of the only vCenter.
func (s *scene) only() vsphere.VCenter {
	s.t.Helper()
	seen := s.Snapshot().VCenters
	if len(seen) != 1 {
		s.t.Fatalf("%d vCenters", len(seen))
	}
	return seen[0]
}
