package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakevsphere"
	"github.com/csi-operators/csi-operators/test/env/vcenters"
)

// patience is how long a roll-out of everything may take while other tests have the processors.
const patience = 4 * time.Minute

// scene is a test's cluster.
type scene struct {
	env.Scene
	t *testing.T
	// vCenters are those of a cluster on vSphere.
	vCenters []*fakevsphere.VCenter
}

// fresh gives a test a cluster of a platform in which no release was ever applied.
func fresh(t *testing.T, platform configv1.PlatformType) *scene {
	t.Helper()
	s := &scene{Scene: env.Scene{Cluster: pool.Lend(t), T: t, Patience: patience}, t: t}
	s.clear()
	s.setPlatform(platform)
	switch platform {
	case configv1.OpenStackPlatformType:
		// Its drivers are installed when the cloud has answered.
		s.LendOpenStack(t)
	case configv1.VSpherePlatformType:
		// The same.
		var err error
		s.vCenters, err = vcenters.Put(t.Context(), s.Cluster, 1)
		env.Must(t, err)
		t.Cleanup(func() { fakevsphere.CloseAll(s.vCenters) })
	case configv1.IBMCloudPlatformType:
		// Where the cloud-controller-manager is. Clusters of other platforms may lack it.
		env.Must(t, s.Namespace(t.Context(), "openshift-cloud-controller-manager"))
	}
	mark, err := s.Audit.Now()
	env.Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.describe())
		}
		if err := refused(s.Cluster, mark); err != nil {
			t.Error(err)
		}
	})
	return s
}

// installed is fresh with the release, when all of it has been reached.
func installed(t *testing.T, platform configv1.PlatformType) *scene {
	t.Helper()
	s := fresh(t, platform)
	s.install(env.Release{Version: release})
	s.reach(release)
	return s
}

// in is the same cluster for a step of a test, which then is the one that fails.
func (s *scene) in(t *testing.T) *scene {
	same := *s
	same.t, same.T = t, t
	return &same
}

// step is a part of a test. Each begins with the cluster as the one before has left it.
type step struct {
	name string
	run  func(*testing.T, *scene)
}

// take takes steps, until one fails.
func (s *scene) take(steps []step) {
	s.t.Helper()
	for _, step := range steps {
		if !s.t.Run(step.name, func(t *testing.T) { step.run(t, s.in(t)) }) {
			return
		}
	}
}

func (s *scene) install(release env.Release) {
	s.t.Helper()
	env.Must(s.t, s.ApplyRelease(s.t.Context(), release))
}

// reach waits until storage has come to a version and is well.
func (s *scene) reach(version string) {
	s.t.Helper()
	s.eventually("storage reaches "+version, func() error { return s.Reached(s.t.Context(), version) })
}

func (s *scene) eventually(what string, check func() error) {
	s.t.Helper()
	s.Until(what, check)
}

// clear removes all that a release and its operators have made, but for roles and namespaces.
func (s *scene) clear() {
	s.t.Helper()
	own, drivers, marked := client.InNamespace(catalogue.OperatorNamespace), client.InNamespace(catalogue.Namespace), client.HasLabels{openshift.ManagedByLabel}
	// First who would make the others again. Pods are looked for before what makes pods: an operator that is ending may still make its
	// driver once more.
	s.empty(kind{&corev1.PodList{}, own}, kind{&appsv1.DeploymentList{}, own}, kind{&appsv1.ReplicaSetList{}, own})
	s.empty(
		kind{&corev1.PodList{}, drivers}, kind{&appsv1.DeploymentList{}, drivers}, kind{&appsv1.ReplicaSetList{}, drivers},
		kind{&appsv1.DaemonSetList{}, drivers})
	// Manila is in a namespace of its own.
	s.empty(kind{&appsv1.DeploymentList{}, marked}, kind{&appsv1.DaemonSetList{}, marked})
	s.eventually("vSphere's driver is not registered", func() error { return s.Unregister(s.t.Context(), vSphere) })
	all := client.MatchingLabels{}
	s.empty(
		kind{&operatorv1.ClusterCSIDriverList{}, all}, kind{&operatorv1.StorageList{}, all}, kind{&configv1.ClusterOperatorList{}, all},
		kind{&storagev1.CSIDriverList{}, all}, kind{&storagev1.StorageClassList{}, all}, kind{&corev1.PersistentVolumeList{}, all},
		kind{&rbacv1.ClusterRoleBindingList{}, marked}, kind{&rbacv1.RoleBindingList{}, marked}, kind{&corev1.ServiceAccountList{}, marked},
		kind{&coordinationv1.LeaseList{}, drivers}, kind{&coordinationv1.LeaseList{}, own},
	)
}

// kind is some objects of one kind.
type kind struct {
	list   client.ObjectList
	option client.ListOption
}

