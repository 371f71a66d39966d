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

// Reason classifies a problem of a vCenter or of the configuration.
type Reason = cloudconfig.Reason

// Error is an error of a vCenter or of the configuration.
type Error = cloudconfig.Error

// Reasons of vCenters.
const (
	// LoginRefused means that the vCenter rejects the user or the password.
	LoginRefused Reason = "LoginRefused"
	// NotAuthorized means that the user lacks a privilege.
	NotAuthorized Reason = "NotAuthorized"
	// NoConnection means that the connection failed.
	NoConnection Reason = "NoConnection"
	// Timeout means that the vCenter did not answer in time.
	Timeout Reason = "Timeout"
	// UntrustedCertificate means that no CA that the cluster trusts has signed the certificate, or that the certificate is for another name.
	UntrustedCertificate Reason = "UntrustedCertificate"
	// InvalidAnswer means that the response is not what a vCenter sends to such a request. It can be the response of another server.
	InvalidAnswer Reason = "InvalidAnswer"
	// Overloaded means that the operator reached its request limit, or that the vCenter asks the operator to wait.
	Overloaded Reason = "Overloaded"
	// Conflict means that the object to change has changed, is in use, or exists already.
	Conflict Reason = "Conflict"
)

// ReasonOf returns the reason of an error. It returns InvalidAnswer if the error has no reason.
func ReasonOf(err error) Reason {
	var own *Error
	if errors.As(err, &own) {
		return own.Reason
	}
	return InvalidAnswer
}

const (
	adviceUser       = "correct the Secret vsphere-creds in kube-system"
	advicePrivileges = "grant the user of the Secret vsphere-creds the privileges that OpenShift needs"
	adviceReach      = "check whether the vCenter is up and can be reached from this cluster"
	adviceWait       = "the operator retries"
)

// failed converts an error of govmomi or of the transport.
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

// ended returns context.Canceled or context.DeadlineExceeded if one of them caused the error. If not, it returns nil.
func ended(err error) error {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return end
		}
	}
	return nil
}

// faulted fills in the reason for a SOAP fault.
func faulted(e *Error, fault types.BaseMethodFault) {
	switch fault := fault.(type) {
	case *types.InvalidLogin, *pbmtypes.PbmFaultInvalidLogin:
		e.Reason, e.Why = LoginRefused, "the user or the password is wrong, or the account is locked or expired: "+adviceUser
	case *types.NotAuthenticated:
		e.Reason, e.Why, e.Expired = LoginRefused, "the session has expired: "+adviceWait, true
	case *types.NoPermission:
		e.Reason, e.Why = NotAuthorized, "the user may not do this: "+advicePrivileges
		if isPrivilege(fault.PrivilegeId) {
			e.Why = "the user lacks the privilege " + fault.PrivilegeId + ": " + advicePrivileges
		}
	case *pbmtypes.PbmFaultNoPermission:
		e.Reason, e.Why = NotAuthorized, "the user may not do this: "+advicePrivileges
	case *types.ManagedObjectNotFound, *pbmtypes.PbmFaultNotFound:
		e.Reason, e.Why = Conflict, "the object no longer exists: "+adviceWait
	case *types.AlreadyExists, *types.DuplicateName, *pbmtypes.PbmAlreadyExists, *pbmtypes.PbmDuplicateName:
		e.Reason, e.Why = Conflict, "an object of this name exists: "+adviceWait
	case *types.ResourceInUse, *pbmtypes.PbmResourceInUse:
		e.Reason, e.Why = Conflict, "the object is in use: "+adviceWait
	case nil:
		e.Reason, e.Why = InvalidAnswer, "it answers with an unknown fault: "+adviceReach
	default:
		// The message quotes the name of a govmomi type, and no text of the vCenter.
		e.Reason, e.Why = InvalidAnswer, "it answers with the fault "+reflect.Indirect(reflect.ValueOf(fault)).Type().Name()+": "+adviceWait
	}
}

// statusError returns the Error for an HTTP status.
func statusError(status int) *Error {
	e := &Error{Reason: InvalidAnswer, Why: fmt.Sprintf("HTTP %d", status), Status: status}
	advice := "check whether the address belongs to a vCenter, or to a proxy in front of it"
	switch {
	case status == http.StatusUnauthorized:
		e.Reason, e.Expired, advice = LoginRefused, true, adviceUser
	case status == http.StatusForbidden:
		e.Reason, advice = NotAuthorized, advicePrivileges
	case status == http.StatusNotFound:
		e.Reason, advice = Conflict, "the object no longer exists, or this is not a vCenter"
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		e.Reason, advice = Overloaded, "it is starting or overloaded: "+adviceWait
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		e.Reason, advice = Timeout, adviceReach
	case status >= http.StatusInternalServerError:
		advice = "look at the logs of the vCenter; " + adviceWait
	}
	e.Why += ": " + advice
	return e
}

// refusedAs reads the error type in a REST response with status 400 (vmware/vsphere-automation-sdk, com.vmware.vapi.std.errors). It ignores the texts
// in the response.
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
		e.Reason, e.Why = Conflict, "an object of this name exists: "+adviceWait
	case "not_found":
		e.Reason, e.Why = Conflict, "the object no longer exists: "+adviceWait
	case "resource_in_use":
		e.Reason, e.Why = Conflict, "the object is in use: "+adviceWait
	case "unauthorized":
		e.Reason, e.Why = NotAuthorized, "the user may not do this: "+advicePrivileges
	case "unauthenticated":
		e.Reason, e.Why, e.Expired = LoginRefused, "the session has expired: "+adviceWait, true
	}
	return e
}

// unanswered fills in the reason for a missing or unreadable response.
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
		e.Reason, e.Why = InvalidAnswer, poll.ErrTooMuch.Error()+": check whether the address belongs to a vCenter, or to a proxy in front of it"
	case errors.Is(err, poll.ErrTooLong):
		e.Reason, e.Why = InvalidAnswer, "the answer is too long: "+adviceReach
	case errors.Is(err, poll.ErrCutOff):
		e.Why = "the connection broke during the answer: " + adviceReach
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		e.Reason, e.Why = Timeout, "no answer in time: "+adviceReach
	case errors.As(err, &name):
		e.Why = "DNS does not know the host name: check the cloud configuration and DNS"
	case !errors.As(err, &address) && isSyntax(err):
		e.Reason, e.Why = InvalidAnswer, "the answer is not from a vCenter: check whether the address belongs to a vCenter, or to a proxy in front of it"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		e.Why = "the connection was closed: " + adviceReach
	case errors.As(err, &network):
		// Leave out addresses and ports, which differ each time.
		e.Why = "no connection: " + network.Op + " failed: " + adviceReach
	}
}

// certificateProblem describes the problem with a certificate. It returns an empty text if the error has another cause.
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
