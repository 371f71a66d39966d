package vsphere

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// faultError returns govmomi's error for a SOAP fault.
type faultError struct{ fault types.BaseMethodFault }

func (f faultError) Error() string                { return "s3cret text of a vCenter" }
func (f faultError) Fault() types.BaseMethodFault { return f.fault }

func TestAFaultHasAReasonAndNoTextOfTheVCenter(t *testing.T) {
	for name, tc := range map[string]struct {
		fault   types.BaseMethodFault
		reason  Reason
		says    string
		expired bool
	}{
		"wrong password":         {&types.InvalidLogin{}, LoginRefused, "the user or the password is wrong", false},
		"wrong password of SPBM": {&pbmtypes.PbmFaultInvalidLogin{}, LoginRefused, "the user or the password is wrong", false},
		"no session":             {&types.NotAuthenticated{}, LoginRefused, "the session has expired", true},
		"no privilege":           {&types.NoPermission{PrivilegeId: "Datastore.Browse"}, NotAuthorized, "lacks the privilege Datastore.Browse", false},
		"no privilege known":     {&types.NoPermission{PrivilegeId: "s3cret"}, NotAuthorized, "the user may not do this", false},
		"no privilege in SPBM":   {&pbmtypes.PbmFaultNoPermission{}, NotAuthorized, "the user may not do this", false},
		"gone":                   {&types.ManagedObjectNotFound{}, Conflict, "no longer exists", false},
		"gone in SPBM":           {&pbmtypes.PbmFaultNotFound{}, Conflict, "no longer exists", false},
		"there is one":           {&types.AlreadyExists{Name: "s3cret"}, Conflict, "an object of this name", false},
		"a name twice":           {&types.DuplicateName{Name: "s3cret"}, Conflict, "an object of this name", false},
		"a name twice in SPBM":   {&pbmtypes.PbmDuplicateName{Name: "s3cret"}, Conflict, "an object of this name", false},
		"in use":                 {&types.ResourceInUse{Name: "s3cret"}, Conflict, "in use", false},
		"in use in SPBM":         {&pbmtypes.PbmResourceInUse{}, Conflict, "in use", false},
		"something else":         {&types.InvalidProperty{Name: "s3cret"}, InvalidAnswer, "the fault InvalidProperty", false},
		"nothing":                {nil, InvalidAnswer, "an unknown fault", false},
	} {
		failure := failed("vc", "ask", fmt.Errorf("x: %w", faultError{tc.fault}))
		if failure.Reason != tc.reason || !strings.Contains(failure.Why, tc.says) || failure.Expired != tc.expired {
			t.Errorf("%s: %+v", name, *failure)
		}
		if text := fmt.Sprintf("%v %+v %#v %s", failure, failure, failure, failure); strings.Contains(text, "s3cret") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestAStatusOfHTTPHasAReasonAndAdvice(t *testing.T) {
	for status, tc := range map[int]struct {
		reason  Reason
		says    string
		expired bool
	}{
		http.StatusFound:               {InvalidAnswer, "a proxy in front of it", false},
		http.StatusBadRequest:          {InvalidAnswer, "a proxy in front of it", false},
		http.StatusUnauthorized:        {LoginRefused, "vsphere-creds", true},
		http.StatusForbidden:           {NotAuthorized, "privileges", false},
		http.StatusNotFound:            {Conflict, "not a vCenter", false},
		http.StatusRequestTimeout:      {Timeout, "can be reached", false},
		http.StatusTooManyRequests:     {Overloaded, "overloaded", false},
		http.StatusInternalServerError: {InvalidAnswer, "logs of the vCenter", false},
		http.StatusBadGateway:          {InvalidAnswer, "logs of the vCenter", false},
		http.StatusServiceUnavailable:  {Overloaded, "starting", false},
		http.StatusGatewayTimeout:      {Timeout, "can be reached", false},
	} {
		e := statusError(status)
		if e.Reason != tc.reason || !strings.HasPrefix(e.Why, fmt.Sprintf("HTTP %d: ", status)) || !strings.Contains(e.Why, tc.says) || e.Expired != tc.expired || e.Status != status {
			t.Errorf("%d: %+v", status, *e)
		}
	}
}

func TestARefusalOfTheRESTAPIIsReadByItsType(t *testing.T) {
	for body, tc := range map[string]struct {
		reason  Reason
		says    string
		expired bool
	}{
		`{"type":"com.vmware.vapi.std.errors.already_exists","value":{"messages":["s3cret"]}}`: {Conflict, "an object of this name", false},
		`{"type":"com.vmware.vapi.std.errors.not_found"}`:                                      {Conflict, "no longer exists", false},
		`{"type":"com.vmware.vapi.std.errors.resource_in_use"}`:                                {Conflict, "in use", false},
		`{"type":"com.vmware.vapi.std.errors.unauthorized"}`:                                   {NotAuthorized, "may not do this", false},
		`{"type":"com.vmware.vapi.std.errors.unauthenticated"}`:                                {LoginRefused, "session", true},
		`{"type":"com.vmware.vapi.std.errors.invalid_argument"}`:                               {InvalidAnswer, "HTTP 400", false},
		`{"type":"s3cret"}`: {InvalidAnswer, "HTTP 400", false},
		`{"type":7}`:        {InvalidAnswer, "HTTP 400", false},
		`<html>s3cret`:      {InvalidAnswer, "HTTP 400", false},
		``:                  {InvalidAnswer, "HTTP 400", false},
	} {
		e := refusedAs([]byte(body))
		if e.Reason != tc.reason || !strings.Contains(e.Why, tc.says) || e.Expired != tc.expired || strings.Contains(e.Why, "s3cret") {
			t.Errorf("%s: %+v", body, *e)
		}
	}
}

func TestARequestWithoutAnAnswerHasAReason(t *testing.T) {
	asURL := func(err error) error { return &url.Error{Op: "Post", URL: "https://u:s3cret@vc/sdk", Err: err} }
	refusal := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{Port: 51234}, Err: syscall.ECONNREFUSED}
	for name, tc := range map[string]struct {
		err    error
		reason Reason
		says   string
	}{
		"refused":             {asURL(refusal), NoConnection, "dial failed"},
		"no such host":        {asURL(&net.DNSError{Err: "no such host", Name: "vc", IsNotFound: true}), NoConnection, "DNS does not know"},
		"closed":              {asURL(io.EOF), NoConnection, "was closed"},
		"broken":              {poll.ErrCutOff, NoConnection, "broke during the answer"},
		"too long":            {poll.ErrTooLong, InvalidAnswer, "too long"},
		"too long together":   {fmt.Errorf("decode: %w", poll.ErrTooMuch), InvalidAnswer, "the answers of one poll together are too long"},
		"late":                {asURL(context.DeadlineExceeded), Timeout, "in time"},
		"nobody waits":        {asURL(context.Canceled), NoConnection, "no answer"},
		"no JSON":             {json.Unmarshal([]byte("s3cret"), &struct{}{}), InvalidAnswer, "not from a vCenter"},
		"other JSON":          {json.Unmarshal([]byte(`"s3cret"`), &struct{}{}), InvalidAnswer, "not from a vCenter"},
		"unknown CA":          {asURL(x509.UnknownAuthorityError{}), UntrustedCertificate, "unknown CA"},
		"another name":        {asURL(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "vc"}), UntrustedCertificate, "another host"},
		"expired":             {asURL(x509.CertificateInvalidError{Reason: x509.Expired}), UntrustedCertificate, "expired"},
		"invalid":             {asURL(x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}), UntrustedCertificate, "not valid"},
		"wrapped":             {asURL(&tls.CertificateVerificationError{Err: errors.New("s3cret")}), UntrustedCertificate, "not valid"},
		"something else":      {errors.New("s3cret"), NoConnection, "no answer"},
		"the budget is spent": {asURL(&poll.SpentError{Limit: 120}), Overloaded, "the operator has reached its own limit of 120 requests in a minute: the operator retries"},
		"an error of our own": {&Error{Reason: Overloaded, Why: "wait"}, Overloaded, "wait"},
	} {
		failure := failed("vc", "ask", tc.err)
		if failure.Reason != tc.reason || !strings.Contains(failure.Why, tc.says) {
			t.Errorf("%s: %+v", name, *failure)
		}
		if text := fmt.Sprintf("%+v %#v", failure, failure); strings.Contains(text, "s3cret") || strings.Contains(text, "51234") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestAnErrorOfTheSourceIsOneOfTheCredentialsUnlessItSaysMore(t *testing.T) {
	own := &Error{Reason: cloudconfig.InvalidConfiguration}
	if got := sourceError(fmt.Errorf("x: %w", own)); got != own {
		t.Errorf("%+v", got)
	}
	if got := sourceError(context.Canceled); got.Reason != cloudconfig.InvalidCredentials || !errors.Is(got, context.Canceled) {
		t.Errorf("%+v", got)
	}
}
