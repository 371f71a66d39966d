package vsphere

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/vmware/govmomi/pbm"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

const (
	userAgent = "csi-operators"
	// logoutTimeout limits the logout from one vCenter.
	logoutTimeout = 5 * time.Second
	// sessionHeader is the session header of the REST API.
	sessionHeader = "vmware-api-session-id"
	restPath      = "/rest/com/vmware/cis"
)

// client queries one vCenter with one login. From connect until disconnect, the client has a session in the SOAP API and another in the REST API. It
// is not safe for concurrent use.
type client struct {
	config  cloudconfig.VCenterConfig
	login   cloudconfig.Login
	timeout time.Duration
	http    *http.Transport
	carrier http.RoundTripper

	// session is nil while the client is not logged in.
	session *session
	// tags is the cache of tags, which stays when a session ends.
	tags tagCache
}

// session is the result of a login.
type session struct {
	vim *vim25.Client
	// user is the user's full name in the vCenter. The client reads privileges by this name.
	user string
	rest *soap.Client
	// key is the session key of the REST API.
	key string
	// The client creates pbm, the client for storage policies, and view, the view of the inventory, when it first needs them. They end with the session.
	pbm  *pbm.Client
	view Ref
}

// newClient creates a client for one vCenter. Argument "limits" counts and limits the client's requests. newClient sets field Next of "limits" to the
// transport that trusts the roots.
func newClient(config cloudconfig.VCenterConfig, login cloudconfig.Login, roots []byte, timeout time.Duration, limits poll.Transport) (
	*client, error,
) {
	base, err := newTransport(config, roots)
	if err != nil {
		return nil, err
	}
	limits.Next = base
	return &client{config: config, login: login, timeout: timeout, http: base, carrier: statuses{&limits}}, nil
}

// fail wraps an error as an Error of this vCenter.
func (c *client) fail(what string, err error) error { return failed(c.config.Server, what, err) }

// prepare sets our transport on a govmomi client. It disables redirects, which would send the password or the session to another host.
func (c *client) prepare(service *soap.Client) *soap.Client {
	service.Transport, service.Timeout, service.UserAgent = c.carrier, c.timeout, userAgent
	service.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return service
}

// connect logs in to both APIs. If the second login fails, it ends the first session.
func (c *client) connect(ctx context.Context) (err error) {
	const what = "log in"
	address := &url.URL{Scheme: "https", Host: net.JoinHostPort(c.config.Server, strconv.Itoa(c.config.Port)), Path: "/sdk"}
	fresh := &session{}
	if fresh.vim, err = vim25.NewClient(ctx, c.prepare(soap.NewClient(address, c.config.Insecure))); err != nil {
		return c.fail("connect", err)
	}
	content := fresh.vim.ServiceContent
	managers := []*Ref{content.SessionManager, content.ViewManager, content.AuthorizationManager, content.TaskManager}
	if !fresh.vim.IsVC() || slices.Contains(managers, nil) {
		return c.fail("connect", &Error{Reason: InvalidAnswer, Why: "this is not a vCenter: correct the cloud configuration"})
	}
	answer, err := methods.Login(ctx, fresh.vim, &types.Login{
		This: *content.SessionManager, UserName: c.login.User, Password: c.login.Password, Locale: "en_US",
	})
	if err != nil {
		return c.fail(what, err)
	}
	fresh.user = answer.Returnval.UserName
	c.session = fresh
	fresh.rest = c.prepare(fresh.vim.NewServiceClient("/rest", ""))
	if err := c.rest(ctx, what+" to the REST API", restCall{method: http.MethodPost, path: "/session", into: &fresh.key}); err != nil {
		c.disconnect(ctx)
		return err
	}
	if fresh.key == "" {
		c.disconnect(ctx)
		return c.fail(what+" to the REST API", &Error{Reason: InvalidAnswer, Why: "the answer has no session: " + adviceReach})
	}
	return nil
}

// disconnect logs out and closes idle connections. It works even if ctx has already ended, and has its own timeout.
func (c *client) disconnect(ctx context.Context) {
	old := c.session
	if old == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
	defer cancel()
	if old.key != "" {
		_ = c.rest(ctx, "log out", restCall{method: http.MethodDelete, path: "/session"})
	}
	c.session = nil
	// Ignore errors, because the vCenter itself ends the session after half an hour.
	_, _ = methods.Logout(ctx, old.vim, &types.Logout{This: *old.vim.ServiceContent.SessionManager})
	c.http.CloseIdleConnections()
}

// policies returns the client for storage policies. This client uses the session of vim.
func (c *client) policies(ctx context.Context) (*pbm.Client, error) {
	if c.session.pbm != nil {
		return c.session.pbm, nil
	}
	// Like pbm.NewClient, with our transport.
	service := c.prepare(c.session.vim.NewServiceClient(pbm.Path, pbm.Namespace))
	service.Cookie = c.session.vim.SessionCookie
	content, err := pbmContent(ctx, service)
	if err != nil {
		return nil, c.fail("connect to the storage policies", err)
	}
	c.session.pbm = &pbm.Client{Client: service, ServiceContent: *content, RoundTripper: service}
	return c.session.pbm, nil
}

// restCall is a request to the REST API.
type restCall struct {
	method, path, action string
	body, into           any
	// maybe means that an empty response is not an error.
	maybe bool
}

// rest sends a request to the REST API. The response is a JSON object that has the result under the key "value".
func (c *client) rest(ctx context.Context, what string, call restCall) error {
	address := c.session.rest.URL()
	address.Path = restPath + call.path
	if call.action != "" {
		address.RawQuery = url.Values{"~action": {call.action}}.Encode()
	}
	body, err := json.Marshal(call.body)
	if err != nil {
		return c.fail(what, err)
	}
	if call.body == nil {
		body = nil
	}
	request, err := http.NewRequestWithContext(ctx, call.method, address.String(), bytes.NewReader(body))
	if err != nil {
		return c.fail(what, err)
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.session.key != "" {
		request.Header.Set(sessionHeader, c.session.key)
	} else {
		request.Header.Set("vmware-use-header-authn", "true")
		request.SetBasicAuth(c.login.User, c.login.Password)
	}
	if err := c.session.rest.Do(ctx, request, func(response *http.Response) error { return readREST(response, call) }); err != nil {
		return c.fail(what, err)
	}
	return nil
}

func readREST(response *http.Response, call restCall) error {
	good := []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent}
	switch {
	case response.StatusCode == http.StatusBadRequest:
		body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		if err != nil {
			return err //nolint:wrapcheck // failed converts it, and needs its type: a response can be cut by a deadline.
		}
		return refusedAs(body)
	case !slices.Contains(good, response.StatusCode):
		return statusError(response.StatusCode)
	case call.into == nil:
		return nil
	}
	answer := struct {
		Value json.RawMessage `json:"value"`
	}{}
	switch err := json.NewDecoder(response.Body).Decode(&answer); {
	case call.maybe && errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err //nolint:wrapcheck // failed converts it, and needs its type.
	}
	if len(answer.Value) == 0 {
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(answer.Value, call.into) //nolint:wrapcheck // As above.
}
