package storage

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
)

// hasMade checks that the roles and bindings of drivers are there, as those of a release. The stand-ins follow, make and change what the real programs
// do, by the facts in test/standin/real.go and catalogue.Made. What only Azure and OpenStack have is looked at in their own tests.
func (s *scene) hasMade(entries []catalogue.Entry, version string) {
	s.t.Helper()
	for _, entry := range entries {
		made := entry.Made
		if len(made.Roles) < 2 || len(made.Bindings) < 7 {
			s.t.Errorf("%s makes %d roles and %d bindings", entry.Name, len(made.Roles), len(made.Bindings))
		}
		s.eventually("roles of "+entry.Name, func() error {
			var problems []error
			check := func(object client.Object, name string) {
				err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: name}, object)
				if got := object.GetLabels()["standin/version"]; err == nil && got != version {
					err = fmt.Errorf("%T %s is of version %q", object, name, got)
				}
				problems = append(problems, err)
			}
			for _, name := range slices.Sorted(maps.Keys(made.Roles)) {
				check(&rbacv1.ClusterRole{}, name)
			}
			for _, name := range slices.Sorted(maps.Keys(made.Bindings)) {
				check(&rbacv1.ClusterRoleBinding{}, name)
			}
			return errors.Join(problems...)
		})
	}
}

// readsSecrets checks what sidecars of SMB may read, which OLM installs and which bind a role of the release: any Secret whose name they know.
func (s *scene) readsSecrets() {
	s.t.Helper()
	smb := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "smb-csi-provisioner-configmap-and-secret-reader-binding"},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "openshift-csi-provisioner-configmap-and-secret-reader-role",
		},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: catalogue.Namespace, Name: "smb-csi-driver-controller-sa"}},
	}
	env.Must(s.t, client.IgnoreAlreadyExists(s.Client.Create(s.t.Context(), smb)))
	allowed := func(user, verb, namespace string) authorizationv1.SubjectAccessReviewStatus {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "secrets", Namespace: namespace},
		}}
		env.Must(s.t, s.Client.Create(s.t.Context(), review))
		return review.Status
	}
	share := env.DriverOperatorUser("smb-csi-driver-controller-sa")
	// The API server takes a moment to know of a new binding.
	s.eventually("the binding counts", func() error {
		if status := allowed(share, "get", "kube-system"); !status.Allowed {
			return fmt.Errorf("%s may not get Secrets in kube-system (%s)", share, status.Reason)
		}
		return nil
	})
	for _, tc := range []struct{ user, verb, namespace string }{
		{share, "list", "kube-system"},
		{env.DriverOperatorUser("powervs-block-csi-driver-operator"), "watch", "openshift-config"},
	} {
		if status := allowed(tc.user, tc.verb, tc.namespace); status.Allowed {
			s.t.Errorf("%s may %s Secrets in %s (%s)", tc.user, tc.verb, tc.namespace, status.Reason)
		}
	}
}

