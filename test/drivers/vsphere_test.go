package drivers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/vsphere"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakevsphere"
	"github.com/csi-operators/csi-operators/test/env/vcenters"
)

// inVCenters is a driver whose operator asks vCenters. The pods of a devcluster are fake, so that its API server asks no webhook: the one of the
// driver would refuse every StorageClass of the driver for as long as it does not answer.
type inVCenters struct {
	rollouts
	vcenters []*fakevsphere.VCenter
	// id is the name of the cluster in the vCenters.
	id   string
	mark env.Mark
}

// inVSphere is the driver in a cluster with vCenters.
func inVSphere(t *testing.T, count int) *inVCenters {
	t.Helper()
	s := &inVCenters{rollouts: rollouts{scene: scene{
		cluster: pool.Lend(t), driver: vsphere.Driver(), classes: map[string]string{"thin-csi": "true"},
	}}}
	var err error
	s.vcenters, err = vcenters.Put(t.Context(), s.cluster, count)
	env.Must(t, err)
	t.Cleanup(func() { fakevsphere.CloseAll(s.vcenters) })
	s.id, err = vcenters.ClusterID(t.Context(), s.cluster)
	env.Must(t, err)
	s.mark, err = s.cluster.Audit.Now()
	env.Must(t, err)
	t.Cleanup(func() { s.finish(t) })
	s.login(t, "")
	return s
}

// login writes the credentials as the cloud-credential-operator does. A note changes nothing but the hash of the Secret: the vCenters are asked at
// once.
func (s *inVCenters) login(t *testing.T, note string) {
	t.Helper()
	data := fakevsphere.SecretData(s.vcenters...)
	if note != "" {
		data["note"] = []byte(note)
	}
	s.put(t, s.credentials(data))
}

func (s *inVCenters) credentials(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: s.driver.Credentials[0].Secret}, Data: data}
}

func (s *inVCenters) finish(t *testing.T) {
	s.quit(t)
	// The pool makes it again. It could not change it back: an Infrastructure that had vCenters keeps some.
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	env.Must(t, client.IgnoreNotFound(s.cluster.Client.Delete(context.Background(), infrastructure)))
}

// hasPolicy checks that a vCenter has one category, one tag on these datastores, and one policy, each once.
func (s *inVCenters) hasPolicy(t *testing.T, in *fakevsphere.VCenter, datastores ...string) {
	t.Helper()
	category := "openshift-" + s.id
	want := []string{"category " + category, "policy openshift-storage-policy-" + s.id, "tag " + category + "/" + s.id}
	for _, name := range datastores {
		want = append(want, "tag "+category+"/"+s.id+" on /dc1/datastore/"+name)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, in.Left(s.id)); diff != "" {
		t.Errorf("vCenter %s (-want +got):\n%s", in.Server, diff)
	}
}

// wasAllowed checks that no request to the API server was refused.
func (s *inVCenters) wasAllowed(t *testing.T) {
	t.Helper()
	env.Must(t, s.cluster.Audit.NoRefusals(s.mark, s.user()))
}

func (s *inVCenters) user() string { return env.DriverOperatorUser(s.driver.Operator) }

// isFine checks that the checks have found nothing.
func (s *inVCenters) isFine(t *testing.T) error {
	t.Helper()
	kinds := map[string]operatorv1.ConditionStatus{
		"ControllerUpgradeable": operatorv1.ConditionTrue, "OperatorCheckDegraded": operatorv1.ConditionFalse, "OperatorCheckWarning": operatorv1.ConditionFalse,
	}
	var all []error
	for kind, want := range kinds {
		all = append(all, s.cluster.ConditionOf(t.Context(), s.driver.Name, s.driver.ConditionPrefix+kind, want))
	}
	return errors.Join(all...)
}

// hasClass checks that the class names the policy.
func (s *inVCenters) hasClass(t *testing.T) error {
	t.Helper()
	class := &storagev1.StorageClass{}
	if err := s.cluster.Client.Get(t.Context(), client.ObjectKey{Name: "thin-csi"}, class); err != nil {
		return err
	}
	if diff := cmp.Diff(map[string]string{"StoragePolicyName": "openshift-storage-policy-" + s.id}, class.Parameters); diff != "" {
		return fmt.Errorf("parameters (-want +got):\n%s", diff)
	}
	return nil
}

