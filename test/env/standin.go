package env

import (
	"path/filepath"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BehaviourAnnotation of a ClusterCSIDriver says how the stand-in for its operator (test/standin) behaves.
const BehaviourAnnotation = "standin/behaviour"

// Behaviour is what a stand-in for an operator does. Without one, it makes the driver and reports that it works.
type Behaviour string

const (
	// Late reports nothing.
	Late Behaviour = "late"
	// Failing reports that the driver does not work.
	Failing Behaviour = "failing"
)

// ImageOf is the image of the first container of a Deployment or DaemonSet; empty for other objects.
func ImageOf(object client.Object) string {
	switch workload := object.(type) {
	case *appsv1.Deployment:
		return workload.Spec.Template.Spec.Containers[0].Image
	case *appsv1.DaemonSet:
		return workload.Spec.Template.Spec.Containers[0].Image
	default:
		return ""
	}
}

// standIn is the program in bin/ that stands in for operators of others.
const standIn = "standin"

// ReleasePrograms are flags of "devcluster up" by which the operators of releases run: our own with the race detector if detect is set,
// and the stand-in for those of others.
func ReleasePrograms(detect bool, versions ...string) ([]string, error) {
	images, err := ReleaseImages()
	if err != nil {
		return nil, err
	}
	folder := ""
	if detect {
		folder = race
	}
	standIns := []string{"ibm-vpc-block-csi-driver-operator", "powervs-block-csi-driver-operator"}
	var flags []string
	for _, name := range images {
		flag, program := "--program", name
		switch {
		case slices.Contains(standIns, name):
			flag, program = "--foreign-program", standIn
		case name != CSO && name != DriverOperator:
			continue
		}
		path, err := Binary(folder + program)
		if err != nil {
			return nil, err
		}
		for _, version := range versions {
			flags = append(flags, flag, ReleaseImage(name, version)+"="+filepath.Clean(path))
		}
	}
	return flags, nil
}
