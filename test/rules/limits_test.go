package rules

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/rbac"
)

// limits are the policies of config/limits.
func limits(t *testing.T) []admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	files, err := filepath.Glob(filepath.Join(root, "config", "limits", "*.yaml"))
	env.Must(t, err)
	var found []admissionv1.ValidatingAdmissionPolicy
	for _, name := range files {
		text, err := os.ReadFile(name)
		env.Must(t, err)
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			var policy admissionv1.ValidatingAdmissionPolicy
			if err := decoder.Decode(&policy); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if policy.Kind == "ValidatingAdmissionPolicy" {
				found = append(found, policy)
			}
		}
	}
	if len(found) != 6 {
		t.Fatalf("%d policies in config/limits, want those of credentials, nodes, roles, volumes, PVCs and the namespace", len(found))
	}
	return found
}

// OLM lifts what the operator may do in its own namespace to all of them. What it may write there, the limits keep there.
func TestTheLimitsKnowEveryWriteInTheNamespaceOfTheOperator(t *testing.T) {
	held, err := rbac.Held()
	env.Must(t, err)
	limited := map[string]bool{}
	for _, policy := range limits(t) {
		for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
			for _, operation := range []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete} {
				if !slices.Contains(rule.Operations, operation) {
					t.Errorf("policy %s: a rule lacks %s", policy.Name, operation)
				}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					limited[group+"/"+resource] = true
				}
			}
		}
	}
	for _, right := range rbac.Of(held) {
		if right.Namespace == "" || slices.Contains([]string{"get", "list", "watch"}, right.Verb) {
			continue
		}
		if !limited[right.Group+"/"+right.Resource] {
			t.Errorf("the operator may do this in its namespace, and no policy of config/limits keeps it there: %s", right)
		}
	}
}

// A new permission of the driver in AWS, or one that it needs no more, is one of the limits as well; and so are its accounts.
func TestTheLimitsKnowThePermissionsAndAccountsOfTheDriver(t *testing.T) {
	scheme, err := kube.Scheme()
	env.Must(t, err)
	efs := awsefs.Driver()
	settings, err := efs.ReadSettings(func(name string) string {
		return map[string]string{"DELETE_ACCESS_POINT_ROOT_DIR": "true", "NODE_IAM_MOUNTS": "true"}[name]
	})
	env.Must(t, err)
	objects, err := efs.Everything(scheme, kube.DefaultNamespace, settings)
	env.Must(t, err)
	wanted := map[string]bool{}
	for _, object := range objects {
		switch typed := object.(type) {
		case *cloudcredentialv1.CredentialsRequest:
			wanted[typed.Spec.SecretRef.Name] = true
			for _, entry := range typed.Spec.ProviderSpec.StatementEntries {
				for _, action := range entry.Action {
					wanted[action] = true
				}
			}
		case *appsv1.Deployment:
			wanted[typed.Spec.Template.Spec.ServiceAccountName] = true
		case *appsv1.DaemonSet:
			wanted[typed.Spec.Template.Spec.ServiceAccountName] = true
			// The operator replaces no other pods than these.
			if typed.Name == efs.DaemonSet {
				wanted[typed.Name] = true
			}
		case *rbacv1.ClusterRoleBinding:
			wanted[typed.RoleRef.Name] = true
			for _, subject := range typed.Subjects {
				wanted[subject.Name] = true
			}
		}
	}
	for _, lease := range efs.Leases(kube.DefaultNamespace) {
		wanted[lease.GetName()] = true
	}
	known := map[string]bool{}
	for _, policy := range limits(t) {
		for _, variable := range policy.Spec.Variables {
			policy.Spec.Validations = append(policy.Spec.Validations, admissionv1.Validation{Expression: variable.Expression})
		}
		for _, validation := range policy.Spec.Validations {
			for _, quoted := range regexp.MustCompile(`'([^' ]+)'`).FindAllStringSubmatch(validation.Expression, -1) {
				known[quoted[1]] = true
			}
		}
	}
	for name := range wanted {
		if !known[name] {
			t.Errorf("the driver needs %s, and no policy of config/limits lets the operator write it", name)
		}
	}
	for name := range known {
		if service, _, isAction := strings.Cut(name, ":"); isAction && slices.Contains([]string{"elasticfilesystem", "ec2"}, service) && !wanted[name] {
			t.Errorf("config/limits lets the operator ask for %s, which the driver does not need", name)
		}
	}
}

// What limits the operator is not the operator's to change: neither by a right of its own nor by one that it grants.
func TestNoRoleCanChangeTheLimits(t *testing.T) {
	names := map[string]bool{}
	for _, policy := range limits(t) {
		names[policy.Name] = true
	}
	for role, rules := range roles(t) {
		for _, rule := range rules {
			if !slices.Contains(rule.APIGroups, admissionv1.GroupName) || !slices.ContainsFunc(rule.Verbs, writes) {
				continue
			}
			if len(rule.ResourceNames) == 0 {
				t.Errorf("%s: it may write any of %s", role, strings.Join(rule.Resources, ", "))
			}
			for _, name := range rule.ResourceNames {
				if names[name] {
					t.Errorf("%s: it may write %s", role, name)
				}
			}
		}
	}
}

func writes(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) }

// Policies of a namespace add up. OpenShift's own lets everybody in to the metrics of pods with a label, and what is to be let in to the
// operator is in config/limits.
func TestOnlyPrometheusReachesTheMetricsOfTheOperator(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	var policy networkingv1.NetworkPolicy
	var operator appsv1.Deployment
	for name, into := range map[string]any{"limits/networkpolicy.yaml": &policy, "manager/manager.yaml": &operator} {
		text, err := os.ReadFile(filepath.Join(root, "config", filepath.FromSlash(name)))
		env.Must(t, err)
		env.Must(t, yaml.Unmarshal(text, into))
	}
	pod := operator.Spec.Template
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	env.Must(t, err)
	if selector.Empty() || !selector.Matches(labels.Set(pod.Labels)) || policy.Namespace != operator.Namespace {
		t.Errorf("the policy selects %s in %s, and the operator's pod in %s has %v", selector, policy.Namespace, operator.Namespace, pod.Labels)
	}
	if _, open := pod.Labels["openshift.storage.network-policy.operator-metrics-range"]; open {
		t.Error("the operator's pod has a label by which OpenShift 4.20 lets everybody in to its metrics")
	}
	if diff := cmp.Diff([]networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, policy.Spec.PolicyTypes); diff != "" {
		t.Errorf("policy types (-want +got):\n%s", diff)
	}
	for _, rule := range policy.Spec.Ingress {
		port := slices.IndexFunc(pod.Spec.Containers[0].Ports, func(port corev1.ContainerPort) bool { return port.Name == "metrics" })
		if len(rule.From) == 0 || len(rule.Ports) != 1 || rule.Ports[0].Port.IntVal != pod.Spec.Containers[0].Ports[port].ContainerPort {
			t.Errorf("it lets in more than one may need: %v", rule)
		}
		for _, peer := range rule.From {
			if peer.NamespaceSelector == nil || len(peer.NamespaceSelector.MatchExpressions)+len(peer.NamespaceSelector.MatchLabels) == 0 {
				t.Errorf("it lets in every namespace: %v", peer)
			}
		}
	}
}
