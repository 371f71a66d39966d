package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// community makes a cluster in which OLM has installed the community's operator, and a pod uses a SharedVolume of it.
func community(t *testing.T) (*scene, fakeolm.CSV, *corev1.Pod) {
	t.Helper()
	s := open(t, communityNamespace)
	old, err := fakeolm.CommunityCSV(s.Cluster, s.namespace)
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root(t), olm.StoredFile))
	env.Must(t, err)
	old.CRDs = append(old.CRDs, parse(t, text))
	env.Must(t, s.olm.Install(t.Context(), old, s.namespace))
	crd, err := s.CRDUID(t.Context())
	env.Must(t, err)
	env.Must(t, s.Put(t.Context(), env.CommunityName, predecessors.Community(s.namespace, crd)...))
	env.Must(t, s.Namespace(t.Context(), "shop"))
	_, err = s.PutCommunityVolume(t.Context(), "shop", "data", false)
	env.Must(t, err)
	workers := &corev1.NodeList{}
	env.Must(t, s.Client.List(t.Context(), workers, client.HasLabels{"node-role.kubernetes.io/worker"}))
	env.Eventually(t, "the community's driver and operator run", func() error {
		return errors.Join(s.oldPodsOn(t.Context(), names(workers)...), s.oldOperatorRuns(t.Context()))
	})
	return s, old, s.application(t, "pvc-data", workers.Items[0].Name)
}

func names(nodes *corev1.NodeList) []string {
	var found []string
	for i := range nodes.Items {
		found = append(found, nodes.Items[i].Name)
	}
	return found
}

// oldOperatorRuns checks that the pod of the community's operator is there.
func (s *scene) oldOperatorRuns(ctx context.Context) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: env.CommunityName}}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
		return err
	}
	if deployment.Status.AvailableReplicas == 0 {
		return errors.New("the community's operator has no pod yet")
	}
	return nil
}

// oldPodsOn checks that the community's node pods are ready on these nodes, and on no others.
func (s *scene) oldPodsOn(ctx context.Context, nodes ...string) error {
	pods := &corev1.PodList{}
	if err := s.Client.List(ctx, pods, client.InNamespace(s.namespace), client.MatchingLabels{"app": nodeDaemonSet}); err != nil {
		return err
	}
	var found []string
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.ServiceAccountName == predecessors.CommunityAccount && pod.Status.Phase == corev1.PodRunning {
			found = append(found, pod.Spec.NodeName)
		}
	}
	slices.Sort(found)
	slices.Sort(nodes)
	if !slices.Equal(found, nodes) {
		return fmt.Errorf("the community's pods run on %v, want %v", found, nodes)
	}
	return nil
}

// keptIdentities are the UIDs of what a migration changes in place, and of the data of users.
func (s *scene) keptIdentities(t *testing.T) map[string]string {
	t.Helper()
	all, err := s.Take(t.Context())
	env.Must(t, err)
	found := map[string]string{}
	for name, uid := range all {
		if kind, _, _ := strings.Cut(name, " "); slices.Contains(dataKinds(), kind) && !strings.HasPrefix(kind, "ClusterCSIDriver") {
			found[name] = uid
		}
	}
	// A snapshot leaves out what belongs to a CRD, as these do before they are taken over.
	for _, object := range []client.Object{
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: nodeDaemonSet}},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}}, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}},
	} {
		env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		found[fmt.Sprintf("%T %s", object, object.GetName())] = string(object.GetUID())
	}
	delete(found, "StorageClass.storage.k8s.io /efs-sc")
	if len(found) < 7 {
		t.Fatalf("these are kept: %v; this shows nothing", found)
	}
	return found
}

