package bundle

import (
	"context"
	"errors"
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
)

const (
	controllerRole = "arn:aws:iam::123456789012:role/controller"
	otherRole      = "arn:aws:iam::123456789012:role/other"
	nodeRole       = "arn:aws:iam::123456789012:role/node"
)

func roleARN(role string) corev1.EnvVar     { return corev1.EnvVar{Name: "ROLEARN", Value: role} }
func nodeRoleARN(role string) corev1.EnvVar { return corev1.EnvVar{Name: "NODE_ROLEARN", Value: role} }

// The life of an installation on a cluster with STS, where the console asks for the role. Each step builds on the one before.
func TestAnInstallationLivesThroughUpgradeConfigurationAndUninstallation(t *testing.T) {
	s := open(t, env.OperatorNamespace)
	s.trustsTheCluster(t)
	older, before := preview(t)
	newer, now := released(t)
	var app *corev1.Pod
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"installed from channel preview, it reaches Available", func(t *testing.T) {
			env.Must(t, s.olm.Install(t.Context(), before, s.namespace, roleARN(controllerRole)))
			env.Eventually(t, "the operator runs", s.olm.Operator().Started)
			s.ask(t, before)
			env.Eventually(t, "the driver installed", func() error { return s.at(t.Context(), before) })
			s.hasImagesOf(t, older)
			s.requests(t, map[string]string{controllerRequest: controllerRole})
			app = s.share(t, before)
		}},
		{"upgraded by a change to channel stable, it makes nothing anew", func(t *testing.T) {
			s.upgrade(t, before, now)
			s.hasImagesOf(t, newer)
			s.survives(t, app)
		}},
		{"roles in the environment reach requests and pods", func(t *testing.T) {
			s.followsRoles(t, now)
			s.survives(t, app)
		}},
		{"uninstalled, it leaves the driver running", func(t *testing.T) {
			s.leavesTheDriver(t, now)
			s.survives(t, app)
		}},
		{"installed again, it goes on", func(t *testing.T) {
			kept, mark := s.pods(t), s.mark(t)
			env.Must(t, s.olm.Install(t.Context(), now, s.namespace, roleARN(controllerRole)))
			env.Eventually(t, "the operator runs", s.olm.Operator().Started)
			env.Quiet(t, s.olm.Operator())
			env.Must(t, s.at(t.Context(), now))
			equal(t, "pods of the driver", kept, s.pods(t))
			equal(t, "writes", nil, s.writes(t, mark))
			s.survives(t, app)
		}},
		{"asked to, it removes the driver", func(t *testing.T) { s.removesTheDriver(t, app) }},
	} {
		if !t.Run(step.name, step.do) {
			return
		}
	}
}

// trustsTheCluster makes the cluster one whose tokens AWS trusts. The sweep takes that back.
func (s *scene) trustsTheCluster(t *testing.T) {
	t.Helper()
	for object, fields := range map[client.Object]string{
		&operatorv1.CloudCredential{}: `{"spec":{"credentialsMode":"Manual"}}`, &configv1.Authentication{}: `{"spec":{"serviceAccountIssuer":"https://oidc.example"}}`,
	} {
		object.SetName("cluster")
		env.Must(t, s.Client.Patch(t.Context(), object, env.Merge(fields)))
	}
}

// upgrade goes to the next version as the catalog has it. Only workloads change, and node pods one after the other.
func (s *scene) upgrade(t *testing.T, from, to fakeolm.CSV) {
	t.Helper()
	resolves(t, from, own(), to)
	kept, mark, pods := s.identities(t), s.mark(t), s.pods(t)
	controller, nodes := s.generations(t)
	env.Must(t, s.olm.Upgrade(t.Context(), from.Name, to))
	env.Eventually(t, "the driver upgraded", func() error {
		_, daemonSet, err := s.workloads(t.Context())
		if missing := daemonSet.Status.NumberUnavailable; missing > 1 {
			t.Errorf("%d nodes lack a driver at once", missing)
		}
		return errors.Join(err, s.at(t.Context(), to))
	})
	env.Quiet(t, s.olm.Operator())
	env.Must(t, s.nothingOf(t.Context(), from))
	s.same(t, kept)
	nowController, nowNodes := s.generations(t)
	equal(t, "changes of the workloads", []int64{1, 1}, []int64{nowController - controller, nowNodes - nodes})
	// The node of the application gets its images first.
	images := "daemonsets " + nodeDaemonSet + "-images"
	equal(t, "writes", []string{
		"delete " + images, "delete pods " + nodeDaemonSet, "patch daemonsets " + nodeDaemonSet, "patch " + images, "patch deployments " + controllerDeployment,
	}, s.writes(t, mark))
	for name, uid := range s.pods(t) {
		if pods[name] == uid {
			t.Errorf("pod %s still has the old image", name)
		}
	}
}

