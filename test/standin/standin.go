package main

import (
	"context"
	"errors"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/test/env"
)

const owner = "standin"

// standIn is the operator of one driver.
type standIn struct {
	client client.Client
	entry  catalogue.Entry
	// image is that of the driver, version that of the release.
	image, version string
}

// Reconcile makes the driver and reports.
func (s *standIn) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request.Name != s.entry.Name {
		return ctrl.Result{}, nil
	}
	driver := &operatorv1.ClusterCSIDriver{}
	if err := s.client.Get(ctx, request.NamespacedName, driver); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if driver.DeletionTimestamp != nil || driver.Spec.ManagementState != operatorv1.Managed {
		return ctrl.Result{}, nil
	}
	switch env.Behaviour(driver.Annotations[env.BehaviourAnnotation]) {
	case env.Late:
		return ctrl.Result{}, nil
	case env.Failing:
		broken := s.state("DriverControllerServiceController", false, false, "the cloud refuses the credentials")
		degraded := condition(s.entry.Condition+"DriverControllerServiceControllerDegraded", operatorv1.ConditionTrue, "SyncError", "the cloud refuses the credentials")
		return ctrl.Result{}, s.report(ctx, driver, append(append(broken, degraded), s.state("DriverNodeServiceController", true, true, "")...))
	}
	if err := errors.Join(s.makeRoles(ctx), s.install(ctx)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, s.report(ctx, driver, s.conditions(ctx))
}

// conditions are those of a driver by its pods.
func (s *standIn) conditions(ctx context.Context) []operatorv1.OperatorCondition {
	all := []operatorv1.OperatorCondition{
		condition("StorageClassControllerDegraded", operatorv1.ConditionFalse, "AsExpected", ""),
		condition("VolumeSnapshotClassControllerDegraded", operatorv1.ConditionFalse, "AsExpected", ""),
		condition(s.entry.Condition+"DriverGuestStaticResourcesControllerDegraded", operatorv1.ConditionFalse, "AsExpected", ""),
	}
	for _, workload := range s.entry.Workloads {
		what, ready, works := "DriverNodeServiceController", false, false
		key := client.ObjectKey{Namespace: workload.Namespace, Name: workload.Name}
		if workload.Kind == "Deployment" {
			what = "DriverControllerServiceController"
			deployment := &appsv1.Deployment{}
			err := s.client.Get(ctx, key, deployment)
			status := deployment.Status
			ready = err == nil && status.ObservedGeneration == deployment.Generation &&
				status.UpdatedReplicas == status.Replicas && status.AvailableReplicas == *deployment.Spec.Replicas
			works = err == nil && status.AvailableReplicas > 0
		} else {
			daemonSet := &appsv1.DaemonSet{}
			err := s.client.Get(ctx, key, daemonSet)
			status := daemonSet.Status
			ready = err == nil && status.ObservedGeneration == daemonSet.Generation && status.DesiredNumberScheduled > 0 &&
				status.UpdatedNumberScheduled == status.DesiredNumberScheduled && status.NumberAvailable == status.DesiredNumberScheduled
			works = err == nil && status.NumberAvailable > 0
		}
		all = append(all, s.state(what, works, ready, "waiting for pods of "+workload.Name)...)
		all = append(all, condition(s.entry.Condition+what+"Degraded", operatorv1.ConditionFalse, "AsExpected", ""))
	}
	return all
}

// state are the conditions of one part of the driver: whether it works, and whether all of it is there.
func (s *standIn) state(what string, works, complete bool, why string) []operatorv1.OperatorCondition {
	available := condition(s.entry.Condition+what+"Available", operatorv1.ConditionTrue, "AsExpected", "")
	if !works {
		available = condition(available.Type, operatorv1.ConditionFalse, "Deploying", why)
	}
	progressing := condition(s.entry.Condition+what+"Progressing", operatorv1.ConditionFalse, "AsExpected", "")
	if !complete {
		progressing = condition(progressing.Type, operatorv1.ConditionTrue, "Deploying", why)
	}
	return []operatorv1.OperatorCondition{available, progressing}
}

func condition(kind string, status operatorv1.ConditionStatus, reason, message string) operatorv1.OperatorCondition {
	return operatorv1.OperatorCondition{Type: kind, Status: status, Reason: reason, Message: message}
}

// report writes the conditions if they differ, and drops all others.
func (s *standIn) report(ctx context.Context, driver *operatorv1.ClusterCSIDriver, wanted []operatorv1.OperatorCondition) error {
	// Several workloads can make one condition; the worst one counts.
	var merged []operatorv1.OperatorCondition
	for _, one := range wanted {
		known := false
		for i := range merged {
			if merged[i].Type == one.Type {
				known = true
				if one.Reason != "AsExpected" {
					merged[i] = one
				}
			}
		}
		if !known {
			merged = append(merged, one)
		}
	}
	same := len(merged) == len(driver.Status.Conditions)
	for i := range merged {
		merged[i].LastTransitionTime = metav1.Now()
		found := false
		for _, have := range driver.Status.Conditions {
			if have.Type != merged[i].Type {
				continue
			}
			found = have.Status == merged[i].Status && have.Reason == merged[i].Reason && have.Message == merged[i].Message
			if have.Status == merged[i].Status {
				merged[i].LastTransitionTime = have.LastTransitionTime
			}
		}
		same = same && found
	}
	if same && driver.Status.ObservedGeneration == driver.Generation {
		return nil
	}
	after := driver.DeepCopy()
	after.Status.Conditions, after.Status.ObservedGeneration = merged, driver.Generation
	return client.IgnoreNotFound(s.client.Status().Patch(ctx, after, client.MergeFrom(driver), client.FieldOwner(owner)))
}

// objects are the driver's pods and its CSIDriver.
func (s *standIn) objects() []client.Object {
	var objects []client.Object
	for _, workload := range s.entry.Workloads {
		labels := map[string]string{"app": workload.Name}
		meta := metav1.ObjectMeta{
			Namespace: workload.Namespace, Name: workload.Name, Labels: map[string]string{openshift.ManagedByLabel: s.entry.Operator},
		}
		template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "csi-driver", Image: s.image}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		}}
		selector := &metav1.LabelSelector{MatchLabels: labels}
		if workload.Kind == "Deployment" {
			objects = append(objects, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(1)), Selector: selector, Template: template,
			}})
		} else {
			objects = append(objects, &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}})
		}
	}
	return append(objects, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{
		Name: s.entry.Name, Labels: map[string]string{openshift.ManagedByLabel: s.entry.Operator},
		Annotations: map[string]string{"csi.openshift.io/managed": "true"},
	}})
}

// install makes them.
func (s *standIn) install(ctx context.Context) error {
	for _, object := range s.objects() {
		if err := s.apply(ctx, object); err != nil {
			return fmt.Errorf("apply %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// apply makes an object, or brings it up to date with the image.
func (s *standIn) apply(ctx context.Context, object client.Object) error {
	have := object.DeepCopyObject().(client.Object)
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(object), have); err == nil && env.ImageOf(have) == env.ImageOf(object) {
		return nil
	}
	kind, err := apiutil.GVKForObject(object, s.client.Scheme())
	if err != nil {
		return err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	delete(fields, "status")
	target := &unstructured.Unstructured{Object: fields}
	target.SetGroupVersionKind(kind)
	return s.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(target), client.FieldOwner(owner), client.ForceOwnership)
}
