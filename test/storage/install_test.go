package storage

import (
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
)

// entriesOf are the drivers of a platform.
func entriesOf(platform configv1.PlatformType) []catalogue.Entry {
	var found []catalogue.Entry
	for _, entry := range catalogue.All() {
		if entry.Platform == platform {
			found = append(found, entry)
		}
	}
	return found
}

// getsItsDriver installs with a look at each moment: the platform gets its driver, versions are reported last, and nobody is an administrator.
func getsItsDriver(t *testing.T, platform configv1.PlatformType, class string) *scene {
	t.Helper()
	s := fresh(t, platform)
	// Earlier releases had it.
	admin := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: env.CSO + "-role"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: env.CSONamespace, Name: env.CSO}},
	}
	env.Must(t, s.Client.Create(t.Context(), admin))
	journal := s.record()
	s.install(env.Release{Version: release})
	s.reach(release)
	entries := entriesOf(platform)
	journal.checkVersions(t, entries, release)
	s.isComplete(entries, 2)
	if defaults := s.defaultClasses(); len(defaults) != 1 || defaults[0] != class {
		t.Errorf("the default StorageClasses are %v, want %s", defaults, class)
	}
	s.holdsOnlyItsRBAC(entries[0])
	return s
}

// isComplete checks the driver and what is said of it.
func (s *scene) isComplete(entries []catalogue.Entry, replicas int32) {
	s.t.Helper()
	drivers := &operatorv1.ClusterCSIDriverList{}
	env.Must(s.t, s.Client.List(s.t.Context(), drivers))
	if len(drivers.Items) != len(entries) {
		s.t.Errorf("%d ClusterCSIDrivers, want %d", len(drivers.Items), len(entries))
	}
	var operator *configv1.ClusterOperator
	// Where nothing else changes, they are written a few seconds later.
	s.eventually("there is a version for each operator", func() error {
		var err error
		if operator, err = s.ClusterOperator(s.t.Context()); err == nil && len(operator.Status.Versions) != len(entries)+1 {
			err = fmt.Errorf("versions are %v", operator.Status.Versions)
		}
		return err
	})
	for _, entry := range entries {
		spec := s.driver(entry.Name).Spec.OperatorSpec
		if spec.ManagementState != operatorv1.Managed || spec.LogLevel != operatorv1.Normal || spec.OperatorLogLevel != operatorv1.Normal {
			s.t.Errorf("ClusterCSIDriver %s has spec %+v", entry.Name, spec)
		}
		deployment := &appsv1.Deployment{}
		workload := entry.Workloads[0]
		env.Must(s.t, s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: workload.Namespace, Name: workload.Name}, deployment))
		if got := deployment.Status.AvailableReplicas; got != replicas {
			s.t.Errorf("%d pods of Deployment %s are available, want %d", got, workload.Name, replicas)
		}
		for _, want := range []configv1.ObjectReference{
			{Group: operatorv1.GroupName, Resource: "clustercsidrivers", Name: entry.Name},
			{Group: "apps", Resource: "deployments", Namespace: catalogue.Namespace, Name: entry.Operator},
			{Resource: "namespaces", Name: workload.Namespace},
			{Group: operatorv1.GroupName, Resource: "storages", Name: "cluster"},
			{Group: rbacv1.GroupName, Resource: "clusterroles", Name: entry.Operator + "-clusterrole"},
			{Group: rbacv1.GroupName, Resource: "clusterroles", Name: entry.Operator + "-role"},
			{Group: rbacv1.GroupName, Resource: "clusterroles", Name: env.CSO},
			{Group: rbacv1.GroupName, Resource: "clusterrolebindings", Name: env.CSO},
		} {
			found := false
			for _, have := range operator.Status.RelatedObjects {
				found = found || have == want
			}
			if !found {
				s.t.Errorf("%+v is not among the related objects: %v", want, operator.Status.RelatedObjects)
			}
		}
	}
}

func (s *scene) defaultClasses() []string {
	s.t.Helper()
	classes := &storagev1.StorageClassList{}
	env.Must(s.t, s.Client.List(s.t.Context(), classes))
	var names []string
	for _, class := range classes.Items {
		if class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			names = append(names, class.Name)
		}
	}
	return names
}

