package iam

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// access has the CredentialsRequest of one workload, and all rendered objects of the driver.
type access struct {
	request *cloudcredentialv1.CredentialsRequest
	objects []client.Object
}

// renderAccess renders the driver as the operator does in a namespace, and finds the workload's CredentialsRequest.
func renderAccess(workload driver.Workload, namespace string, settings map[string]string) (access, error) {
	efs := awsefs.Driver()
	scheme, err := kube.Scheme()
	if err != nil {
		return access{}, err
	}
	complete, err := efs.ReadSettings(func(variable string) string { return settings[variable] })
	if err != nil {
		return access{}, plugin.Usage("%w", err)
	}
	objects, err := efs.Everything(scheme, namespace, complete)
	if err != nil {
		return access{}, err
	}
	wanted := efs.CredentialsOf(workload).Request
	for _, object := range objects {
		if request, ok := object.(*cloudcredentialv1.CredentialsRequest); ok && request.Name == wanted {
			return access{request, objects}, nil
		}
	}
	return access{}, fmt.Errorf("the %s of %s needs no credentials", workload, efs.Name)
}

// audience returns the audience of the tokens that the workload's pods present to AWS.
func (a access) audience(workload driver.Workload) (string, error) {
	for _, object := range a.objects {
		var pods corev1.PodSpec
		switch object := object.(type) {
		case *appsv1.Deployment:
			if workload != driver.Controller {
				continue
			}
			pods = object.Spec.Template.Spec
		case *appsv1.DaemonSet:
			if workload != driver.Node {
				continue
			}
			pods = object.Spec.Template.Spec
		default:
			continue
		}
		for _, volume := range pods.Volumes {
			if volume.Projected == nil {
				continue
			}
			for _, source := range volume.Projected.Sources {
				if source.ServiceAccountToken != nil {
					return source.ServiceAccountToken.Audience, nil
				}
			}
		}
	}
	return "", fmt.Errorf("the pods of the %s have no token for AWS", workload)
}
