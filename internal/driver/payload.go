package driver

import configv1 "github.com/openshift/api/config/v1"

// Payload describes a driver of the OpenShift payload. It has only the facts that do not follow from other fields of Driver.
type Payload struct {
	// Title is the display name, for instance "AWS EBS".
	Title string
	// Variable is the prefix of the variables with the driver's images in the environment of the cluster-storage-operator, for instance
	// "AWS_EBS_DRIVER".
	Variable string
	// Condition, if set, is the prefix of the driver's conditions in the Storage. Without it, Driver.ConditionPrefix is the prefix.
	Condition string
	// Image, if set, is the name of the driver's image in a release. Without it, Driver.Prefix is the name.
	Image string
	// Unfit, if set, says why a cluster of the platform does not get the driver. It returns an empty text if the cluster gets the driver. Unfit can only
	// prevent an installation: the operator never removes an installed driver because of Unfit.
	Unfit func(infrastructure configv1.InfrastructureStatus) string
}

// OperatorImage returns the name of the variable with the image of the driver's operator.
func (p Payload) OperatorImage() string { return p.Variable + "_OPERATOR_IMAGE" }

// DriverImage returns the name of the variable with the image of the driver itself. In the environment of the driver's operator, the variable is
// named DRIVER_IMAGE.
func (p Payload) DriverImage() string { return p.Variable + "_IMAGE" }