func (s *inVCenters) state(t *testing.T, state operatorv1.ManagementState) {
	t.Helper()
	s.change(t, func(spec *operatorv1.ClusterCSIDriverSpec) { spec.ManagementState = state })
}

// annotate makes the operator look at once at what it does not watch.
func (s *inVCenters) annotate(t *testing.T, value string) {
	t.Helper()
	_, err := s.cluster.Kubectl(t.Context(), "annotate", "clustercsidriver", s.driver.Name, "example.com/note="+value, "--overwrite")
	env.Must(t, err)
}

// isThere waits until the driver is there with all that belongs to it.
func (s *inVCenters) isThere(t *testing.T, datastores ...string) {
	t.Helper()
	s.settle(t)
	env.Eventually(t, "the class", func() error { return s.hasClass(t) })
	env.Eventually(t, "no findings", func() error { return s.isFine(t) })
	for _, one := range s.vcenters {
		s.hasPolicy(t, one, datastores...)
	}
	s.get(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: s.driver.Deployments[0]}})
	s.get(t, s.webhook())
}

func (s *inVCenters) webhook() *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: s.driver.Webhook}}
}

// leavesTheServiceCA fills in the CA of the webhook as OpenShift's service CA does, and then changes what is ours.
func (s *inVCenters) leavesTheServiceCA(t *testing.T) {
	webhook, ignore := s.webhook(), admissionv1.Ignore
	s.get(t, webhook)
	webhook.Webhooks[0].ClientConfig.CABundle = s.vcenters[0].CA
	webhook.Webhooks[0].FailurePolicy = &ignore
	env.Must(t, s.cluster.Client.Update(t.Context(), webhook, client.FieldOwner("service-ca-operator")))
	env.Eventually(t, "the webhook is as it should be", func() error {
		if s.get(t, webhook); *webhook.Webhooks[0].FailurePolicy != admissionv1.Fail {
			return errors.New("it does not fail closed")
		}
		return nil
	})
	env.Quiet(t, s.operator)
	if s.get(t, webhook); !bytes.Equal(webhook.Webhooks[0].ClientConfig.CABundle, s.vcenters[0].CA) {
		t.Errorf("the CA of the webhook is %q", webhook.Webhooks[0].ClientConfig.CABundle)
	}
}

// isGone waits until nothing is left of the driver, in the cluster and in the vCenters.
func (s *inVCenters) isGone(t *testing.T) {
	t.Helper()
	gone := s.cluster.AllGone(t.Context(), s.all(t))
	env.Eventually(t, "the driver is removed", func() error {
		if err := s.leftNothing(); err != nil {
			return err
		}
		message := s.message(t, "VMwareVSphereDriverDisabled")
		if !strings.Contains(message, "Managed") || strings.Contains(message, "Left in the cloud") {
			return fmt.Errorf("the status says %q", message)
		}
		if err := s.cluster.ConditionOf(t.Context(), s.driver.Name, "VMwareVSphereDriverDisabled", operatorv1.ConditionTrue); err != nil {
			return err
		}
		return gone()
	})
	if finalizers := s.cr(t).Finalizers; len(finalizers) > 0 {
		t.Errorf("finalizers %v", finalizers)
	}
}

// OpenShift's driver is migrated, and goes through all that happens to a driver in vSphere. What is wrong there is reported, takes nothing away, and is
// forgotten when it is mended. At last, the driver is removed, and installed where nothing is left of it.
func TestVSphereIsMigratedHealsAndIsRemovedByState(t *testing.T) {
	s := inVSphere(t, 1)
	var uids map[string]string
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"OpenShift's driver is migrated, and the class has a policy", s.isMigrated},
		{"the CA of the webhook is the service CA's", s.leavesTheServiceCA},
		{"between polls nobody is asked for anything", s.isIdle},
		{"an operator that is started anew writes nothing", s.writesNowhere},
		{"all that it has stays in the following", func(t *testing.T) { uids = s.uids(t) }},
		{"a host that is too old", s.hasAnOldHost},
		{"a password that is wrong", s.hasAWrongPassword},
		{"a certificate of somebody unknown", s.isNotTrusted},
		{"a vCenter that is away when the operator starts", s.isAway},
		{"another failure domain", s.getsADomain},
		{"nothing has gone", func(t *testing.T) { s.sameAs(t, uids) }},
		{"no password is anywhere but in Secrets", s.keepsThePassword},
		{"Removed waits for PersistentVolumes, and then removes everything", s.isRemoved},
		{"a driver of somebody else is left alone, and waited for", s.waitsForTheOtherDriver},
		{"nothing was refused", s.wasAllowed},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

