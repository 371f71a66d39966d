package aws

import (
	"errors"
	"slices"
)

// Error says which call failed, for which object.
type Error struct {
	// Action is the call as IAM policies name it, such as elasticfilesystem:DeleteAccessPoint.
	Action string
	// Object is its ID or name; empty for a list of all.
	Object string
	Err    error
}

// Error says what AWS answered, without the envelope of HTTP.
func (e *Error) Error() string {
	text := e.Action
	if e.Object != "" {
		text += " of " + e.Object
	}
	// A call can fail because the one for its credentials did.
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

// Unwrap returns what the SDK said.
func (e *Error) Unwrap() error { return e.Err }

// apiError is what the SDK makes of an answer that is an error.
type apiError interface {
	error
	ErrorCode() string
	ErrorMessage() string
}

func failed(action, object string, err error) error {
	return &Error{Action: action, Object: object, Err: err}
}

// failedIf is failed for an error that may be nil.
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

// IsNotFound is true if the object of the call does not exist (any more).
func IsNotFound(err error) bool {
	return hasCode(err, "FileSystemNotFound", "AccessPointNotFound", "MountTargetNotFound", "SecurityGroupNotFound", "SubnetNotFound",
		"InvalidGroup.NotFound", "InvalidVpcID.NotFound", "InvalidSubnetID.NotFound")
}

// IsInUse is true if something else must go first, and will perhaps: the same call can work later.
func IsInUse(err error) bool {
	return hasCode(err, "FileSystemInUse", "DependencyViolation", "DependencyTimeout", "InvalidGroup.InUse", "IncorrectMountTargetState",
		"IncorrectFileSystemLifeCycleState")
}

// IsAccessDenied returns the action that the credentials lack, as IAM policies name it, if that is what is wrong. If the call for the
// credentials was denied, it is sts:AssumeRoleWithWebIdentity, whatever was called.
func IsAccessDenied(err error) (action string, denied bool) {
	if !hasCode(err, "AccessDenied", "AccessDeniedException", "UnauthorizedOperation") {
		return "", false
	}
	for call := (*Error)(nil); errors.As(err, &call); err = call.Err {
		action = call.Action
	}
	return action, action != ""
}

// IsInvalidCredentials is true if AWS does not take the credentials, whatever they may do: wrong keys, keys that were deleted or have
// expired, or a token of an issuer that AWS does not know.
func IsInvalidCredentials(err error) bool {
	return hasCode(err, "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidIdentityToken",
		"IDPRejectedClaim", "AuthFailure", "SignatureDoesNotMatch", "InvalidSignatureException")
}

// IsExisting is true if the object was there before it was to be created.
func IsExisting(err error) bool {
	return hasCode(err, "FileSystemAlreadyExists", "MountTargetConflict", "InvalidGroup.Duplicate", "InvalidPermission.Duplicate")
}

// IsUnsupportedZone is true if EFS can't have a mount target in the zone, such as a Local Zone.
func IsUnsupportedZone(err error) bool { return hasCode(err, "UnsupportedAvailabilityZone") }
