package takeover

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	securityv1 "github.com/openshift/api/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

func (s *scene) daemonSet() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: nodeDaemonSet}}
}

func csiDriver() *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}}
}

func storageClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}}
}

func (s *scene) account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: predecessors.CommunityAccount}}
}

func constraints() *securityv1.SecurityContextConstraints {
	return &securityv1.SecurityContextConstraints{ObjectMeta: metav1.ObjectMeta{Name: predecessors.CommunitySCC}}
}

// commonBinding is the one in whose place ours has a name of its own.
func commonBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-main-provisioner-binding"}}
}

// uids of objects that must stay the same objects. What is missing has none.
func (s *scene) uids(ctx context.Context, objects ...client.Object) (map[string]types.UID, error) {
	found := map[string]types.UID{}
	for _, object := range objects {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		found[fmt.Sprintf("%T %s", object, object.GetName())] = object.GetUID()
	}
	return found, nil
}

// handedOver checks that nothing of the old driver's pods is left, and that ours are rolled out as they are in any other cluster.
func (s *scene) handedOver(ctx context.Context, nodes int) error {
	if err := errors.Join(s.holdsOnly(ctx), s.Settled(ctx)); err != nil {
		return err
	}
	daemonSet := s.daemonSet()
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(daemonSet), daemonSet); err != nil {
		return err
	}
	strategy, status := daemonSet.Spec.UpdateStrategy, daemonSet.Status
	if strategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		return fmt.Errorf("the update strategy is %v", strategy)
	}
	if int(status.NumberReady) != nodes || int(status.UpdatedNumberScheduled) != nodes || int(status.CurrentNumberScheduled) != nodes {
		return fmt.Errorf("%d pods, %d of today, %d ready, want %d", status.CurrentNumberScheduled, status.UpdatedNumberScheduled, status.NumberReady, nodes)
	}
	return nil
}

// communityGone checks that of the community's objects only those are left that stay, and none of its marks.
func (s *scene) communityGone(ctx context.Context) error {
	if err := errors.Join(s.Gone(ctx, s.account()), s.Gone(ctx, constraints())); err != nil {
		return err
	}
	for _, object := range []client.Object{s.daemonSet(), csiDriver()} {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		for _, entry := range object.GetManagedFields() {
			// What the API server itself writes with every change may stay under the name of the first writer.
			if entry.Manager == env.CommunityName && strings.Contains(entry.FieldsV1.String(), `"f:spec"`) {
				return fmt.Errorf("%T: fields are the community's operator's: %s", object, entry.FieldsV1)
			}
		}
	}
	marked, err := s.marked(ctx)
	if err == nil && len(marked) > 0 {
		err = errors.New("marks of the community's operator are left:\n  " + strings.Join(marked, "\n  "))
	}
	return err
}

// marked are the objects with which the community's operator, or the end of its CRD, would take something of the driver
// away. Volumes and PVCs keep the label, by which SharedVolumes find them, and the policies are those of the CRD.
func (s *scene) marked(ctx context.Context) ([]string, error) {
	objects, err := s.Objects(ctx)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, object := range objects {
		switch object.Kind {
		case "PersistentVolume", "PersistentVolumeClaim", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			continue
		}
		for _, mark := range marksOf(object) {
			found = append(found, fmt.Sprintf("%s %s/%s: %s", object.Kind, object.Namespace, object.Name, mark))
		}
	}
	sort.Strings(found)
	return found, nil
}

func marksOf(object metav1.Object) []string {
	var marks []string
	if _, labelled := object.GetLabels()[env.CommunityLabel]; labelled {
		marks = append(marks, "label")
	}
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == "CustomResourceDefinition" {
			marks = append(marks, "owner "+owner.Name)
		}
	}
	return marks
}

// operands are all objects of the operator by kind and name, without what it is not responsible for.
func (s *scene) operands(ctx context.Context) (map[string]map[string]any, error) {
	owned, err := s.Owned(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]map[string]any{}
	for i := range owned {
		found[fmt.Sprintf("%s %s/%s", owned[i].GetKind(), owned[i].GetNamespace(), owned[i].GetName())] = env.Content(&owned[i])
	}
	return found, nil
}

// same fails the test if two things differ.
func same[T any](t *testing.T, what string, before, after T) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("%s changed (-before +after):\n%s", what, diff)
	}
}
