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
	"reflect"
	"strings"

	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// Reason says in one word why a vCenter does not answer. It is a Reason of the configuration as well.
type Reason = cloudconfig.Reason

// Error is why something of a vCenter failed. It is an Error of the configuration as well.
type Error = cloudconfig.Error

// The reasons of a vCenter.
const (
	// LoginRefused: the vCenter knows no such user and password.
	LoginRefused Reason = "LoginRefused"
	// NotAuthorized: the user may not do this.
	NotAuthorized Reason = "NotAuthorized"
	// NoConnection: no connection, or it broke.
	NoConnection Reason = "NoConnection"
	// Timeout: no answer in time.
	Timeout Reason = "Timeout"
	// UntrustedCertificate: the certificate is not signed by a CA that the cluster trusts, or is for another name.
	UntrustedCertificate Reason = "UntrustedCertificate"
	// InvalidAnswer: it answered what no vCenter answers.
	InvalidAnswer Reason = "InvalidAnswer"
	// Overloaded: the budget of requests is used up, or the vCenter asks to come later.
	Overloaded Reason = "Overloaded"
	// Conflict: what is to be changed has changed, is in use, or is there already.
	Conflict Reason = "Conflict"
)

// ReasonOf is the reason of an error; InvalidAnswer if it has none.
func ReasonOf(err error) Reason {
	var own *Error
	if errors.As(err, &own) {
		return own.Reason
	}
	return InvalidAnswer
}

const (
	adviceUser       = "correct the Secret vsphere-creds in kube-system"
	advicePrivileges = "give the user of the Secret vsphere-creds the privileges that OpenShift needs"
	adviceReach      = "check whether the vCenter is up and can be reached from this cluster"
	adviceWait       = "the operator asks again by itself"
)

// failed makes an Error of what govmomi or the transport says.
func failed(server, what string, err error) *Error {
	failure := &Error{Server: server, What: what, Ended: ended(err)}
	var own *Error
	var fault interface{ Fault() types.BaseMethodFault }
	switch {
	case errors.As(err, &own):
		failure.Reason, failure.Why, failure.Expired, failure.Status = own.Reason, own.Why, own.Expired, own.Status
	case errors.As(err, &fault):
		faulted(failure, fault.Fault())
	default:
		unanswered(failure, err)
	}
	return failure
}

// ended is the end of a context, if that is the cause.
func ended(err error) error {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return end
		}
	}
	return nil
}

// faulted fills in what an answer says that is a fault of SOAP.
func faulted(e *Error, fault types.BaseMethodFault) {
	switch fault := fault.(type) {
	case *types.InvalidLogin, *pbmtypes.PbmFaultInvalidLogin:
		e.Reason, e.Why = LoginRefused, "the user or the password is wrong, or the account is locked or expired: "+adviceUser
	case *types.NotAuthenticated:
		e.Reason, e.Why, e.Expired = LoginRefused, "the session is not known any more: "+adviceWait, true
	case *types.NoPermission:
		e.Reason, e.Why = NotAuthorized, "the user may not do this: "+advicePrivileges
		if isPrivilege(fault.PrivilegeId) {
			e.Why = "the user lacks the privilege " + fault.PrivilegeId + ": " + advicePrivileges
		}
	case *pbmtypes.PbmFaultNoPermission:
		e.Reason, e.Why = NotAuthorized, "the user may not do this: "+advicePrivileges
	case *types.ManagedObjectNotFound, *pbmtypes.PbmFaultNotFound:
		e.Reason, e.Why = Conflict, "the object is there no more: "+adviceWait
	case *types.AlreadyExists, *types.DuplicateName, *pbmtypes.PbmAlreadyExists, *pbmtypes.PbmDuplicateName:
		e.Reason, e.Why = Conflict, "there is an object of this name: "+adviceWait
	case *types.ResourceInUse, *pbmtypes.PbmResourceInUse:
		e.Reason, e.Why = Conflict, "the object is in use: "+adviceWait
	case nil:
		e.Reason, e.Why = InvalidAnswer, "it answers with a fault that is unknown: "+adviceReach
	default:
		// The name is one of govmomi's types, and no text of the vCenter.
		e.Reason, e.Why = InvalidAnswer, "it answers with the fault "+reflect.Indirect(reflect.ValueOf(fault)).Type().Name()+": "+adviceWait
	}
}

