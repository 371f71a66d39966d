package drivers

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/azuredisk"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
	"github.com/csi-operators/csi-operators/test/env"
)

// publicCloud is what the installer writes on Azure.
const publicCloud = `{"cloud": "AzurePublicCloud", "aadClientId": "", "useManagedIdentityExtension": true, "location": "westeurope"}`

// cloudConfig is where it is.
func cloudConfig() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "cloud-provider-config"},
		Data:       map[string]string{"config": publicCloud},
	}
}

// password is that of the driver's identity. It must be nowhere but in the two Secrets.
const password = "p4ssw0rd-of-the-driver"

// derived is a driver whose pods mount a Secret that the operator makes.
type derived struct{ rollouts }

// Azure Disk and Azure File make their Secrets in the same way, which internal/driver/azure shows.
func TestAzureDiskFollowsTheConfigurationOfItsCloud(t *testing.T) {
	env.OnlySoak(t)
	s := &derived{rollouts{scene: scene{cluster: pool.Lend(t), driver: azuredisk.Driver(), classes: map[string]string{"managed-csi": "true"}}}}
	s.follows(t)
}

func (s *derived) follows(t *testing.T) {
	t.Cleanup(func() { s.quit(t) })
	user := "system:serviceaccount:" + env.OperatorNamespace + ":" + s.driver.Operator
	mark, err := s.cluster.Audit.Now()
	env.Must(t, err)
	s.start(t)
	env.Must(t, s.cluster.Client.Create(t.Context(), env.CR(s.driver.Name, operatorv1.Managed)))
	s.waits(t, "ConfigMap openshift-config/cloud-provider-config, which configures the driver for the cloud, is missing", func() { s.login(t, "azure_client_secret", password) })
	s.waits(t, "waiting for Secret "+s.namespace()+"/"+s.secret().Name, func() {
		env.Must(t, s.cluster.Client.Delete(t.Context(), s.secret()))
		s.put(t, publicCloud)
	})
	s.login(t, "azure_client_secret", password)
	s.settle(t)
	s.look(t)
	s.has(t, map[string]any{
		"cloud": "AzurePublicCloud", "location": "westeurope", "aadClientId": "application", "aadClientSecret": password,
		"useManagedIdentityExtension": false, "useFederatedWorkloadIdentityExtension": false,
	})
	requests, err := s.cluster.Audit.Since(mark, user)
	env.Must(t, err)
	requests = env.Filter(requests, func(r env.Request) bool { return r.Verb != "watch" && r.Object.Resource != "leases" })
	writes := env.Filter(requests, func(r env.Request) bool { return r.IsWrite() })
	// Each object is written once. What is missing at first is reported, with an event. What OpenShift's operator may have left is looked for.
	objects, obsolete := len(variants.Render(t, s.driver, nil)), s.driver.Obsolete
	left := len(obsolete.ClusterRoleBindings) + len(obsolete.ClusterRoles) + len(obsolete.ConfigMaps)
	t.Logf("%d requests, %d of them writes, for %d objects", len(requests), len(writes), objects)
	if len(writes) > objects+8 || len(requests) > len(writes)+13+left {
		t.Errorf("too many:\n%s", env.Describe(requests))
	}

	s.followsItsInputs(t)
	s.keepsTheLastGoodOne(t)
	s.isKept(t)

	env.Must(t, s.cluster.Audit.NoRefusals(mark, user))
	s.staysSecret(t)
}

// waits checks that the driver is not started because something is missing, and goes on.
func (s *derived) waits(t *testing.T, text string, change func()) {
	t.Helper()
	change()
	env.Eventually(t, text, func() error {
		if all := s.message(t, "Available") + s.message(t, "Degraded") + s.message(t, "Progressing"); !strings.Contains(all, text) {
			return fmt.Errorf("it says: %s", all)
		}
		return errors.Join(s.cluster.Gone(t.Context(), s.deployment()), s.cluster.Gone(t.Context(), s.daemonSet()), s.cluster.Gone(t.Context(), s.made()))
	})
}

// followsItsInputs changes each of them.
func (s *derived) followsItsInputs(t *testing.T) {
	t.Helper()
	s.put(t, strings.Replace(publicCloud, "westeurope", "eastus", 1))
	s.rollsOut(t)
	s.login(t, "azure_client_secret", password+"-new")
	s.rollsOut(t)
	s.login(t, "azure_client_secret", "", "azure_tenant_id", "tenant", "azure_federated_token_file", "/var/run/secrets/openshift/serviceaccount/token")
	s.rollsOut(t)
	s.has(t, map[string]any{
		"cloud": "AzurePublicCloud", "location": "eastus", "aadClientId": "application", "tenantId": "tenant",
		"aadFederatedTokenFile":       "/var/run/secrets/openshift/serviceaccount/token",
		"useManagedIdentityExtension": false, "useFederatedWorkloadIdentityExtension": true,
	})
	// What does not count changes nothing.
	s.put(t, strings.Replace(publicCloud, "westeurope", "eastus", 1)+"\n")
	s.stays(t, "")
}

