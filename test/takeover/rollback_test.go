package takeover

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// The steps of the guide for a take-over that has failed: stop this operator, let go of the ClusterCSIDriver, and start the old operator,
// which puts its objects back. Nobody who uses a volume notices.
func TestAFailedTakeOverCanBeRolledBack(t *testing.T) {
	t.Parallel()
	s := before(t, few, "openshift-operators")
	apps := []*corev1.Pod{s.application(t, "shop", "web", s.workers[0]), s.application(t, "lab", "model", s.workers[1])}
	data, err := s.data(t.Context())
	env.Must(t, err)
	kept, err := s.uids(t.Context(), s.daemonSet(), csiDriver(), storageClass())
	env.Must(t, err)
	s.watch(t, few)
	operator := s.operate(t)
	s.create(t, nil)
	env.Eventually(t, "half of it done", func() error {
		return errors.Join(s.holdsOnly(t.Context(), apps[0].Spec.NodeName, apps[1].Spec.NodeName), s.tells(t.Context(), "TakingOver"))
	})

	env.Must(t, operator.Stop())
	_, err = s.Kubectl(t.Context(), "patch", "clustercsidriver", driverName, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	env.Must(t, err)
	_, err = s.Kubectl(t.Context(), "delete", "clustercsidriver", driverName)
	env.Must(t, err)
	// From here on the old operator rolls its pods out as it always did, and does not count nodes.
	s.sampler.Uncounted()
	env.Must(t, s.Put(t.Context(), env.CommunityName, append(s.community(t), env.CommunityOperator(s.namespace)...)...))
	env.Eventually(t, "the old driver on all workers", func() error {
		return errors.Join(s.runs(t.Context(), s.daemonSet()), s.holdsOnly(t.Context(), s.workers...))
	})

	s.deleteOurs(t)

	after, err := s.data(t.Context())
	env.Must(t, err)
	same(t, "SharedVolumes, volumes or claims", data, after)
	env.Must(t, errors.Join(s.runs(t.Context(), s.daemonSet()), s.holdsOnly(t.Context(), s.workers...)))
	now, err := s.uids(t.Context(), s.daemonSet(), csiDriver(), storageClass())
	env.Must(t, err)
	same(t, "the identity of what was adopted", kept, now)
	for _, app := range apps {
		live := &corev1.Pod{}
		env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(app), live))
		if live.UID != app.UID || live.Status.Phase != corev1.PodRunning {
			t.Errorf("application %s is %s, UID %s", app.Name, live.Status.Phase, live.UID)
		}
	}

	// The second try goes all the way.
	for _, object := range env.CommunityOperator(s.namespace) {
		env.Must(t, s.Client.Delete(t.Context(), object))
	}
	s.sampler.Counted(1)
	s.operate(t)
	s.sampler.Accept(true)
	s.create(t, map[string]string{accepted: "true"})
	env.Eventually(t, "the driver taken over", func() error { return errors.Join(s.handedOver(t.Context(), few), s.communityGone(t.Context())) })
}

// deleteOurs deletes what the old operator does not know, with the commands of the guide.
func (s *scene) deleteOurs(t *testing.T) {
	t.Helper()
	label := "app.kubernetes.io/managed-by=" + env.OperatorName
	for namespace, kinds := range map[string]string{
		s.namespace:                           "deployments,services,configmaps,poddisruptionbudgets,roles,rolebindings,serviceaccounts,servicemonitors",
		"":                                    "clusterroles,clusterrolebindings",
		"openshift-cloud-credential-operator": "credentialsrequests", "openshift-config-managed": "configmaps",
	} {
		_, err := s.Kubectl(t.Context(), "-n", namespace, "delete", kinds, "-l", label)
		env.Must(t, err)
	}
	owned, err := s.Owned(t.Context())
	env.Must(t, err)
	for i := range owned {
		if kind := owned[i].GetKind(); kind != "DaemonSet" && kind != "CSIDriver" && kind != "StorageClass" {
			t.Errorf("%s %s is left", kind, owned[i].GetName())
		}
	}
}

// A cluster may have no credentials for the driver, or nobody who mints them. Nodes need none for static volumes.
func TestMissingCredentialsHoldUpNoNode(t *testing.T) {
	t.Parallel()
	s := open(t, few, "openshift-operators", "--credentials-mode", "Manual")
	s.install(t)
	app := s.application(t, "shop", "web", s.workers[0])
	s.watch(t, few)
	s.operate(t)
	s.create(t, nil)
	env.Eventually(t, "free nodes taken over", func() error { return s.holdsOnly(t.Context(), app.Spec.NodeName) })
	s.stop(t, app)
	env.Eventually(t, "all nodes taken over, and the rest of the old driver gone", func() error {
		return errors.Join(s.holdsOnly(t.Context()), s.runs(t.Context(), s.daemonSet()), s.communityGone(t.Context()))
	})
	secrets := &corev1.SecretList{}
	env.Must(t, s.Client.List(t.Context(), secrets, client.InNamespace(s.namespace)))
	for i := range secrets.Items {
		if name := secrets.Items[i].Name; name == "aws-efs-cloud-credentials" || name == "node-aws-efs-cloud-credentials" {
			t.Errorf("there is Secret %s: this test no longer shows what it is about", name)
		}
	}
}