// empty deletes what there is of some kinds, until a look finds none of any.
func (s *scene) empty(kinds ...kind) {
	s.t.Helper()
	s.eventually("the cluster is empty", func() error {
		var problems []error
		for _, one := range kinds {
			items, err := s.items(one.list, one.option)
			for _, item := range items {
				if item.GetDeletionTimestamp() == nil {
					background := client.PropagationPolicy(metav1.DeletePropagationBackground)
					err = errors.Join(err, client.IgnoreNotFound(s.Client.Delete(s.t.Context(), item, background)))
				}
			}
			if len(items) > 0 {
				err = errors.Join(err, fmt.Errorf("%d of %T are left, %s among them", len(items), one.list, items[0].GetName()))
			}
			problems = append(problems, err)
		}
		return errors.Join(problems...)
	})
}

// setPlatform makes the cluster one of another platform, and highly available. An Infrastructure that was deleted is made again.
func (s *scene) setPlatform(platform configv1.PlatformType) {
	s.t.Helper()
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(infrastructure), infrastructure)
	if apierrors.IsNotFound(err) {
		err = s.Client.Create(s.t.Context(), infrastructure)
	}
	env.Must(s.t, err)
	infrastructure.Spec.PlatformSpec = configv1.PlatformSpec{Type: platform}
	env.Must(s.t, s.Client.Update(s.t.Context(), infrastructure))
	infrastructure.Status = configv1.InfrastructureStatus{
		InfrastructureName: "test-abcde", Platform: platform, APIServerInternalURL: s.Config.Host, APIServerURL: s.Config.Host, //nolint:staticcheck // As in a cluster.
		ControlPlaneTopology: configv1.HighlyAvailableTopologyMode, InfrastructureTopology: configv1.HighlyAvailableTopologyMode,
		CPUPartitioning: configv1.CPUPartitioningNone,
		PlatformStatus:  &configv1.PlatformStatus{Type: platform},
	}
	switch platform {
	case configv1.AWSPlatformType:
		infrastructure.Status.PlatformStatus.AWS = &configv1.AWSPlatformStatus{Region: "us-east-1"}
	case configv1.GCPPlatformType:
		infrastructure.Status.PlatformStatus.GCP = &configv1.GCPPlatformStatus{Region: "us-east1", ProjectID: "test"}
	case configv1.AzurePlatformType:
		infrastructure.Status.PlatformStatus.Azure = &configv1.AzurePlatformStatus{ResourceGroupName: "test-rg", CloudName: configv1.AzurePublicCloud}
	}
	env.Must(s.t, s.Client.Status().Update(s.t.Context(), infrastructure))
}

// changeInfrastructure edits the status of the Infrastructure.
func (s *scene) changeInfrastructure(change func(*configv1.InfrastructureStatus)) {
	s.t.Helper()
	infrastructure := &configv1.Infrastructure{}
	env.Must(s.t, s.Client.Get(s.t.Context(), client.ObjectKey{Name: "cluster"}, infrastructure))
	change(&infrastructure.Status)
	env.Must(s.t, s.Client.Status().Update(s.t.Context(), infrastructure))
}

// items are what a list has now.
func (s *scene) items(list client.ObjectList, options ...client.ListOption) ([]client.Object, error) {
	if err := s.Client.List(s.t.Context(), list, options...); err != nil {
		return nil, err
	}
	return listed(list), nil
}

// storage is the Storage.
func (s *scene) storage() *operatorv1.Storage {
	s.t.Helper()
	storage := &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	env.Must(s.t, s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(storage), storage))
	return storage
}

// changeStorage edits the Storage as an administrator.
func (s *scene) changeStorage(change func(*operatorv1.StorageSpec)) {
	s.t.Helper()
	storage := s.storage()
	before := storage.DeepCopy()
	change(&storage.Spec)
	env.Must(s.t, s.Client.Patch(s.t.Context(), storage, client.MergeFrom(before)))
}

// condition is one of the Storage.
func (s *scene) condition(kind string) (operatorv1.OperatorCondition, error) {
	storage := &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	if err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(storage), storage); err != nil {
		return operatorv1.OperatorCondition{}, err
	}
	for _, condition := range storage.Status.Conditions {
		if condition.Type == kind {
			return condition, nil
		}
	}
	return operatorv1.OperatorCondition{}, fmt.Errorf("the Storage has no condition %s", kind)
}

// says waits until a condition of the Storage has a status and a text in its reason or message.
func (s *scene) says(kind string, status operatorv1.ConditionStatus, text string) {
	s.t.Helper()
	s.eventually(kind+" is "+string(status), func() error {
		condition, err := s.condition(kind)
		if err != nil {
			return err
		}
		if condition.Status != status || !strings.Contains(condition.Reason+": "+condition.Message, text) {
			return fmt.Errorf("it is %s %s: %s, want %s with %q", condition.Status, condition.Reason, condition.Message, status, text)
		}
		return nil
	})
}

