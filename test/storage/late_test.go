package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
)

// installWithLists applies the release for a cluster without ServiceMonitors. Lists in place of streams are what older API servers need.
func (s *scene) installWithLists() {
	s.t.Helper()
	mark, err := s.Audit.Now()
	env.Must(s.t, err)
	lists := environment(func(all []corev1.EnvVar) []corev1.EnvVar {
		return append(all, corev1.EnvVar{Name: "KUBE_FEATURE_WatchListClient", Value: "false"})
	})
	s.install(env.Release{Version: release, Edit: func(object *unstructured.Unstructured) bool {
		return object.GetKind() != "ServiceMonitor" && lists(object)
	}})
	s.eventually("the Storage listed", func() error {
		requests, err := s.Audit.Since(mark, env.CSOUser)
		if lists := env.Filter(requests, func(r env.Request) bool { return r.Verb == "list" && r.Object.Resource == "storages" }); err == nil && len(lists) == 0 {
			err = errors.New("not yet, or by a stream")
		}
		return err
	})
}

// usesALateKind serves ServiceMonitors.
func usesALateKind(t *testing.T, s *scene, crd *unstructured.Unstructured) {
	s.reports("servicemonitors", false)
	env.Must(t, s.Client.Create(t.Context(), crd))
	monitor := &unstructured.Unstructured{}
	monitor.SetGroupVersionKind(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"})
	s.eventually("the operator of the driver is monitored", func() error {
		return s.Client.Get(t.Context(), client.ObjectKey{Namespace: catalogue.Namespace, Name: entriesOf(configv1.IBMCloudPlatformType)[0].Operator}, monitor)
	})
	s.reach(release)
	s.reports("servicemonitors", true)
}

// takeAway deletes a CustomResourceDefinition, and returns it as it is to be made again. That happens at the end if the test has not done so.
func (s *scene) takeAway(name string) *unstructured.Unstructured {
	s.t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	env.Must(s.t, s.Client.Get(s.t.Context(), client.ObjectKey{Name: name}, crd))
	again := crd.DeepCopy()
	delete(again.Object, "status")
	again.Object["metadata"] = map[string]any{"name": name}
	env.Must(s.t, s.Client.Delete(s.t.Context(), crd))
	s.eventually(name+" has gone", func() error { return s.Gone(s.t.Context(), crd) })
	s.t.Cleanup(func() {
		if err := s.Client.Create(context.Background(), again.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
			s.t.Error(err)
		}
	})
	return again.DeepCopy()
}

// reports waits until the ClusterOperator names objects of a resource among its related objects, or none.
func (s *scene) reports(resource string, wanted bool) {
	s.t.Helper()
	s.eventually("related objects", func() error {
		operator, err := s.ClusterOperator(s.t.Context())
		if err != nil {
			return err
		}
		named := slices.ContainsFunc(operator.Status.RelatedObjects, func(one configv1.ObjectReference) bool { return one.Resource == resource })
		if named != wanted {
			return fmt.Errorf("%s are named: %v, want %v", resource, named, wanted)
		}
		return nil
	})
}
