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

// Reason is why the cloud did not answer, in one word for conditions and metrics.
type Reason string

// Reasons. There are no others, so that a metric with one label of them is bounded.
const (
	// InvalidCredentials means that the Secret can't be read, CredentialsRejected that Keystone does not take what it says.
	InvalidCredentials  Reason = "CloudCredentialsInvalid"
	CredentialsRejected Reason = "CloudCredentialsRejected"
	// AccessDenied means that the user lacks a role.
	AccessDenied Reason = "CloudAccessDenied"
	// RateLimited means that the cloud asks to wait, BudgetSpent that the operator's own limit was reached.
	RateLimited Reason = "CloudRateLimited"
	BudgetSpent Reason = "CloudRequestBudgetSpent"
	// Unreachable means that there was no connection or no answer in time, Untrusted that the certificate is of no trusted CA.
	Unreachable Reason = "CloudUnreachable"
	Untrusted   Reason = "CloudCertificateNotTrusted"
	// ServerFailed means that the cloud says that it is broken, InvalidAnswer that its answer is not one of that API.
	ServerFailed  Reason = "CloudFailed"
	InvalidAnswer Reason = "CloudAnswerInvalid"
	// ServiceMissing means that the catalogue lacks Nova or Cinder. That it lacks Manila is an answer and no error.
	ServiceMissing Reason = "CloudServiceMissing"
)

// maxRetryAfter bounds how long the cloud can keep the operator from asking.
const maxRetryAfter = 30 * time.Minute

// Error says what failed, where, why, and what to do. It has no text of the cloud's, which could repeat what was sent.
type Error struct {
	// What was to be done, Where it is asked for: an address without secrets, or empty.
	What, Where string
	Reason      Reason
	Why, Do     string
	// RetryAfter is how long the cloud asks to wait; 0 if it does not.
	RetryAfter time.Duration

	err error
}

// Error is a sentence.
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

// Is compares with the ends of contexts. Nothing else of the cause can be reached, because it may have secrets.
func (e *Error) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(e.err, target)
}

// ReasonOf is why the cloud did not answer; Unreachable for errors that are not of this package.
func ReasonOf(err error) Reason {
	var failure *Error
	if errors.As(err, &failure) {
		return failure.Reason
	}
	return Unreachable
}

// isRefusal tells whether Keystone did not take the credentials. Another service that does not take a token is no reason to wait.
func isRefusal(err error) bool {
	var failure *Error
	return errors.As(err, &failure) && failure.Reason == CredentialsRejected && failure.What == loggingIn
}

// failed makes an Error of what gophercloud or the transport says.
func failed(what, where string, err error) *Error {
	failure := &Error{What: what, Where: place(where), err: err}
	var answer gophercloud.ErrUnexpectedResponseCode
	var spent *poll.SpentError
	switch {
	case errors.As(err, &spent):
		failure.Reason, failure.RetryAfter, failure.Why = BudgetSpent, spent.Wait, "the budget of requests a minute is spent"
		failure.Do = "nothing is to be done if it happens once; else report it as a bug"
	case errors.As(err, &answer):
		failure.answered(answer.Actual, answer.ResponseHeader)
	default:
		failure.unanswered(err)
	}
	return failure
}

// answered is for an answer with another status than the wanted one.
func (e *Error) answered(status int, header http.Header) {
	e.Why = fmt.Sprintf("HTTP %d", status)
	switch {
	case status == http.StatusUnauthorized:
		e.Reason = CredentialsRejected
		e.Do = "the user, the application credential or its secret is wrong, disabled or expired; renew the Secret with the credentials"
	case status == http.StatusForbidden:
		e.Reason = AccessDenied
		e.Do = "give the user of the credentials the role that this needs (member, or reader) in its project"
	// Manila and Cinder limit with 413, others with 429 (manila/api/openstack/wsgi.py OverLimitFault, at d28877849).
	case status == http.StatusTooManyRequests || status == http.StatusRequestEntityTooLarge:
		e.Reason, e.RetryAfter = RateLimited, retryAfter(header)
		e.Why += ", too many requests"
		e.Do = "the operator waits, and asks again by itself"
	case status >= http.StatusInternalServerError:
		e.Reason, e.RetryAfter = ServerFailed, retryAfter(header)
		e.Do = "look at the logs of that service; the operator asks again by itself"
	case status == http.StatusNotFound:
		e.Reason = InvalidAnswer
		e.Do = "there is no such API at this address; check auth_url and the endpoints in the catalogue"
	default:
		e.Reason = InvalidAnswer
		e.Do = "check whether the address is that of the service, or of a proxy before it"
	}
}

// unanswered is for a request that got no answer, or one that could not be read.
func (e *Error) unanswered(err error) {
	e.Reason, e.Why = Unreachable, "no answer"
	e.Do = "check whether the cloud is up and can be reached from this cluster; the operator asks again by itself"
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
		e.Do = "check whether the address is that of the service, or of a proxy before it"
	case errors.Is(err, poll.ErrCutOff) || errors.Is(err, poll.ErrTooLong) || !errors.As(err, &address) && isSyntax(err):
		e.Reason, e.Why = InvalidAnswer, "the answer is cut off, too long, or no JSON of this API"
		e.Do = "check the service and what is between it and this cluster; the operator asks again by itself"
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &address) && address.Timeout():
		e.Why = "no answer in time"
	case errors.As(err, &name):
		e.Why = "the name of the host is not known to DNS"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		e.Why = "no answer: the connection was closed"
	case errors.As(err, &network):
		// Addresses and ports are others each time.
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

// retryAfter reads both forms of the header, seconds and a date.
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

// place is an address without what could be secret in it.
func place(address string) string {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" {
		return ""
	}
	return parsed.Scheme + "://" + parsed.Host + parsed.Path
}