// operatorSays waits until a condition of the ClusterOperator has a status and a text in its reason or message.
func (s *scene) operatorSays(kind configv1.ClusterStatusConditionType, status configv1.ConditionStatus, text string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%s of the ClusterOperator is %s", kind, status), func() error {
		operator, err := s.ClusterOperator(s.t.Context())
		if err != nil {
			return err
		}
		found := env.OperatorCondition(operator, kind)
		if found.Status != status || !strings.Contains(found.Reason+": "+found.Message, text) {
			return fmt.Errorf("want %s %s with %q; %s", kind, status, text, env.DescribeOperator(operator))
		}
		return nil
	})
}

// driver is a ClusterCSIDriver.
func (s *scene) driver(name string) *operatorv1.ClusterCSIDriver {
	s.t.Helper()
	driver := env.CR(name, "")
	env.Must(s.t, s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(driver), driver))
	return driver
}

// changeDriver edits a ClusterCSIDriver as an administrator.
func (s *scene) changeDriver(name string, change func(*operatorv1.ClusterCSIDriver)) {
	s.t.Helper()
	driver := s.driver(name)
	before := driver.DeepCopy()
	change(driver)
	env.Must(s.t, s.Client.Patch(s.t.Context(), driver, client.MergeFrom(before)))
}

// behave makes the stand-in of a driver's operator behave so from now on.
func (s *scene) behave(name string, behaviour env.Behaviour) {
	s.t.Helper()
	s.changeDriver(name, func(driver *operatorv1.ClusterCSIDriver) {
		metav1.SetMetaDataAnnotation(&driver.ObjectMeta, env.BehaviourAnnotation, string(behaviour))
	})
}

// repaired waits until CSO has looked at a driver from its beginning to its end, after all that happened before: it repairs twice what
// is damaged here.
func (s *scene) repaired(driver string) {
	s.t.Helper()
	for range 2 {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue.Namespace, Name: entry(driver).Operator + "-metrics"}}
		env.Must(s.t, s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(service), service))
		old := service.UID
		env.Must(s.t, s.Client.Delete(s.t.Context(), service))
		s.eventually("a new Service "+service.Name, func() error {
			err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(service), service)
			if err == nil && service.UID == old {
				err = errors.New("it is the old one")
			}
			return err
		})
	}
}

// reconciled waits until CSO has looked at everything, after all that happened before: whatever its state is, it makes the ClusterOperator again, twice.
func (s *scene) reconciled() {
	s.t.Helper()
	for range 2 {
		before, err := s.ClusterOperator(s.t.Context())
		env.Must(s.t, err)
		env.Must(s.t, s.Client.Delete(s.t.Context(), before))
		s.eventually("a new ClusterOperator", func() error {
			after, err := s.ClusterOperator(s.t.Context())
			switch {
			case err != nil:
				return err
			case after.UID == before.UID:
				return errors.New("it is the old one")
			case len(after.Status.Conditions) == 0:
				return errors.New("nothing is reported in it")
			}
			return nil
		})
	}
}

// logged checks that the cluster-storage-operator has printed a text.
func (s *scene) logged(text string) error {
	logs, err := filepath.Glob(filepath.Join(s.Dir, "logs", catalogue.OperatorNamespace+"-*.log"))
	for _, log := range logs {
		if content, err := os.ReadFile(log); err == nil && strings.Contains(string(content), text) {
			return nil
		}
	}
	return fmt.Errorf("%d logs have no %q (%w)", len(logs), text, err)
}

// describe is what is known of storage, to find out why a test failed.
func (s *scene) describe() string {
	ctx := context.Background()
	var text strings.Builder
	if operator, err := s.ClusterOperator(ctx); err == nil {
		text.WriteString("ClusterOperator: " + env.DescribeOperator(operator) + "\n")
	}
	storage := &operatorv1.Storage{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: "cluster"}, storage); err == nil {
		for _, c := range storage.Status.Conditions {
			fmt.Fprintf(&text, "Storage: %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	pods := &corev1.PodList{}
	if err := s.Client.List(ctx, pods); err == nil {
		for _, pod := range pods.Items {
			fmt.Fprintf(&text, "pod %s/%s %s %v\n", pod.Namespace, pod.Name, pod.Status.Phase, pod.DeletionTimestamp)
		}
	}
	logs, _ := filepath.Glob(filepath.Join(s.Dir, "logs", "openshift-*.log"))
	for _, log := range logs {
		// Others are of earlier tests.
		alive := slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return filepath.Base(log) == pod.Namespace+"-"+pod.Name+".log" })
		if content, err := os.ReadFile(log); err == nil && alive {
			fmt.Fprintf(&text, "--- %s\n%s\n", filepath.Base(log), env.LastLines(string(content)))
		}
	}
	return text.String()
}
