package takeover

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// The workflow that the enhancement promised: the new operator finds what the old one has left, waits for the ClusterCSIDriver, and
// takes over node by node, while the applications go on. What the plan of the plugin says is what the operator then does, no more and no less.
func TestACommunityClusterIsMigrated(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{"openshift-operators", "storage-operators"} {
		t.Run(namespace, func(t *testing.T) {
			if namespace != "openshift-operators" {
				env.OnlySoak(t)
			}
			s := before(t, many, namespace)
			csv := s.oldPackage(t)
			apps := s.applications(t)
			// Neither one that has ended nor one without a volume of the driver uses the driver.
			free := s.workers[len(apps)]
			s.finish(t, s.application(t, "shop", "import", free))
			s.bystander(t, free)
			mark, plan := s.plans(t, apps)
			data, err := s.data(t.Context())
			env.Must(t, err)
			kept, err := s.uids(t.Context(), s.daemonSet(), csiDriver(), storageClass())
			env.Must(t, err)
			s.watch(t, many)

			operator := s.operate(t)
			s.tellsToCreate(t, operator)
			s.create(t, nil)
			s.freeNodesFirst(t, operator, apps)
			s.oldPodsKeepTheirIdentity(t)
			s.acceptRemount(t)
			env.Eventually(t, "the driver taken over", func() error { return s.handedOver(t.Context(), many) })
			env.Eventually(t, "the rest of the old driver gone", func() error { return s.communityGone(t.Context()) })
			s.didAsPlanned(t, mark, plan)

			after, err := s.data(t.Context())
			env.Must(t, err)
			same(t, "SharedVolumes, volumes or PVCs", data, after)
			now, err := s.uids(t.Context(), s.daemonSet(), csiDriver(), storageClass())
			env.Must(t, err)
			same(t, "the identity of what is adopted", kept, now)
			if replaced, most := s.sampler.Counts(t, s.Cluster); replaced != len(s.workers) || most == 0 {
				t.Errorf("the sampler saw %d old plugins go, of %d, and %d nodes without", replaced, len(s.workers), most)
			}
			s.uninstallOldPackage(t, csv)
			s.deleteCRD(t)
		})
	}
}

// applications are four, each on a node of its own.
func (s *scene) applications(t *testing.T) []*corev1.Pod {
	t.Helper()
	return []*corev1.Pod{
		s.application(t, "shop", "web-0", s.workers[0]), s.application(t, "lab", "model-0", s.workers[1]),
		s.application(t, "shop", "web-1", s.workers[2]), s.application(t, "lab", "model-1", s.workers[3]),
	}
}

// oldPackage is what OLM still has of the community's operator, and its Deployment without pods. The ConfigMap stands for the
// ClusterServiceVersion, which owns the rest.
func (s *scene) oldPackage(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	csv := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "aws-efs-operator.v0.0.8"}}
	env.Must(t, s.Client.Create(t.Context(), csv))
	for _, object := range predecessors.CommunityOperator(s.namespace) {
		if object.GetNamespace() != "" {
			object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: csv.Name, UID: csv.UID}})
		}
		scale(object, 0)
		env.Must(t, s.Put(t.Context(), "olm", object))
	}
	return csv
}

// bystander is a pod of an application that does not use the driver.
func (s *scene) bystander(t *testing.T, node string) {
	t.Helper()
	env.Must(t, s.Client.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cache"},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "cache", Image: "registry.example/cache:1"}}, Volumes: []corev1.Volume{{
			Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		}}},
	}))
}

// tellsToCreate checks that the operator says that there is no ClusterCSIDriver, and does nothing else about the driver.
func (s *scene) tellsToCreate(t *testing.T, operator *env.Operator) {
	t.Helper()
	daemonSet := s.daemonSet()
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(daemonSet), daemonSet))
	env.Eventually(t, "the event that says to create the ClusterCSIDriver", func() error {
		events := &eventsv1.EventList{}
		if err := s.Client.List(t.Context(), events, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		count := 0
		for _, event := range events.Items {
			if event.Reason == "CreateClusterCSIDriver" && event.Regarding.UID == daemonSet.UID {
				count++
				if event.Series != nil {
					count += int(event.Series.Count)
				}
			}
		}
		if count != 1 {
			return fmt.Errorf("%d events", count)
		}
		return nil
	})
	env.Quiet(t, operator)
	s.wroteNothing(t, s.lent)
	env.Must(t, s.holdsOnly(t.Context(), s.workers...))
	generation := daemonSet.Generation
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(daemonSet), daemonSet))
	if daemonSet.Generation != generation {
		t.Error("the old DaemonSet was changed without a ClusterCSIDriver")
	}
}

// wroteNothing checks that the operator has written nothing of the driver since a mark. It may lead, report, ask what somebody may do,
// report on the ClusterCSIDriver, and look after SharedVolumes, which need none.
func (s *scene) wroteNothing(t *testing.T, since env.Mark) {
	t.Helper()
	requests, err := s.Audit.Since(since, env.OperatorUserIn(s.namespace))
	env.Must(t, err)
	written := env.Filter(requests, func(r env.Request) bool {
		switch r.Object.Resource {
		case "leases", "events", "subjectaccessreviews", "tokenreviews", "clustercsidrivers", "sharedvolumes", "persistentvolumes",
			"persistentvolumeclaims", "validatingadmissionpolicies", "validatingadmissionpolicybindings":
			return false
		}
		return r.IsWrite()
	})
	if len(written) > 0 {
		env.Broken(t, "these have written what they may not:\n%s", env.Describe(written))
	}
}

