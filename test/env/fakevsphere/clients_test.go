package fakevsphere

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"testing"

	"github.com/vmware/govmomi/pbm"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// clients are those of one user.
type clients struct {
	soap     *vim25.Client
	sessions *session.Manager
	rest     *rest.Client
	tags     *tags.Manager
	policies *pbm.Client
}

func start(t *testing.T, options Options) *VCenter {
	t.Helper()
	v, err := Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// connect makes clients that trust the vCenter's CA, without logging in.
func connect(t *testing.T, v *VCenter) *clients {
	t.Helper()
	client := soap.NewClient(v.URL(), false)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(v.CA)
	client.DefaultTransport().TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	t.Cleanup(client.CloseIdleConnections)
	c := &clients{}
	var err error
	if c.soap, err = vim25.NewClient(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	c.sessions = session.NewManager(c.soap)
	c.rest = rest.NewClient(c.soap)
	c.tags = tags.NewManager(c.rest)
	return c
}

// login logs in by SOAP and REST.
func (c *clients) login(ctx context.Context, user, password string) (bySOAP, byREST error) {
	who := url.UserPassword(user, password)
	return c.sessions.Login(ctx, who), c.rest.Login(ctx, who)
}

// signIn makes clients that have logged in as the first user.
func signIn(t *testing.T, v *VCenter) *clients {
	t.Helper()
	c := connect(t, v)
	if err, err2 := c.login(t.Context(), v.User, v.Password); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	var err error
	if c.policies, err = pbm.NewClient(t.Context(), c.soap); err != nil {
		t.Fatal(err)
	}
	return c
}

// fault is the fault of a SOAP call; nil if there was none.
func fault(err error) any {
	if err == nil || !soap.IsSoapFault(err) {
		return nil
	}
	return soap.ToSoapFault(err).VimFault()
}

func isUnauthorized(err error) bool { return rest.IsStatusError(err, http.StatusUnauthorized) }

// byTag are the rules of a policy for datastores with a tag.
func byTag(category string, names ...string) *pbmtypes.PbmCapabilitySubProfileConstraints {
	set := pbmtypes.PbmCapabilityDiscreteSet{}
	for _, name := range names {
		set.Values = append(set.Values, name)
	}
	return &pbmtypes.PbmCapabilitySubProfileConstraints{SubProfiles: []pbmtypes.PbmCapabilitySubProfile{{
		Name: "Tag based placement", Capability: []pbmtypes.PbmCapabilityInstance{{
			Id: pbmtypes.PbmCapabilityMetadataUniqueId{Namespace: tagNamespace, Id: category},
			Constraint: []pbmtypes.PbmCapabilityConstraintInstance{{PropertyInstance: []pbmtypes.PbmCapabilityPropertyInstance{{
				Id: "com.vmware.storage.tag." + category + ".property", Value: set,
			}}}},
		}},
	}}}
}

func policySpec(name, category string, names ...string) pbmtypes.PbmCapabilityProfileCreateSpec {
	return pbmtypes.PbmCapabilityProfileCreateSpec{
		Name: name, Category: "REQUIREMENT", ResourceType: pbmtypes.PbmProfileResourceType{ResourceType: "STORAGE"}, Constraints: byTag(category, names...),
	}
}

// ref is an object without a type of its own.
type ref = types.ManagedObjectReference
