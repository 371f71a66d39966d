package storage

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
)

const ebs = "ebs.csi.aws.com"

// A driver is installed, and then an administrator does one thing after the other to it. At last, the cluster becomes one of another platform, and is
// upgraded. Each step begins with the cluster as the one before has left it: an installation takes 3 s of
// processor.
func TestAdministratorsHaveTheLastWord(t *testing.T) {
	steps := []step{
		{"a deleted ClusterCSIDriver comes back, and nothing goes with it", bringsClusterCSIDriverBack},
		{"what is the user's in the ClusterCSIDriver stays", keepsUsersFields},
		{"Unmanaged leaves everything alone", leavesUnmanagedAlone},
		{"Removed removes nothing", refusesRemoved},
		{"the log level is followed", followsLogLevel},
		{"a deleted ClusterOperator comes back", bringsClusterOperatorBack},
		{"a deleted Storage is missed, and nothing goes with it", missesStorage},
		{"the driver of the old platform goes when its volumes have gone", changesPlatform},
		{"nonsense in a ClusterCSIDriver is reported", reportsNonsense},
		{"an upgrade goes in order and is reported last", func(t *testing.T, s *scene) { upgrades(t, s, configv1.GCPPlatformType) }},
	}
	if env.IsSoak(t) {
		// The golden files of each driver show what it has on a single node.
		steps = slices.Insert(steps, len(steps)-1, step{"a single node gets one controller", hasOneController})
	}
	getsItsDriver(t, configv1.AWSPlatformType, "gp3-csi").take(steps)
}

func bringsClusterCSIDriverBack(t *testing.T, s *scene) {
	before, old := s.uids(), s.driver(ebs)
	env.Must(t, s.Client.Delete(t.Context(), old))
	s.eventually("a new ClusterCSIDriver", func() error {
		driver := env.CR(ebs, "")
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(driver), driver); err != nil {
			return err
		}
		if driver.UID == old.UID {
			return errors.New("it is the old one")
		}
		return nil
	})
	s.reach(release)
	if diff := cmp.Diff(before, s.uids()); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}

func keepsUsersFields(t *testing.T, s *scene) {
	s.changeDriver(ebs, func(driver *operatorv1.ClusterCSIDriver) {
		driver.Spec.ManagementState, driver.Spec.LogLevel = operatorv1.Unmanaged, operatorv1.Debug
		metav1.SetMetaDataAnnotation(&driver.ObjectMeta, "example.com/note", "mine")
	})
	// A new operator sees it for the first time.
	s.restart()
	s.repaired(ebs)
	driver := s.driver(ebs)
	if driver.Spec.ManagementState != operatorv1.Unmanaged || driver.Spec.LogLevel != operatorv1.Debug || driver.Annotations["example.com/note"] != "mine" {
		t.Errorf("it has annotations %v and spec %+v", driver.Annotations, driver.Spec.OperatorSpec)
	}
	s.changeDriver(ebs, func(driver *operatorv1.ClusterCSIDriver) {
		driver.Spec.ManagementState, driver.Spec.LogLevel = operatorv1.Managed, operatorv1.Normal
	})
	s.reach(release)
}

// restart replaces the pod of the cluster-storage-operator.
func (s *scene) restart() {
	s.t.Helper()
	pods := &corev1.PodList{}
	env.Must(s.t, s.Client.List(s.t.Context(), pods, client.InNamespace(catalogue.OperatorNamespace)))
	for i := range pods.Items {
		env.Must(s.t, s.Client.Delete(s.t.Context(), &pods.Items[i]))
		s.eventually("the old pod has gone", func() error { return s.Gone(s.t.Context(), &pods.Items[i]) })
	}
}

func leavesUnmanagedAlone(t *testing.T, s *scene) {
	s.changeStorage(func(spec *operatorv1.StorageSpec) { spec.ManagementState = operatorv1.Unmanaged })
	for _, kind := range []configv1.ClusterStatusConditionType{
		configv1.OperatorAvailable, configv1.OperatorProgressing, configv1.OperatorDegraded, configv1.OperatorUpgradeable,
	} {
		s.operatorSays(kind, configv1.ConditionUnknown, "Unmanaged")
	}
	operator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue.Namespace, Name: entry(ebs).Operator}}
	mark, err := s.Audit.Now()
	env.Must(t, err)
	env.Must(t, s.Client.Delete(t.Context(), operator))
	s.reconciled()
	if err := s.Gone(t.Context(), operator); err != nil {
		env.Broken(t, "Unmanaged storage was touched: %v", err)
	}
	requests, err := s.Audit.Since(mark, env.CSOUser)
	env.Must(t, err)
	written := env.Filter(requests, func(r env.Request) bool {
		return r.IsWrite() && !slices.Contains([]string{"leases", "events", "clusteroperators"}, r.Object.Resource)
	})
	if len(written) > 0 {
		env.Broken(t, "Unmanaged storage was written:\n%s", env.Describe(written))
	}
	s.changeStorage(func(spec *operatorv1.StorageSpec) { spec.ManagementState = operatorv1.Managed })
	s.reach(release)
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(operator), operator))
}

func refusesRemoved(t *testing.T, s *scene) {
	before := s.uids()
	s.changeStorage(func(spec *operatorv1.StorageSpec) { spec.ManagementState = operatorv1.Removed })
	s.says("ManagementStateDegraded", operatorv1.ConditionTrue, "")
	s.reconciled()
	if diff := cmp.Diff(before, s.uids()); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	s.changeStorage(func(spec *operatorv1.StorageSpec) { spec.ManagementState = operatorv1.Managed })
	s.reach(release)
}

func followsLogLevel(t *testing.T, s *scene) {
	before := s.uids()
	s.changeStorage(func(spec *operatorv1.StorageSpec) {
		spec.OperatorLogLevel, spec.LogLevel = operatorv1.Trace, operatorv1.Trace
	})
	s.eventually("more is logged", func() error { return s.logged("\"Response\"") })
	s.changeStorage(func(spec *operatorv1.StorageSpec) {
		spec.OperatorLogLevel, spec.LogLevel = operatorv1.Normal, operatorv1.Normal
	})
	s.reach(release)
	if diff := cmp.Diff(before, s.uids()); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if level := s.driver(ebs).Spec.LogLevel; level != operatorv1.Normal {
		t.Errorf("the driver's log level is %s", level)
	}
}

func bringsClusterOperatorBack(t *testing.T, s *scene) {
	before, err := s.ClusterOperator(t.Context())
	env.Must(t, err)
	env.Must(t, s.Client.Delete(t.Context(), before))
	s.eventually("a new ClusterOperator", func() error {
		after, err := s.ClusterOperator(t.Context())
		if err == nil && after.UID == before.UID {
			err = errors.New("it is the old one")
		}
		return err
	})
	s.reach(release)
}

func missesStorage(t *testing.T, s *scene) {
	before, storage := s.uids(), s.storage()
	env.Must(t, s.Client.Delete(t.Context(), storage))
	if env.IsSoak(t) {
		// That takes two minutes.
		s.operatorSays(configv1.OperatorDegraded, configv1.ConditionTrue, "The Storage object named cluster is missing")
	}
	s.reconciled()
	s.operatorSays(configv1.OperatorAvailable, configv1.ConditionTrue, "")
	if diff := cmp.Diff(before, s.uids()); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	// The release makes it again.
	s.install(env.Release{Version: release})
	s.reach(release)
}