// leavesTheDriver uninstalls the operator. Of what OLM has made, nothing is left but what users have; all else is as it was.
func (s *scene) leavesTheDriver(t *testing.T, csv fakeolm.CSV) {
	t.Helper()
	pods, kept := s.pods(t), s.operands(t)
	s.uninstall(t, csv.Name)
	if s.olm.Operator() != nil {
		t.Error("the operator still runs")
	}
	env.Eventually(t, "the operator gone", func() error { return s.operatorGone(t.Context(), csv) })
	equal(t, "pods of the driver", pods, s.pods(t))
	equal(t, "objects of the driver", kept, s.operands(t))
	_, err := s.CRDUID(t.Context())
	env.Must(t, err)
	env.Must(t, s.Settled(t.Context()))
}

// operands are the UIDs of the driver's objects, of the CRD and of the data of users.
func (s *scene) operands(t *testing.T) map[string]string {
	t.Helper()
	owned, err := s.Owned(t.Context())
	env.Must(t, err)
	found := map[string]string{}
	for i := range owned {
		found[owned[i].GetKind()+" "+owned[i].GetNamespace()+"/"+owned[i].GetName()] = string(owned[i].GetUID())
	}
	all, err := s.Take(t.Context())
	env.Must(t, err)
	data := map[string]bool{}
	for name, uid := range all {
		for _, kind := range dataKinds() {
			if len(name) > len(kind) && name[:len(kind)+1] == kind+" " {
				found[name], data[kind] = uid, true
			}
		}
	}
	if len(owned) < 20 || len(data) < len(dataKinds()) {
		t.Fatalf("%d objects of the driver, and of users %v: this shows nothing", len(owned), data)
	}
	return found
}

// dataKinds are the kinds that users have, and that no operator may remove.
func dataKinds() []string {
	return []string{
		"CustomResourceDefinition.apiextensions.k8s.io", "ClusterCSIDriver.operator.openshift.io", "SharedVolume.aws-efs.managed.openshift.io",
		"PersistentVolume", "PersistentVolumeClaim",
	}
}

// operatorGone checks that nothing of the operator's own is left: what the ClusterServiceVersion has made, and the manifests.
func (s *scene) operatorGone(ctx context.Context, csv fakeolm.CSV) error {
	objects, err := csv.Objects(s.namespace, nil)
	if err != nil {
		return err
	}
	var left error
	for _, object := range objects {
		if object.GetName() == "aws-efs-csi-driver-operator-prometheus" {
			// OLM leaves it, and the guide deletes it.
			continue
		}
		if object.GetNamespace() != "" || object.GetLabels()["olm.owner"] != "" {
			left = errors.Join(left, s.Gone(ctx, object))
		}
	}
	left = errors.Join(left, s.nothingOf(ctx, csv))
	pods := &corev1.PodList{}
	left = errors.Join(left, s.Client.List(ctx, pods, client.InNamespace(s.namespace), client.MatchingLabels{"name": env.CommunityName}))
	if s.olm.Operator() == nil {
		left = errors.Join(left, s.Client.List(ctx, pods, client.InNamespace(s.namespace), client.MatchingLabels{"app": env.OperatorName}))
	}
	if len(pods.Items) > 0 {
		left = errors.Join(left, fmt.Errorf("pod %s is left", pods.Items[0].Name))
	}
	return left
}

// nothingOf checks that nothing says that it goes with a ClusterServiceVersion.
func (s *scene) nothingOf(ctx context.Context, csv fakeolm.CSV) error {
	var left error
	for _, list := range []client.ObjectList{
		&corev1.ServiceAccountList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&appsv1.DeploymentList{},
	} {
		left = errors.Join(left, s.Client.List(ctx, list, client.MatchingLabels{"olm.owner": csv.Name}))
		if count := meta.LenList(list); count > 0 {
			left = errors.Join(left, fmt.Errorf("%s has left %d in %T", csv.Name, count, list))
		}
	}
	return left
}

// removesTheDriver deletes the ClusterCSIDriver, after the application has ended. The data stays.
func (s *scene) removesTheDriver(t *testing.T, app *corev1.Pod) {
	t.Helper()
	env.Must(t, s.Client.Delete(t.Context(), app))
	env.Eventually(t, "the application gone", func() error { return s.Gone(t.Context(), app.DeepCopy()) })
	env.Must(t, s.Uninstall(t.Context()))
	owned, err := s.Owned(t.Context())
	env.Must(t, err)
	for i := range owned {
		t.Errorf("%s %s/%s is left", owned[i].GetKind(), owned[i].GetNamespace(), owned[i].GetName())
	}
	pvcs := &corev1.PersistentVolumeClaimList{}
	env.Must(t, s.Client.List(t.Context(), pvcs, client.InNamespace("shop")))
	if len(pvcs.Items) != 1 || pvcs.Items[0].Status.Phase != corev1.ClaimBound {
		t.Errorf("PVCs %v", pvcs.Items)
	}
}
