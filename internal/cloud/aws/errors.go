package aws

import (
	"errors"
	"slices"
)

// Error is a failed call of AWS.
type Error struct {
	// Action is the call's IAM action, such as elasticfilesystem:DeleteAccessPoint.
	Action string
	// Object is the ID or name of the call's object. It is empty for a list of all objects.
	Object string
	Err    error
}

// Error returns AWS's code and message, without HTTP details.
func (e *Error) Error() string {
	text := e.Action
	if e.Object != "" {
		text += " of " + e.Object
	}
	// If the call failed because the call for its credentials failed, show the error of the call for the credentials.
	var cause *Error
	if errors.As(e.Err, &cause) {
		return text + ": " + cause.Error()
	}
	var answer apiError
	if errors.As(e.Err, &answer) {
		return text + ": " + answer.ErrorCode() + ": " + answer.ErrorMessage()
	}
	return text + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// apiError is the SDK's type for error responses.
type apiError interface {
	error
	ErrorCode() string
	ErrorMessage() string
}

func failed(action, object string, err error) error {
	return &Error{Action: action, Object: object, Err: err}
}

// failedIf is like failed, but returns nil for a nil error.
func failedIf(action, object string, err error) error {
	if err == nil {
		return nil
	}
	return failed(action, object, err)
}

func hasCode(err error, codes ...string) bool {
	var answer apiError
	return errors.As(err, &answer) && slices.Contains(codes, answer.ErrorCode())
}

// IsNotFound reports whether the object of the call does not exist.
func IsNotFound(err error) bool {
	return hasCode(err, "FileSystemNotFound", "AccessPointNotFound", "MountTargetNotFound", "SecurityGroupNotFound", "SubnetNotFound",
		"InvalidGroup.NotFound", "InvalidVpcID.NotFound", "InvalidSubnetID.NotFound", "InvalidPrefixListID.NotFound")
}

// IsInUse reports whether AWS refused a change because another object depends on the call's object, or because the object is in the wrong state. A
// retry can succeed later.
func IsInUse(err error) bool {
	return hasCode(err, "FileSystemInUse", "DependencyViolation", "DependencyTimeout", "InvalidGroup.InUse", "IncorrectMountTargetState",
		"IncorrectFileSystemLifeCycleState")
}

// IsAccessDenied reports whether AWS denied the call because the credentials lack a permission. action is the denied IAM action. If AWS denied the
// call for the credentials, the action is sts:AssumeRoleWithWebIdentity.
func IsAccessDenied(err error) (action string, denied bool) {
	if !hasCode(err, "AccessDenied", "AccessDeniedException", "UnauthorizedOperation") {
		return "", false
	}
	for call := (*Error)(nil); errors.As(err, &call); err = call.Err {
		action = call.Action
	}
	return action, action != ""
}

// IsInvalidCredentials reports whether AWS rejects the credentials themselves. Such credentials are wrong, deleted or expired keys, or a token of an
// unknown issuer.
func IsInvalidCredentials(err error) bool {
	return hasCode(err, "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidIdentityToken",
		"IDPRejectedClaim", "AuthFailure", "SignatureDoesNotMatch", "InvalidSignatureException")
}

// IsExisting reports whether AWS refused to create an object because the object exists already.
func IsExisting(err error) bool {
	return hasCode(err, "FileSystemAlreadyExists", "MountTargetConflict", "InvalidGroup.Duplicate", "InvalidPermission.Duplicate")
}

// IsUnsupportedZone reports whether EFS supports no mount targets in the zone, such as a Local Zone.
func IsUnsupportedZone(err error) bool { return hasCode(err, "UnsupportedAvailabilityZone") }
