package drivers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/vsphere"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakevsphere"
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
func inVSphere(t *testing.T, vcenters int) *inVCenters {
	t.Helper()
	s := &inVCenters{rollouts: rollouts{scene: scene{
		cluster: vSpheres.Lend(t), driver: vsphere.Driver(), classes: map[string]string{"thin-csi": "true"},
	}}}
	var err error
	s.vcenters, err = s.cluster.PutVSphere(t.Context(), vcenters)
	env.Must(t, err)
	t.Cleanup(func() { fakevsphere.CloseAll(s.vcenters) })
	s.id, err = s.cluster.VSphereID(t.Context())
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
	s.scene.clear(t)
	for _, object := range []client.Object{s.credentials(nil), s.driver.Derived.Secret(s.namespace())} {
		env.Must(t, client.IgnoreNotFound(s.cluster.Client.Delete(context.Background(), object)))
	}
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

// allowed checks that no request to the API server or to a vCenter was refused.
func (s *inVCenters) allowed(t *testing.T) {
	t.Helper()
	env.Must(t, s.cluster.Audit.NoRefusals(s.mark, s.user()))
}

func (s *inVCenters) user() string { return env.DriverOperatorUser(s.driver.Operator) }

func TestVSphereIsInstalledAndRemovedByState(t *testing.T) {
	s := inVSphere(t, 1)
	center := s.vcenters[0]
	s.start(t)
	env.Must(t, s.cluster.Client.Create(t.Context(), env.CR(s.driver.Name, operatorv1.Managed)))
	s.settle(t)
	env.Eventually(t, "the class", func() error {
		return s.cluster.Client.Get(t.Context(), client.ObjectKey{Name: "thin-csi"}, s.class(t, "thin-csi"))
	})
	s.hasPolicy(t, center, "ds1")
	s.allowed(t)
	_ = errors.Join
	_ = fmt.Sprint
	_ = strings.Contains
	_ = driver.Controller
}
