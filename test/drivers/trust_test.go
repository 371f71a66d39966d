package drivers

import (
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
	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/test/env"
)

// trust is the EBS driver in a cluster whose cloud may have a CA of its own.
type trust struct{ rollouts }

func TestEBSFollowsTheCAOfItsCloud(t *testing.T) {
	d := awsebs.Driver()
	s := &trust{rollouts{scene: scene{cluster: pool.Lend(t), driver: d, classes: map[string]string{"gp3-csi": "", "gp2-csi": ""}}}}
	t.Cleanup(func() { s.quit(t) })
	env.Must(t, client.IgnoreAlreadyExists(s.cluster.Client.Create(t.Context(), s.secret())))
	mark, err := s.cluster.Audit.Now()
	env.Must(t, err)
	s.start(t)
	env.Must(t, s.cluster.Client.Create(t.Context(), env.CR(d.Name, operatorv1.Managed)))
	s.settle(t)
	s.has(t, "")
	s.look(t)
	one := string(s.cluster.Config.CAData)

	s.put(t, map[string]string{"cloud.conf": "[Global]"})
	s.stays(t, "")
	s.put(t, map[string]string{driver.CloudCAKey: "not a certificate"})
	s.hasProblem(t, "the driver runs without")
	s.stays(t, "")

	s.put(t, map[string]string{driver.CloudCAKey: one})
	s.rollsOut(t, one)
	s.put(t, map[string]string{driver.CloudCAKey: one + one})
	s.rollsOut(t, one+one)
	s.put(t, map[string]string{driver.CloudCAKey: one + one, "cloud.conf": "[Global]"})
	s.stays(t, one+one)
	s.put(t, map[string]string{driver.CloudCAKey: "not a certificate"})
	s.hasProblem(t, "the driver keeps its previous certificates")
	s.stays(t, one+one)

	env.Must(t, s.cluster.Client.Delete(t.Context(), s.cloudConfig()))
	s.rollsOut(t, "")

	// The operator's role names the one ConfigMap.
	requests, err := s.cluster.Audit.Since(mark, "system:serviceaccount:"+env.OperatorNamespace+":"+d.Operator)
	env.Must(t, err)
	requests = env.Filter(requests, func(r env.Request) bool { return r.Object.Namespace == driver.ManagedNamespace })
	others := env.Filter(requests, func(r env.Request) bool { return r.IsWrite() || r.Object.Name != s.cloudConfig().Name })
	if len(requests) == 0 || len(others) > 0 {
		t.Errorf("%d requests in namespace %s, of which these are too many:\n%s", len(requests), driver.ManagedNamespace, env.Describe(others))
	}
}

func (s *trust) cloudConfig() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: driver.ManagedNamespace, Name: "kube-cloud-config"}}
}

// put makes the cluster's ConfigMap one with these keys.
func (s *trust) put(t *testing.T, data map[string]string) {
	t.Helper()
	config := s.cloudConfig()
	config.Data = data
	s.rollouts.put(t, config)
}

// has checks what the controller is given: the certificates in a file that a variable names, or nothing.
func (s *trust) has(t *testing.T, bundle string) {
	t.Helper()
	env.Must(t, s.given(t, bundle))
}

func (s *trust) given(t *testing.T, bundle string) error {
	t.Helper()
	copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: s.driver.CloudCABundle()}}
	deployment := s.deployment()
	s.get(t, deployment)
	pod := deployment.Spec.Template.Spec
	at := slices.IndexFunc(pod.Containers, func(container corev1.Container) bool { return container.Name == driver.Container })
	isFile := func(variable corev1.EnvVar) bool { return variable.Name == "AWS_CA_BUNDLE" }
	isMount := func(mount corev1.VolumeMount) bool { return mount.Name == "cloud-ca-bundle" }
	file := slices.IndexFunc(pod.Containers[at].Env, isFile)
	mount := slices.IndexFunc(pod.Containers[at].VolumeMounts, isMount)
	if bundle == "" {
		if file >= 0 || mount >= 0 {
			return errors.New("the driver still has the variable or the mount")
		}
		return s.cluster.Gone(t.Context(), copied)
	}
	if file < 0 || mount < 0 {
		return errors.New("the driver has no variable or no mount")
	}
	mounted := pod.Containers[at].VolumeMounts[mount]
	if got, want := pod.Containers[at].Env[file].Value, mounted.MountPath+"/"+driver.CloudCAKey; got != want || !mounted.ReadOnly {
		return fmt.Errorf("the variable is %q, and the mount %+v", got, mounted)
	}
	if err := s.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(copied), copied); err != nil {
		return err
	}
	if diff := cmp.Diff(map[string]string{driver.CloudCAKey: bundle}, copied.Data); diff != "" {
		return fmt.Errorf("the driver's ConfigMap (-want +got):\n%s", diff)
	}
	return nil
}

// rollsOut waits until the controller has other certificates. The node pods need none.
func (s *trust) rollsOut(t *testing.T, bundle string) {
	t.Helper()
	env.Eventually(t, "the controller with other certificates", func() error {
		if err := s.given(t, bundle); err != nil {
			return err
		}
		deployment := s.deployment()
		s.get(t, deployment)
		if deployment.Status.ObservedGeneration != deployment.Generation {
			return errors.New("the Deployment controller has not seen it")
		}
		return nil
	})
	s.settle(t)
	s.rolled(t, 1, 0)
	s.has(t, bundle)
	s.noProblem(t)
}

// stays checks that nothing is rolled out.
func (s *trust) stays(t *testing.T, bundle string) {
	t.Helper()
	s.rolled(t, 0, 0)
	s.has(t, bundle)
}

// hasProblem waits for the sentence that the certificates can't be followed.
func (s *trust) hasProblem(t *testing.T, text string) {
	t.Helper()
	env.Eventually(t, "the wrong certificates are reported", func() error {
		message := s.message(t, "ConfigObservationDegraded")
		for _, part := range []string{driver.CloudCAKey, driver.ManagedNamespace + "/kube-cloud-config", "spec.cloudConfig", text} {
			if !strings.Contains(message, part) {
				return fmt.Errorf("it says %q, without %q", message, part)
			}
		}
		return s.cluster.ConditionOf(t.Context(), s.driver.Name, "Available", operatorv1.ConditionTrue)
	})
}
