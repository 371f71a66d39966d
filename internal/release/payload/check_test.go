package payload

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
)

// committed are the manifests as they are in the repository, and the release that they are checked by.
func committed(t *testing.T) (Release, map[string][]byte) {
	t.Helper()
	release := Release{Entries: catalogue.All(), Scheme: runtime.NewScheme()}
	if err := errors.Join(clientgoscheme.AddToScheme(release.Scheme), monitoringv1.AddToScheme(release.Scheme)); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("../../../" + Folder + "/*")
	if err != nil || len(names) < 30 {
		t.Fatalf("%d manifests, error %v", len(names), err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = text
	}
	return release, files
}

func TestTheManifestsAreFitForARelease(t *testing.T) {
	release, files := committed(t)
	if err := release.Check(files); err != nil {
		t.Error(err)
	}
}

func TestWhatIsWrongInAManifestIsNamed(t *testing.T) {
	const cso = "0000_50_cluster-storage-operator_"
	for _, tc := range []struct{ file, before, after, want string }{
		{cso + "06_storage.yaml", `release.openshift.io/create-only: "true"`, `a: b`, "must be on Storage, which administrators change, and on no other object"},
		{cso + "07_service-account.yaml", "metadata:\n  annotations:\n", "metadata:\n  annotations:\n    release.openshift.io/create-only: \"true\"\n", "must be on Storage"},
		{cso + "07_service-account.yaml", "capability.openshift.io/name: Storage\n", "a: b\n", `capability.openshift.io/name is "", not "Storage"`},
		{cso + "03_credentials-request-gcp-pd-csi-driver-operator.yaml", "Storage+CloudCredential", "Storage", `not "Storage+CloudCredential"`},
		{"0000_49_cluster-storage-operator_01_namespace.yaml", "annotations:\n", "annotations:\n    capability.openshift.io/name: Storage\n", `is "Storage", not ""`},
		{cso + "07_service-account.yaml", "include.release.openshift.io", "exclude.release.openshift.io", "the manifest is in no profile"},
		{cso + "07_service-account.yaml", "include.release.openshift.io/single-node-developer", "include.release.openshift.io/small", "clusters read only the annotations of known profiles"},
		{cso + "07_service-account.yaml", "namespace: openshift-cluster-storage-operator", "namespace: nowhere", "no earlier manifest creates its namespace"},
		{cso + "07_service-account.yaml", "kind: ServiceAccount", "kind: ServiceMonitor", "its kind is not for run level 50"},
		{cso + "10_deployment.yaml", "name: ATTACHER_IMAGE", "name: ATACHER_IMAGE", "environment variable ATTACHER_IMAGE is missing"},
		{cso + "10_deployment.yaml", "name: ATTACHER_IMAGE", "name: ATACHER_IMAGE", "unneeded environment variable ATACHER_IMAGE"},
		{cso + "10_deployment.yaml", "value: 0.0.1-snapshot", "value: 0.0.1", "which the release build replaces"},
		{cso + "10_deployment.yaml", "origin-csi-external-attacher:latest", "origin-attacher:latest", "it does not have image quay.io/openshift/origin-attacher:latest"},
		{
			cso + "10_deployment-ibm-cloud-managed.yaml", "all-egress: allow", "egress: allow",
			"its pods connect to ports 6443 and 443 only: add label openshift.storage.network-policy.all-egress",
		},
		{ReferencesFile, "origin-csi-external-attacher:latest", "origin-attacher:latest", "no manifest has image quay.io/openshift/origin-attacher:latest"},
		{ReferencesFile, "origin-csi-external-snapshot-metadata:latest", "other:latest", "it does not have image " + referencedOnly},
		{cso + "08_rbac.yaml", "- storageclasses", `- "*"`, "a rule holds *"},
		{cso + "08_rbac.yaml", "  - bind\n", "  - escalate\n", "no role may hold escalate"},
		{cso + "08_rbac.yaml", "- persistentvolumes\n  verbs:\n  - list\n", "- persistentvolumes\n  verbs:\n  - bind\n", "a rule with verb bind has no resourceNames"},
		{cso + "08_rbac.yaml", "- storageclasses", `- secrets`, "ClusterRole cluster-storage-operator gives a right to the Secrets of all namespaces"},
		{cso + "08_rbac.yaml", "kind: ClusterRole\n  name: cluster-storage-operator", "kind: ClusterRole\n  name: cluster-admin", "binds ClusterRole cluster-admin, which no manifest has"},
		{
			cso + "08_rbac-ibm-vpc-block-csi-driver-operator.yaml", "name: ibm-vpc-block-csi-driver-operator-cloud-role", "name: other",
			"the catalogue binds ClusterRole ibm-vpc-block-csi-driver-operator-cloud-role, which no manifest has",
		},
		{
			cso + "08_shared-roles.yaml", "- configmaps\n  verbs:\n  - get\n", "- secrets\n  verbs:\n  - watch\n",
			"ClusterRole openshift-csi-provisioner-configmap-and-secret-reader-role gives a right to the Secrets of all namespaces: get, list, watch",
		},
		{
			cso + "08_shared-roles.yaml", "- volumesnapshotclasses", "- secrets",
			"ClusterRole openshift-csi-main-snapshotter-role gives a right to the Secrets of all namespaces: get, list, watch",
		},
		{
			cso + "08_rbac-powervs-block-csi-driver-operator.yaml", "- persistentvolumes\n", "- secrets\n",
			"ClusterRole powervs-block-csi-driver-operator-clusterrole gives a right to the Secrets of all namespaces",
		},
		{cso + "08_rbac-powervs-block-csi-driver-operator.yaml", "  - nodes\n", "  - nodes\n  - nodes\n  verbs:\n  - delete\n- resources:\n  - pods\n", "no operator writes nodes"},
		{cso + "03_credentials-request-manila-csi-driver-operator.yaml", "name: manila-cloud-credentials", "name: other", "no CredentialsRequest asks for Secret"},
		{cso + "03_credentials-request-aws-ebs-csi-driver-operator.yaml", "ec2:AttachVolume", "ec2:Attach*", "asks for ec2:Attach*: name the actions"},
	} {
		release, files := committed(t)
		text := string(files[tc.file])
		if !strings.Contains(text, tc.before) {
			t.Errorf("%s has no %q", tc.file, tc.before)
			continue
		}
		times := 1
		if strings.HasPrefix(tc.after, "exclude") {
			times = -1
		}
		files[tc.file] = []byte(strings.Replace(text, tc.before, tc.after, times))
		err := release.Check(files)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s, %q: error %v, want %s", tc.file, tc.after, err, tc.want)
		}
	}
}