// statusError is for an answer with an HTTP status that is an error.
func statusError(status int) *Error {
	e := &Error{Reason: InvalidAnswer, Why: fmt.Sprintf("HTTP %d", status), Status: status}
	advice := "check whether the address is that of a vCenter, or of a proxy before it"
	switch {
	case status == http.StatusUnauthorized:
		e.Reason, e.Expired, advice = LoginRefused, true, adviceUser
	case status == http.StatusForbidden:
		e.Reason, advice = NotAuthorized, advicePrivileges
	case status == http.StatusNotFound:
		e.Reason, advice = Conflict, "the object is there no more, or this is no vCenter"
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		e.Reason, advice = Overloaded, "it is starting or has too much to do: "+adviceWait
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		e.Reason, advice = Timeout, adviceReach
	case status >= http.StatusInternalServerError:
		advice = "look at the logs of the vCenter; " + adviceWait
	}
	e.Why += ": " + advice
	return e
}

// refusedAs reads the kind of an error that the REST API gives with status 400; its texts are not read
// (vmware/vsphere-automation-sdk, com.vmware.vapi.std.errors).
func refusedAs(body []byte) *Error {
	answer := struct {
		Type string `json:"type"`
	}{}
	e := statusError(http.StatusBadRequest)
	if json.Unmarshal(body, &answer) != nil {
		return e
	}
	switch strings.TrimPrefix(answer.Type, "com.vmware.vapi.std.errors.") {
	case "already_exists":
		e.Reason, e.Why = Conflict, "there is an object of this name: "+adviceWait
	case "not_found":
		e.Reason, e.Why = Conflict, "the object is there no more: "+adviceWait
	case "resource_in_use":
		e.Reason, e.Why = Conflict, "the object is in use: "+adviceWait
	case "unauthorized":
		e.Reason, e.Why = NotAuthorized, "the user may not do this: "+advicePrivileges
	case "unauthenticated":
		e.Reason, e.Why, e.Expired = LoginRefused, "the session is not known any more: "+adviceWait, true
	}
	return e
}

// unanswered fills in why there is no answer, or why it could not be read.
func unanswered(e *Error, err error) {
	e.Reason, e.Why = NoConnection, "no answer: "+adviceReach
	var network *net.OpError
	var name *net.DNSError
	var address *url.Error
	var timeout net.Error
	var spent *poll.SpentError
	switch untrusted := certificateProblem(err); {
	case untrusted != "":
		e.Reason = UntrustedCertificate
		e.Why = untrusted + ": add its CA to the CA bundle of the cluster's proxy, trustedCA of Proxy cluster, or correct the certificate"
	case errors.As(err, &spent):
		e.Reason, e.Why = Overloaded, spent.Error()+": "+adviceWait
	case errors.Is(err, poll.ErrTooMuch):
		e.Reason, e.Why = InvalidAnswer, poll.ErrTooMuch.Error()+": check whether the address is that of a vCenter, or of a proxy before it"
	case errors.Is(err, poll.ErrTooLong):
		e.Reason, e.Why = InvalidAnswer, "the answer is too long: "+adviceReach
	case errors.Is(err, poll.ErrCutOff):
		e.Why = "the connection broke during the answer: " + adviceReach
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		e.Reason, e.Why = Timeout, "no answer in time: "+adviceReach
	case errors.As(err, &name):
		e.Why = "the name of the host is not known to DNS: check the cloud configuration and DNS"
	case !errors.As(err, &address) && isSyntax(err):
		e.Reason, e.Why = InvalidAnswer, "the answer is none of a vCenter: check whether the address is that of a vCenter, or of a proxy before it"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		e.Why = "the connection was closed: " + adviceReach
	case errors.As(err, &network):
		// Addresses and ports are others each time, so they are left out.
		e.Why = "no connection: " + network.Op + " failed: " + adviceReach
	}
}

// certificateProblem says what is wrong with a certificate; empty if that is not the problem.
func certificateProblem(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &authority):
		return "the certificate is signed by an unknown CA"
	case errors.As(err, &host):
		return "the certificate is for another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet"
	case errors.As(err, &invalid) || errors.As(err, &certificate):
		return "the certificate is not valid"
	default:
		return ""
	}
}

func isSyntax(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var markup *xml.SyntaxError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.As(err, &markup) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || strings.HasPrefix(fmt.Sprintf("%T", err), "xml.") || strings.HasPrefix(fmt.Sprintf("%T", err), "*strconv.")
}
