package migration

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

// lostTags returns the tags that the predecessor's controllers set on new volumes in the cloud, and that the new driver does not set. It looks for
// these controllers in the namespaces of the predecessor's node pods. For example, the value controller.tags of the Helm chart and of the EKS add-on
// sets such tags (kubernetes-sigs/aws-efs-csi-driver v3.4.1, charts/aws-efs-csi-driver/templates/controller-deployment.yaml).
func (m *Migration) lostTags(ctx context.Context, pods []corev1.Pod, objects []client.Object, versions []string) ([]PlannedChange, error) {
	list := m.Accepts.List(accept.Tag)
	if list == nil || list.Flag == "" {
		return nil, nil
	}
	kept := map[string]string{}
	for _, object := range objects {
		if ours, is := object.(*appsv1.Deployment); is && ours.Name == m.Driver.Deployment {
			maps.Copy(kept, m.tagsOf(ours, "", list.Flag))
		}
	}
	// Look only in the namespaces of node pods. In another namespace, a tenant could create a Deployment that looks like the chart's.
	namespaces := map[string]bool{}
	for i := range pods {
		namespaces[pods[i].Namespace] = true
	}
	oldest := ""
	if len(versions) > 0 {
		oldest = versions[0]
	}
	var changes []PlannedChange
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		deployments := &appsv1.DeploymentList{}
		if err := m.Live.List(ctx, deployments, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("look for the predecessor's controller: %w", err)
		}
		for i := range deployments.Items {
			one := &deployments.Items[i]
			if !m.isController(one) || m.applier.Owns(one) {
				continue
			}
			tags := m.tagsOf(one, oldest, list.Flag)
			maps.DeleteFunc(tags, func(key, value string) bool {
				same, is := kept[key]
				return is && same == value
			})
			if len(tags) > 0 {
				changes = append(changes, PlannedChange{
					Object:  "Deployment " + one.Namespace + "/" + one.Name,
					What:    "the old driver tags new access points with " + quoted(tags) + ", and the new driver does not",
					Instead: "these tags as resource tags of Infrastructure cluster, if you want to keep them",
				})
			}
		}
	}
	return changes, nil
}

// isController reports whether a Deployment is a controller of the driver. Such a Deployment has the name of our Deployment, the chart's label, or an
// image of the driver.
func (m *Migration) isController(deployment *appsv1.Deployment) bool {
	return deployment.Name == m.Driver.Deployment || deployment.Labels["app.kubernetes.io/name"] == m.Driver.Prefix ||
		slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(one corev1.Container) bool {
			return strings.Contains(path.Base(one.Image), m.Driver.Prefix)
		})
}

// tagsOf returns the tags in a flag of a controller. Argument "otherwise" is the version of the driver that tagsOf assumes if the controller's image
// names no version.
func (m *Migration) tagsOf(deployment *appsv1.Deployment, otherwise, flag string) map[string]string {
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, argument := range container.Args {
			text, is := strings.CutPrefix(argument, flag+"=")
			if !is {
				continue
			}
			// If the driver can't parse the text, it sets no tags.
			tags, _ := m.Driver.Accepts.At(cmp.Or(accept.VersionOf(container.Image), otherwise)).List(accept.Tag).Read(text)
			return maps.Clone(tags)
		}
	}
	return nil
}

// quoted returns tags in one text, sorted.
func quoted(tags map[string]string) string {
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		texts = append(texts, fmt.Sprintf("%q=%q", key, tags[key]))
	}
	return strings.Join(texts, ", ")
}
