package driver

// Payload is what a release of OpenShift knows of a driver that is part of it, and what does not follow from the rest of the Driver.
type Payload struct {
	// Title is what people call the driver, for instance "AWS EBS".
	Title string
	// Variable starts the names of the variables with the driver's images in the environment of the cluster-storage-operator, for instance
	// "AWS_EBS_DRIVER".
	Variable string
}

// OperatorImage is the variable with the image of the driver's operator.
func (p Payload) OperatorImage() string { return p.Variable + "_OPERATOR_IMAGE" }

// DriverImage is the variable with the image of the driver itself, which its operator knows as DRIVER_IMAGE.
func (p Payload) DriverImage() string { return p.Variable + "_IMAGE" }
