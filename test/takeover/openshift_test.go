package takeover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// There the ClusterCSIDriver exists already, and our operator takes the place of the other one under its name. Its node pods have
// another name: they can't be adopted, only followed.
func TestOpenShiftsDriverIsMigrated(t *testing.T) {
	env.OnlySoak(t)
	s := before(t, many, env.OperatorNamespace, append(predecessors.OpenShift(env.OperatorNamespace), administratorsClass())...)
	s.openShiftCR(t)
	apps := s.applications(t)
	data, err := s.data(t.Context())
	env.Must(t, err)
	kept, err := s.uids(t.Context(), append(s.adoptedOfOpenShift(), storageClass())...)
	env.Must(t, err)
	s.watch(t, many)

	operator := s.operate(t)
	s.freeNodesFirst(t, operator, apps)
	s.acceptRemount(t)
	env.Eventually(t, "the driver taken over", func() error { return s.handedOver(t.Context(), many) })
	s.isNotOpenShifts(t)

	after, err := s.data(t.Context())
	env.Must(t, err)
	same(t, "SharedVolumes, volumes or PVCs", data, after)
	now, err := s.uids(t.Context(), append(s.adoptedOfOpenShift(), storageClass())...)
	env.Must(t, err)
	same(t, "the identity of what is adopted", kept, now)
	if replaced, most := s.sampler.Counts(t, s.Cluster); replaced != many || most == 0 {
		t.Errorf("the sampler saw %d old plugins go, of %d, and %d nodes without", replaced, many, most)
	}
}

// adoptedOfOpenShift are objects that stay the same in a migration from OpenShift's driver.
func (s *scene) adoptedOfOpenShift() []client.Object {
	return []client.Object{csiDriver(), s.controller(), s.nodeAccount(), s.metricsService()}
}

// isNotOpenShifts checks that a migration leaves nothing of OpenShift's operator, and keeps what its driver does.
func (s *scene) isNotOpenShifts(t *testing.T) {
	t.Helper()
	old := s.openShiftDaemonSet()
	env.Eventually(t, "the old DaemonSet gone", func() error { return s.Gone(t.Context(), old) })
	env.Must(t, s.legacyGone(t.Context()))
	env.Must(t, s.Gone(t.Context(), commonBinding()))
	s.deletesDirectories(t)
	deployment := s.controller()
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	if left := deployment.Spec.Template.Spec.InitContainers; len(left) > 0 {
		t.Errorf("the controller still has the init container of the old one: %s", left[0].Name)
	}
}

// administratorsClass is one that an administrator made for the driver, which OpenShift ships without any.
func administratorsClass() client.Object {
	class := storageClass()
	class.Provisioner = driverName
	return class
}

func (s *scene) openShiftDaemonSet() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: predecessors.OpenShiftDaemonSet}}
}

func (s *scene) controller() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "aws-efs-csi-driver-controller"}}
}

func (s *scene) nodeAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: predecessors.NodeAccount}}
}

func (s *scene) metricsService() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "aws-efs-csi-driver-controller-metrics"}}
}

// openShiftCR is the ClusterCSIDriver as OpenShift's operators leave it.
func (s *scene) openShiftCR(t *testing.T) {
	t.Helper()
	cr := env.EFS(operatorv1.Managed)
	cr.Finalizers = predecessors.OpenShiftFinalizers()
	env.Must(t, s.Client.Create(t.Context(), cr))
	cr.Status.Conditions = predecessors.OpenShiftConditions()
	env.Must(t, s.Client.Status().Update(t.Context(), cr))
}

// legacyGone checks that the ClusterCSIDriver has nothing more of the operators before: nobody would ever drop their finalizers.
func (s *scene) legacyGone(ctx context.Context) error {
	cr := env.EFS("")
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(cr), cr); err != nil {
		return err
	}
	var found []error
	for _, finalizer := range predecessors.OpenShiftFinalizers() {
		if slices.Contains(cr.Finalizers, finalizer) {
			found = append(found, errors.New("finalizer "+finalizer))
		}
	}
	legacy := []string{"AWSEFSDriverCredentialsRequestControllerAvailable", "CSIStaticResourceControllerDegraded"}
	for _, condition := range cr.Status.Conditions {
		if slices.Contains(legacy, condition.Type) {
			found = append(found, errors.New("condition "+condition.Type))
		}
	}
	if len(cr.Finalizers) == 0 {
		found = append(found, fmt.Errorf("no finalizer protects the driver"))
	}
	return errors.Join(found...)
}
