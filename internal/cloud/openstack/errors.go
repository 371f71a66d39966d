package openstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
)

// Reason classifies an error, for conditions and metrics.
type Reason string

// Reasons of errors. The list is short, so that a metric with the reason as a label has only a few series.
const (
	// InvalidCredentials means that the operator can't parse the Secret. CredentialsRejected means that Keystone rejects the credentials in the Secret.
	InvalidCredentials  Reason = "CloudCredentialsInvalid"
	CredentialsRejected Reason = "CloudCredentialsRejected"
	// AccessDenied means that the user lacks a role.
	AccessDenied Reason = "CloudAccessDenied"
	// RateLimited means that the cloud asks the operator to wait. BudgetSpent means that the operator reached its own request limit.
	RateLimited Reason = "CloudRateLimited"
	BudgetSpent Reason = "CloudRequestBudgetSpent"
	// Unreachable means that the connection failed or timed out. Untrusted means that no trusted CA signed the certificate.
	Unreachable Reason = "CloudUnreachable"
	Untrusted   Reason = "CloudCertificateNotTrusted"
	// ServerFailed means that the cloud reports an internal error. InvalidAnswer means that the response does not have the format of the requested API.
	ServerFailed  Reason = "CloudFailed"
	InvalidAnswer Reason = "CloudAnswerInvalid"
	// ServiceMissing means that the catalogue lacks Nova or Cinder. A missing Manila is not an error.
	ServiceMissing Reason = "CloudServiceMissing"
)

// maxRetryAfter limits the pause that a cloud can request.
const maxRetryAfter = 30 * time.Minute

// Error says what failed, where, why, and what to do. It quotes no text of the cloud, which could echo secrets.
type Error struct {
	// What is the operation. Where is an address without secrets, or empty.
	What, Where string
	Reason      Reason
	Why, Do     string
	// RetryAfter is the pause that the cloud requests. It is 0 if the cloud requests none.
	RetryAfter time.Duration

	err error
}

func (e *Error) Error() string {
	text := "OpenStack: " + e.What
	if e.Where != "" {
		text += " at " + e.Where
	}
	text += ": " + e.Why
	if e.Do != "" {
		text += ": " + e.Do
	}
	return text
}

// Is reports whether target is the context error that ended the call: context.Canceled or context.DeadlineExceeded. It matches no other error,
// because other errors can contain secrets.
func (e *Error) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(e.err, target)
}

// ReasonOf returns the Reason of an error. For errors of other packages, it returns Unreachable.
func ReasonOf(err error) Reason {
	var failure *Error
	if errors.As(err, &failure) {
		return failure.Reason
	}
	return Unreachable
}

// isRefusal reports whether Keystone rejected the credentials. The poller must then wait before the next login. If another service rejects a token,
// the poller need not wait.
func isRefusal(err error) bool {
	var failure *Error
	return errors.As(err, &failure) && failure.Reason == CredentialsRejected && failure.What == loggingIn
}

// failed converts an error of gophercloud or of the transport.
func failed(what, where string, err error) *Error {
	failure := &Error{What: what, Where: place(where), err: err}
	var answer gophercloud.ErrUnexpectedResponseCode
	var spent *poll.SpentError
	switch {
	case errors.As(err, &spent):
		failure.Reason, failure.RetryAfter, failure.Why = BudgetSpent, spent.Wait, "the operator has reached its own limit of requests in a minute"
		failure.Do = "if this happens again, report it as a bug"
	case errors.As(err, &answer):
		failure.answered(answer.Actual, answer.ResponseHeader)
	default:
		failure.unanswered(err)
	}
	return failure
}

// answered fills in the reason for an unexpected HTTP status.
func (e *Error) answered(status int, header http.Header) {
	e.Why = fmt.Sprintf("HTTP %d", status)
	switch {
	case status == http.StatusUnauthorized:
		e.Reason = CredentialsRejected
		e.Do = "the user, the application credential or its secret is wrong, disabled or expired; renew the Secret with the credentials"
	case status == http.StatusForbidden:
		e.Reason = AccessDenied
		e.Do = "grant the user of the credentials the required role (member or reader) in its project"
	// Manila and Cinder answer with status 413 at their request limit, and other services with 429 (manila/api/openstack/wsgi.py OverLimitFault, at
	// d28877849).
	case status == http.StatusTooManyRequests || status == http.StatusRequestEntityTooLarge:
		e.Reason, e.RetryAfter = RateLimited, retryAfter(header)
		e.Why += ", too many requests"
		e.Do = "the operator waits and retries"
	case status >= http.StatusInternalServerError:
		e.Reason, e.RetryAfter = ServerFailed, retryAfter(header)
		e.Do = "look at the logs of that service; the operator retries"
	case status == http.StatusNotFound:
		e.Reason = InvalidAnswer
		e.Do = "this address does not serve the API; check auth_url and the endpoints in the catalogue"
	default:
		e.Reason = InvalidAnswer
		e.Do = "check whether the address belongs to the service, or to a proxy in front of it"
	}
}

// unanswered fills in the reason for a missing or unreadable response.
func (e *Error) unanswered(err error) {
	e.Reason, e.Why = Unreachable, "no answer"
	e.Do = "check whether the cloud is up and can be reached from this cluster; the operator retries"
	var network *net.OpError
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var address *url.Error
	switch {
	case errors.As(err, &certificate):
		e.Reason, e.Why = Untrusted, "the certificate is not trusted: "+certificateProblem(certificate.Err)
		e.Do = "add the CA of the cloud to ca-bundle.pem of the cloud's configuration, or correct the certificate"
	case errors.Is(err, poll.ErrTooMuch):
		e.Reason, e.Why = InvalidAnswer, poll.ErrTooMuch.Error()
		e.Do = "check whether the address belongs to the service, or to a proxy in front of it"
	case errors.Is(err, poll.ErrCutOff) || errors.Is(err, poll.ErrTooLong) || !errors.As(err, &address) && isSyntax(err):
		e.Reason, e.Why = InvalidAnswer, "the answer is truncated, too long, or not JSON of this API"
		e.Do = "check the service and the network between it and this cluster; the operator retries"
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &address) && address.Timeout():
		e.Why = "no answer in time"
	case errors.As(err, &name):
		e.Why = "DNS does not know the host name"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		e.Why = "no answer: the connection was closed"
	case errors.As(err, &network):
		// Leave out addresses and ports, which differ each time.
		e.Why = "no connection: " + network.Op + ": " + network.Err.Error()
	}
}

func certificateProblem(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return "it is signed by an unknown CA"
	case errors.As(err, &host):
		return "it is for another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "it has expired or is not valid yet"
	default:
		return "it is not valid"
	}
}

// retryAfter parses the Retry-After header, as seconds or as a date.
func retryAfter(header http.Header) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		from, err := http.ParseTime(header.Get("Date"))
		if err == nil {
			wait = at.Sub(from)
		}
	}
	return min(max(wait, 0), maxRetryAfter)
}

// place returns an address without the parts that can be secret.
func place(address string) string {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" {
		return ""
	}
	return parsed.Scheme + "://" + parsed.Host + parsed.Path
}