// keepsTheLastGoodOne makes the inputs wrong, one after the other.
func (s *derived) keepsTheLastGoodOne(t *testing.T) {
	t.Helper()
	s.login(t, "azure_client_secret", password, "azure_federated_token_file", "/token")
	s.stays(t, "both azure_client_secret and azure_federated_token_file")
	s.login(t, "azure_client_secret", " ")
	s.stays(t, "neither azure_client_secret nor azure_federated_token_file")
	s.login(t, "azure_client_secret", "", "azure_tenant_id", "tenant", "azure_federated_token_file", "/var/run/secrets/openshift/serviceaccount/token")
	s.put(t, `{"cloud": "AzurePublicCloud", "aadClientSecret": "`+password+`",}`)
	s.stays(t, "key config of ConfigMap openshift-config/cloud-provider-config is not a JSON object")
	env.Must(t, s.cluster.Client.Delete(t.Context(), cloudConfig()))
	s.stays(t, "ConfigMap openshift-config/cloud-provider-config, which configures the driver for the cloud, is missing")
	s.put(t, strings.Replace(publicCloud, "westeurope", "eastus", 1))
	s.stays(t, "")
}

// isKept lets somebody else change the Secret, and delete it.
func (s *derived) isKept(t *testing.T) {
	t.Helper()
	for name, change := range map[string]func(*corev1.Secret) error{
		"change": func(secret *corev1.Secret) error {
			secret.Data["cloud.conf"] = []byte("{}")
			return s.update(t, secret)
		},
		"add":      func(secret *corev1.Secret) error { secret.Data["more"] = []byte("x"); return s.update(t, secret) },
		"empty":    func(secret *corev1.Secret) error { secret.Data = nil; return s.update(t, secret) },
		"unlabel":  func(secret *corev1.Secret) error { secret.Labels = nil; return s.update(t, secret) },
		"deletion": func(secret *corev1.Secret) error { return s.cluster.Client.Delete(t.Context(), secret) },
	} {
		before := s.made()
		s.get(t, before)
		env.Must(t, change(before.DeepCopy()))
		env.Eventually(t, name+" undone", func() error {
			after := s.made()
			if err := s.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(after), after); err != nil {
				return err
			}
			if diff := cmp.Diff(before.Data, after.Data) + cmp.Diff(before.Labels, after.Labels); diff != "" {
				return fmt.Errorf("-before +after:\n%s", diff)
			}
			return nil
		})
		s.stays(t, "")
	}
}

// staysSecret looks for the password where people look.
func (s *derived) staysSecret(t *testing.T) {
	t.Helper()
	status, err := json.Marshal(s.cr(t).Status)
	env.Must(t, err)
	events := &corev1.EventList{}
	env.Must(t, s.cluster.Client.List(t.Context(), events))
	told, err := json.Marshal(events)
	env.Must(t, err)
	for where, text := range map[string]string{"status": string(status), "events": string(told), "log": s.operator.Output()} {
		if strings.Contains(text, password) {
			t.Errorf("the password is in the %s", where)
		}
	}
}

// made is the Secret that the operator makes.
func (s *derived) made() *corev1.Secret { return s.driver.Derived.Secret(s.namespace()) }

func (s *derived) update(t *testing.T, object client.Object) error {
	return s.cluster.Client.Update(t.Context(), object)
}

// has checks the configuration that pods mount.
func (s *derived) has(t *testing.T, want map[string]any) {
	t.Helper()
	secret := s.made()
	s.get(t, secret)
	got := map[string]any{}
	env.Must(t, json.Unmarshal(secret.Data["cloud.conf"], &got))
	if diff := cmp.Diff(want, got); diff != "" || len(secret.Data) != 1 {
		t.Errorf("%d keys, configuration (-want +got):\n%s", len(secret.Data), diff)
	}
}

// put makes the configuration of the cloud this text.
func (s *derived) put(t *testing.T, text string) {
	t.Helper()
	config := cloudConfig()
	config.Data["config"] = text
	s.rollouts.put(t, config)
}

// login makes the driver's Secret one with these keys and values, and its application.
func (s *derived) login(t *testing.T, pairs ...string) {
	t.Helper()
	secret := s.secret()
	secret.StringData, secret.Data = nil, map[string][]byte{"azure_client_id": []byte("application")}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			secret.Data[pairs[i]] = []byte(pairs[i+1])
		}
	}
	s.rollouts.put(t, secret)
}

// rollsOut checks that both workloads get the next content, once.
func (s *derived) rollsOut(t *testing.T) {
	t.Helper()
	env.Eventually(t, "another content", func() error {
		now := *s
		now.look(t)
		if now.generation == s.generation || now.revision == s.revision {
			return fmt.Errorf("revision %d, generation %d", now.revision, now.generation)
		}
		return nil
	})
	s.settle(t)
	s.rolled(t, 1, 1)
	s.noProblem(t)
}

// stays checks that nothing is rolled out, what is reported, and that the driver is available.
func (s *derived) stays(t *testing.T, problem string) {
	t.Helper()
	env.Eventually(t, "what is reported: "+problem, func() error {
		message := s.message(t, "ConfigObservationDegraded")
		if !strings.Contains(message, problem) || (problem == "" && message != "") {
			return fmt.Errorf("it says %q", message)
		}
		return s.cluster.ConditionOf(t.Context(), s.driver.Name, "Available", operatorv1.ConditionTrue)
	})
	s.rolled(t, 0, 0)
}