func TestNamesPutManifestsInOrder(t *testing.T) {
	for _, name := range []string{"10_deployment.yaml", "0000_50_other_10_deployment.yaml", "0000_60_cluster-storage-operator_10_deployment.yaml"} {
		release, files := committed(t)
		files[name] = files["0000_50_cluster-storage-operator_07_service-account.yaml"]
		if err := release.Check(files); err == nil || !strings.Contains(err.Error(), name+": the name must be 0000_") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Whoever may bind a role may bind it to anybody. In namespaces that each cluster has, a Role says which; for the others, which are these, the
// admission policy does.
func TestRolesAreBoundInTheirNamespacesOnly(t *testing.T) {
	release, files := committed(t)
	const cso = "0000_50_cluster-storage-operator_"
	objects, err := parse(files[cso+"08_rbac.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := []string{
		"aws-ebs-csi-driver-operator-role", "ibm-vpc-block-csi-driver-operator-cloud-role", "manila-csi-driver-operator-role",
	}
	written := map[string][]string{}
	for i := range objects {
		var role rbacv1.ClusterRole
		if objects[i].GetKind() != "ClusterRole" && objects[i].GetKind() != "Role" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Verbs, "bind") || (slices.Contains(rule.Resources, "rolebindings") && slices.Contains(rule.Verbs, "patch")) {
				written[role.Namespace] = append(written[role.Namespace], rule.ResourceNames...)
			}
		}
	}
	for _, entry := range release.Entries {
		elsewhere = append(elsewhere, entry.ClusterRole())
	}
	elsewhere = append(elsewhere, "ibm-vpc-block-csi-driver-operator-cloud-rolebinding", "manila-csi-driver-operator-rolebinding")
	for _, name := range written[""] {
		if !slices.Contains(elsewhere, name) {
			t.Errorf("%s may be written or bound in all namespaces", name)
		}
	}
	for _, name := range []string{"azure-file-csi-driver-operator-role", "azure-file-csi-driver-operator-rolebinding"} {
		if !slices.Contains(written[catalogue.Namespace], name) {
			t.Errorf("%s can't be written or bound in namespace %s", name, catalogue.Namespace)
		}
	}
}
