package driver

import configv1 "github.com/openshift/api/config/v1"

// Payload has the facts about a driver of the OpenShift payload that the rest of the Driver does not imply.
type Payload struct {
	// Title is the display name, for instance "AWS EBS".
	Title string
	// Variable is the prefix of the variables with the driver's images in the environment of the cluster-storage-operator, for instance
	// "AWS_EBS_DRIVER".
	Variable string
	// Condition, if set, is the prefix of the driver's conditions in the Storage; else it is Driver.ConditionPrefix.
	Condition string
	// Image, if set, is the name of the driver's image in a release; else Driver.Prefix is.
	Image string
	// Unfit, if set, says why a cluster of the platform does not get the driver; empty if it does. An installed driver stays.
	Unfit func(infrastructure configv1.InfrastructureStatus) string
}

// OperatorImage is the variable with the image of the driver's operator.
func (p Payload) OperatorImage() string { return p.Variable + "_OPERATOR_IMAGE" }

// DriverImage is the variable with the image of the driver itself, which its operator knows as DRIVER_IMAGE.
func (p Payload) DriverImage() string { return p.Variable + "_IMAGE" }