// holdsOnlyItsRBAC checks that nobody is an administrator, and that Secrets of other namespaces are out of reach.
func (s *scene) holdsOnlyItsRBAC(entry catalogue.Entry) {
	s.t.Helper()
	bindings := &rbacv1.ClusterRoleBindingList{}
	env.Must(s.t, s.Client.List(s.t.Context(), bindings))
	for _, binding := range bindings.Items {
		for _, subject := range binding.Subjects {
			if binding.RoleRef.Name == "cluster-admin" && strings.HasPrefix(subject.Namespace, "openshift-cluster-") {
				s.t.Errorf("%s/%s is an administrator by ClusterRoleBinding %s", subject.Namespace, subject.Name, binding.Name)
			}
		}
	}
	for _, user := range []string{env.CSOUser, env.DriverOperatorUser(entry.Operator)} {
		for _, attributes := range []authorizationv1.ResourceAttributes{
			{Verb: "get", Resource: "secrets", Namespace: "openshift-config"},
			{Verb: "list", Resource: "secrets", Namespace: "kube-system"},
			{Verb: "list", Resource: "secrets"},
			{Verb: "create", Resource: "clusterroles", Group: rbacv1.GroupName},
			{Verb: "escalate", Resource: "clusterroles", Group: rbacv1.GroupName},
			{Verb: "bind", Resource: "clusterroles", Group: rbacv1.GroupName, Name: "cluster-admin"},
			{Verb: "impersonate", Resource: "users"},
			{Verb: "create", Resource: "pods", Namespace: "kube-system"},
			{Verb: "update", Resource: "nodes"},
			{Verb: "*", Resource: "*", Group: "*"},
		} {
			if user != env.CSOUser && attributes.Verb == "create" && attributes.Resource == "clusterroles" {
				// What is granted there is what the operator holds itself.
				continue
			}
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &attributes}}
			env.Must(s.t, s.Client.Create(s.t.Context(), review))
			if review.Status.Allowed {
				s.t.Errorf("%s may %s %s %s in %q: %s", user, attributes.Verb, attributes.Resource, attributes.Name, attributes.Namespace, review.Status.Reason)
			}
		}
	}
}

// hasOneController makes the cluster one of a single node. The golden files of each driver have its pods there.
func hasOneController(t *testing.T, s *scene) {
	s.changeInfrastructure(func(status *configv1.InfrastructureStatus) {
		status.ControlPlaneTopology, status.InfrastructureTopology = configv1.SingleReplicaTopologyMode, configv1.SingleReplicaTopologyMode
	})
	workload, deployment := entriesOf(configv1.GCPPlatformType)[0].Workloads[0], &appsv1.Deployment{}
	s.eventually("one controller", func() error {
		err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: workload.Namespace, Name: workload.Name}, deployment)
		state := deployment.Status
		if err == nil && (state.ObservedGeneration != deployment.Generation || state.Replicas != 1 || state.UpdatedReplicas != 1 || state.AvailableReplicas != 1) {
			err = fmt.Errorf("there are %d, %d of them are new, and %d are available", state.Replicas, state.UpdatedReplicas, state.AvailableReplicas)
		}
		return err
	})
	s.reach(release)
	s.isComplete(entriesOf(configv1.GCPPlatformType), 1)
}

// A driver of others goes with its platform. Then the platform has no driver, and the release does some things all the same: it refuses what a stolen
// token of the operator would ask for.
func TestAPlatformWithoutDriverIsHealthyAndTokensAreLimited(t *testing.T) {
	s := fresh(t, configv1.PowerVSPlatformType)
	metricsAreNotForEverybody(t, s)
	s.install(env.Release{Version: release})
	s.reach(release)
	s.take([]step{
		{"the driver of others is removed with its operator", removesDriverOfOthers},
		{"pods that could not share a volume keep the cluster from the next version", findsPodsThatCouldNotShare},
		{"bindings", bindsWhatTheCatalogueSays},
		{"limits", holdsTokensToTheLimits},
		{"labels of namespaces that pods would not start with", refusesLabels},
		{"it is healthy and says so", isHealthyWithoutDriver},
	})
}

func isHealthyWithoutDriver(_ *testing.T, s *scene) {
	for _, platform := range []configv1.PlatformType{configv1.NonePlatformType, configv1.ExternalPlatformType, "Moon"} {
		s.setPlatform(platform)
		s.operatorSays(configv1.OperatorAvailable, configv1.ConditionTrue, "no CSI driver for platform "+string(platform))
		s.reach(release)
		s.isComplete(nil, 0)
		s.eventually("nothing is started", func() error {
			if left := s.uids(); len(left) > 0 {
				return fmt.Errorf("%v", left)
			}
			return nil
		})
	}
}