// takesOver creates the ClusterCSIDriver and follows the migration: free nodes first, that of the application when the administrator
// accepts it.
func (s *scene) takesOver(t *testing.T, csv fakeolm.CSV, app *corev1.Pod) {
	t.Helper()
	kept := s.keptIdentities(t)
	s.ask(t, csv)
	env.Eventually(t, "free nodes taken over", func() error { return s.oldPodsOn(t.Context(), app.Spec.NodeName) })
	s.survives(t, app)
	_, err := s.Kubectl(t.Context(), "annotate", "clustercsidriver", driverName, "operator.openshift.io/accept-remount=true")
	env.Must(t, err)
	env.Eventually(t, "the driver taken over", func() error { return errors.Join(s.oldPodsOn(t.Context()), s.at(t.Context(), csv)) })
	_, daemonSet, err := s.workloads(t.Context())
	env.Must(t, err)
	if daemonSet.Status.NumberReady != nodes {
		t.Errorf("%d node pods are ready", daemonSet.Status.NumberReady)
	}
	sv := env.SharedVolume("shop", "data")
	env.Eventually(t, "the SharedVolume looked after", func() error { return s.Ready(t.Context(), sv) })
	s.survives(t, app)
	equal(t, "identities of what is taken over", kept, s.keptIdentities(t))
	env.Eventually(t, "the pull Secret of the old ServiceAccount gone", func() error {
		secrets := &corev1.SecretList{}
		err := s.Client.List(t.Context(), secrets, client.InNamespace(s.namespace))
		for i := range secrets.Items {
			if strings.HasPrefix(secrets.Items[i].Name, predecessors.CommunityAccount+"-dockercfg-") {
				err = errors.Join(err, errors.New(secrets.Items[i].Name+" is left"))
			}
		}
		return err
	})
}

// Users change the source of their Subscription to our catalog, and later its package: each time they get an upgrade in place.
func TestASubscriptionToTheCommunityPackageReachesOurOperator(t *testing.T) {
	s, old, app := community(t)
	crossing := read(t, committed(t, bridge()))
	newer, now := released(t)
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"the source of the Subscription is changed", func(t *testing.T) {
			resolves(t, old, bridge(), crossing)
			pods := s.pods(t)
			env.Must(t, s.olm.Upgrade(t.Context(), old.Name, crossing))
			env.Eventually(t, "the community's operator gone", func() error { return s.operatorGone(t.Context(), old) })
			env.Eventually(t, "our operator runs", s.olm.Operator().Started)
			env.Quiet(t, s.olm.Operator())
			// It does nothing with the driver before it is asked to.
			equal(t, "pods of the driver", pods, s.pods(t))
		}},
		{"the ClusterCSIDriver is created", func(t *testing.T) {
			s.takesOver(t, crossing, app)
			s.hasImagesOf(t, newer)
		}},
		{"the package of the Subscription is changed", func(t *testing.T) {
			resolves(t, crossing, own(), now)
			kept, pods, mark := s.identities(t), s.pods(t), s.mark(t)
			env.Must(t, s.olm.Upgrade(t.Context(), crossing.Name, now))
			env.Eventually(t, "the driver of the own package", func() error { return s.at(t.Context(), now) })
			env.Quiet(t, s.olm.Operator())
			s.same(t, kept)
			equal(t, "pods of the driver", pods, s.pods(t))
			// The bundle's ServiceMonitor is for another namespace.
			equal(t, "writes", []string{"patch servicemonitors " + env.OperatorName}, s.writes(t, mark))
			s.survives(t, app)
		}},
		{"the ClusterCSIDriver is deleted", func(t *testing.T) { s.removesTheDriver(t, app) }},
	} {
		if !t.Run(step.name, step.do) {
			return
		}
	}
}

// Who can't follow that path uninstalls the community's operator first. Until then OLM refuses ours.
func TestTheCommunityOperatorCanBeUninstalledFirst(t *testing.T) {
	env.OnlySoak(t)
	s, old, app := community(t)
	_, now := released(t)
	for namespace, want := range map[string]string{env.OperatorNamespace: "InterOperatorGroupOwnerConflict", s.namespace: "OwnerConflict"} {
		before, err := s.Take(t.Context())
		env.Must(t, err)
		if err := s.olm.Install(t.Context(), now, namespace); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("installed beside %s in namespace %s: %v, want %s", old.Name, namespace, err, want)
		}
		after, err := s.Take(t.Context())
		env.Must(t, err)
		env.Must(t, before.Differs(after))
	}
	kept, pods := s.keptIdentities(t), s.pods(t)
	s.uninstall(t, old.Name)
	env.Eventually(t, "the community's operator gone", func() error { return s.operatorGone(t.Context(), old) })
	equal(t, "identities", kept, s.keptIdentities(t))
	equal(t, "pods of the driver", pods, s.pods(t))
	env.Must(t, s.olm.Install(t.Context(), now, s.namespace))
	s.takesOver(t, now, app)
}