// freeNodesFirst checks that nodes in use keep their plugin and are named with their pods, and that they follow when the pods
// have ended, in one way or the other. At the end, two nodes are left.
func (s *scene) freeNodesFirst(t *testing.T, operator *env.Operator, apps []*corev1.Pod) {
	t.Helper()
	names := func(apps []*corev1.Pod) (nodes, texts []string) {
		for _, pod := range apps {
			nodes, texts = append(nodes, pod.Spec.NodeName), append(texts, pod.Spec.NodeName, pod.Namespace+"/"+pod.Name)
		}
		return nodes, texts
	}
	for len(apps) >= 2 {
		nodes, texts := names(apps)
		env.Eventually(t, "old plugins on nodes in use only", func() error { return s.holdsOnly(t.Context(), nodes...) })
		env.Eventually(t, "nodes in use named with their pods", func() error { return s.reports(t.Context(), "TakingOver", texts...) })
		env.Quiet(t, operator)
		env.Must(t, s.holdsOnly(t.Context(), nodes...))
		if len(apps) == 2 {
			return
		}
		s.finish(t, apps[0])
		s.stop(t, apps[1])
		apps = apps[2:]
	}
}

// oldPodsKeepTheirIdentity checks that what old pods need stays as long as there are some, and that nobody's clean-up takes the
// account away meanwhile.
func (s *scene) oldPodsKeepTheirIdentity(t *testing.T) {
	t.Helper()
	account, constraints := s.account(), constraints()
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(account), account))
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(constraints), constraints))
	if account.DeletionTimestamp != nil || constraints.DeletionTimestamp != nil || len(account.OwnerReferences) > 0 {
		t.Errorf("deleted while old pods run: account %t, constraints %t; owners of the account: %v",
			account.DeletionTimestamp != nil, constraints.DeletionTimestamp != nil, account.OwnerReferences)
	}
}

// uninstallOldPackage deletes what is left of the old operator's package. Nothing of ours goes with it.
func (s *scene) uninstallOldPackage(t *testing.T, csv *corev1.ConfigMap) {
	t.Helper()
	before, err := s.uidsOfOperands(t.Context())
	env.Must(t, err)
	env.Must(t, s.Client.Delete(t.Context(), csv))
	for _, object := range predecessors.CommunityOperator(s.namespace) {
		if object.GetNamespace() == "" {
			env.Must(t, s.Client.Delete(t.Context(), object))
			continue
		}
		env.Eventually(t, object.GetName()+" collected", func() error { return s.Gone(t.Context(), object) })
	}
	after, err := s.uidsOfOperands(t.Context())
	env.Must(t, err)
	same(t, "with the old package, the driver", before, after)
}

// deleteCRD deletes the CRD of SharedVolumes, as users did who uninstalled the community's operator. The garbage
// collector then takes all that names it as owner: two canaries show that it has done so.
func (s *scene) deleteCRD(t *testing.T) {
	t.Helper()
	before, err := s.uidsOfOperands(t.Context())
	env.Must(t, err)
	uid, err := s.CRDUID(t.Context())
	env.Must(t, err)
	owned := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "canary", OwnerReferences: []metav1.OwnerReference{env.OfCRD(uid)}}
	}
	canaries := []client.Object{&corev1.ConfigMap{ObjectMeta: owned(s.namespace)}, &rbacv1.ClusterRole{ObjectMeta: owned("")}}
	env.Must(t, s.Put(t.Context(), env.CommunityName, canaries...))
	_, err = s.Kubectl(t.Context(), "delete", "crd", env.SharedVolumesCRD, "--wait=false")
	env.Must(t, err)
	// In a young cluster the garbage collector needs a while to know the kind.
	env.Must(t, env.AwaitFor(t.Context(), 3*time.Minute, "the canaries collected", func() error {
		var left error
		for _, canary := range canaries {
			left = errors.Join(left, s.Gone(t.Context(), canary))
		}
		return left
	}))
	after, err := s.uidsOfOperands(t.Context())
	env.Must(t, err)
	same(t, "with the CRD, the driver", before, after)
}

// uidsOfOperands are those of all objects of the driver, and of its StorageClass, which is everybody's.
func (s *scene) uidsOfOperands(ctx context.Context) (map[string]string, error) {
	owned, err := s.Owned(ctx)
	if err != nil {
		return nil, err
	}
	class := storageClass()
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(class), class); err != nil {
		return nil, err
	}
	found := map[string]string{"StorageClass": string(class.UID)}
	for i := range owned {
		found[fmt.Sprintf("%s %s/%s", owned[i].GetKind(), owned[i].GetNamespace(), owned[i].GetName())] = string(owned[i].GetUID())
	}
	if len(found) < 20 {
		return nil, fmt.Errorf("%d objects of the driver", len(found))
	}
	return found, nil
}