// isIdle looks at a moment in which nothing happens. A poll of the vCenters that begins in it is none of the API server.
func (s *inVCenters) isIdle(t *testing.T) {
	env.Quiet(t, s.operator)
	mark, err := s.cluster.Audit.Now()
	env.Must(t, err)
	s.vcenters[0].Reset()
	env.Quiet(t, s.operator)
	requests, err := s.cluster.Audit.Since(mark, s.user())
	env.Must(t, err)
	requests = env.Filter(requests, func(r env.Request) bool { return r.Verb != "watch" })
	writes, polls := s.vcenters[0].Writes(), s.vcenters[0].Count("ContinueRetrievePropertiesEx")
	if logins, _ := s.vcenters[0].Logins(); len(requests) > 0 || len(writes) > 0 || logins > 0 || polls > 1 {
		t.Errorf("%d logins, %v in the vCenter, and in the cluster:\n%s", logins, s.vcenters[0].Counts(), env.Describe(requests))
	}
}

func (s *inVCenters) writesNowhere(t *testing.T) {
	s.vcenters[0].Reset()
	writesNothing(t, &s.scene)
	env.Eventually(t, "a poll", func() error {
		if s.vcenters[0].Count("") == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	s.isThere(t, "ds1")
	if writes := s.vcenters[0].Writes(); len(writes) > 0 {
		t.Errorf("written in the vCenter: %v", writes)
	}
}

func (s *inVCenters) isRemoved(t *testing.T) {
	env.Must(t, s.cluster.Namespace(t.Context(), "shop"))
	env.Must(t, s.cluster.PutVolume(t.Context(), s.driver.Name, "shop", "data"))
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "shop-data"}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}}
	before := s.uids(t)
	s.state(t, operatorv1.Removed)
	env.Eventually(t, "the PersistentVolume is named", func() error {
		if message := s.message(t, "Progressing"); !strings.Contains(message, volume.Name) {
			return fmt.Errorf("Progressing says: %s", message)
		}
		return nil
	})
	env.Quiet(t, s.operator)
	s.sameAs(t, before)
	s.hasPolicy(t, s.vcenters[0], "ds1", "ds2")
	env.Must(t, errors.Join(s.cluster.Client.Delete(t.Context(), claim), s.cluster.Client.Delete(t.Context(), volume)))
	env.Eventually(t, "no PersistentVolume", func() error { return s.cluster.Gone(t.Context(), volume) })
	s.annotate(t, "no volume")
	s.isGone(t)
	s.unregister(t)
}

// unregister waits until no node has the driver registered.
func (s *inVCenters) unregister(t *testing.T) {
	t.Helper()
	env.Must(t, env.Await(context.Background(), "the driver registered nowhere", func() error {
		return s.cluster.Unregister(context.Background(), s.driver.Name)
	}))
}

func (s *inVCenters) waitsForTheOtherDriver(t *testing.T) {
	theirs := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: s.driver.Name, Labels: map[string]string{"vendor": "other"}}}
	env.Must(t, s.cluster.Client.Create(t.Context(), theirs))
	s.state(t, operatorv1.Managed)
	env.Eventually(t, "the other driver is named", func() error {
		if message := s.message(t, "VMwareVSphereDriverDisabled"); !strings.Contains(message, "CSIDriver "+s.driver.Name) {
			return fmt.Errorf("the status says %q", message)
		}
		return s.cluster.ConditionOf(t.Context(), s.driver.Name, "VMwareVSphereDriverDisabled", operatorv1.ConditionTrue)
	})
	env.Quiet(t, s.operator)
	env.Must(t, errors.Join(s.cluster.Gone(t.Context(), s.deployment()), s.cluster.Gone(t.Context(), s.daemonSet())))
	live := theirs.DeepCopy()
	s.get(t, live)
	if diff := cmp.Diff(theirs, live); diff != "" {
		t.Errorf("the driver of somebody else (-before +after):\n%s", diff)
	}
	if left := s.vcenters[0].Left(s.id); len(left) > 0 {
		t.Errorf("the vCenter has %v", left)
	}
	env.Must(t, s.cluster.Client.Delete(t.Context(), theirs))
	s.isThere(t, "ds1", "ds2")
}