// The thief of the cluster-storage-operator's token tries to give RBAC that others have to somebody else, or in another namespace.
func bindsWhatTheCatalogueSays(t *testing.T, s *scene) {
	const manilas = "openshift-manila-csi-driver"
	env.Must(t, s.Namespace(t.Context(), manilas))
	thief, err := client.New(impersonating(s.Config, env.CSOUser), client.Options{Scheme: s.Client.Scheme()})
	env.Must(t, err)
	account := func(namespace, name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	ours, self := func(name string) rbacv1.Subject { return account(catalogue.Namespace, name) }, account(env.CSONamespace, env.CSO)
	bind := func(namespace, name, role string, subjects ...rbacv1.Subject) client.Object {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name, ManagedFields: nil}
		reference := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
		if namespace == "" {
			return &rbacv1.ClusterRoleBinding{
				TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
				ObjectMeta: meta, RoleRef: reference, Subjects: subjects,
			}
		}
		return &rbacv1.RoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
			ObjectMeta: meta, RoleRef: reference, Subjects: subjects,
		}
	}
	const (
		operands, operandsBinding = "manila-csi-driver-operator-role", "manila-csi-driver-operator-rolebinding"
		file, fileBinding         = "ibm-vpc-block-csi-driver-operator-role", "ibm-vpc-block-csi-driver-operator-rolebinding"
		everywhere, anywhere      = "ibm-vpc-block-csi-driver-operator-clusterrole", "ibm-vpc-block-csi-driver-operator-clusterrolebinding"
	)
	for name, tc := range map[string]struct {
		object  client.Object
		allowed bool
	}{
		"as the catalogue says":                    {bind(catalogue.Namespace, fileBinding, file, ours("ibm-vpc-block-csi-driver-operator")), true},
		"as the catalogue says, where few have it": {bind(manilas, operandsBinding, operands, ours("manila-csi-driver-operator")), true},
		"as the catalogue says, everywhere":        {bind("", anywhere, everywhere, ours("ibm-vpc-block-csi-driver-operator")), true},
		"to itself in kube-system":                 {bind("kube-system", fileBinding, file, self), false},
		"by a name that is allowed everywhere":     {bind("kube-system", operandsBinding, operands, self), false},
		"another role by that name":                {bind("kube-system", operandsBinding, file, self), false},
		"to the operator, in kube-system":          {bind("kube-system", operandsBinding, operands, ours("manila-csi-driver-operator")), false},
		"to somebody else":                         {bind(catalogue.Namespace, fileBinding, file, self), false},
		"to one more":                              {bind(catalogue.Namespace, fileBinding, file, ours("ibm-vpc-block-csi-driver-operator"), self), false},
		"to somebody else, everywhere":             {bind("", anywhere, everywhere, self), false},
		"what is for a namespace, everywhere":      {bind("", anywhere, operands, ours("manila-csi-driver-operator")), false},
		"to all users": {bind(manilas, operandsBinding, operands, rbacv1.Subject{
			APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:authenticated",
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			// The API server takes a moment to know of a new policy.
			s.eventually(name, func() error {
				err := thief.Patch(t.Context(), tc.object.DeepCopyObject().(client.Object), client.Apply, client.DryRunAll, client.FieldOwner("thief")) //nolint:staticcheck // A typed object is what is at hand.
				if tc.allowed {
					return err
				}
				if err == nil || !strings.Contains(strings.ToLower(err.Error()), "forbidden") {
					return fmt.Errorf("it is not refused: %w", err)
				}
				return nil
			})
		})
	}
}

// impersonating is the configuration of somebody else's client.
func impersonating(config *rest.Config, user string) *rest.Config {
	other := rest.CopyConfig(config)
	other.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	return other
}

// The policy of OpenShift's cluster-storage-operator goes on in ours.
func refusesLabels(t *testing.T, s *scene) {
	const group, label = "storage.openshift.io/fsgroup-change-policy", "storage.openshift.io/selinux-change-policy"
	for _, tc := range []struct {
		labels map[string]string
		want   string
	}{
		{map[string]string{group: "Sometimes"}, group + " must be Always or OnRootMismatch"},
		{map[string]string{label: ""}, label + " must be Recursive or MountOption"},
		{map[string]string{group: "OnRootMismatch", label: "MountOption"}, ""},
		{map[string]string{group: "Always", label: "Recursive"}, ""},
		{nil, ""},
	} {
		s.eventually(fmt.Sprint(tc.labels), func() error {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "labels-", Labels: tc.labels}}
			err := s.Client.Create(t.Context(), namespace, client.DryRunAll)
			if tc.want == "" || (err != nil && strings.Contains(err.Error(), tc.want)) {
				if tc.want == "" {
					return err
				}
				return nil
			}
			return fmt.Errorf("it is not refused: %w", err)
		})
	}
}

// What the kube-controller-manager finds keeps the cluster from the next minor version, and the end of it lets it go on.
func findsPodsThatCouldNotShare(t *testing.T, s *scene) {
	found := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "selinux-conflicts"}}
	found.Data = map[string]string{"conflictsPresent": "True"}
	env.Must(t, s.Client.Create(t.Context(), found))
	const kind = "SELinuxMountGAReadinessControllerUpgradeable"
	s.says(kind, operatorv1.ConditionFalse, "SELinuxMountIncompatibleWorkloads")
	s.operatorSays(configv1.OperatorUpgradeable, configv1.ConditionFalse, "SELinuxMountGAReadinessController")
	found.Data["conflictsPresent"] = "False"
	env.Must(t, s.Client.Update(t.Context(), found))
	s.says(kind, operatorv1.ConditionTrue, "")
	found.Data["conflictsPresent"] = "True"
	env.Must(t, s.Client.Update(t.Context(), found))
	s.says(kind, operatorv1.ConditionFalse, "")
	env.Must(t, s.Client.Delete(t.Context(), found))
	s.says(kind, operatorv1.ConditionTrue, "")
	s.reach(release)
}
