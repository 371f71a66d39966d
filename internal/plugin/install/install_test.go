package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/bundle"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

const (
	issuer = "https://oidc.example.com/cluster"
	role   = "arn:aws:iam::123456789012:role/efs-csi-controller"
)

func onAWS() []client.Object {
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{AWS: &configv1.AWSPlatformStatus{Region: "us-east-1"}}
	release := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}}
	release.Status.Desired.Version = "4.21.3"
	return []client.Object{infrastructure, release, credentials(""), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kube.DefaultNamespace}}}
}

func withSTS() []client.Object {
	authentication := &configv1.Authentication{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	authentication.Spec.ServiceAccountIssuer = issuer
	return append(onAWS(), authentication)
}

// olm returns an OLM object.
func olm(kind schema.GroupVersionKind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range content {
		object.Object[key] = value
	}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func subscription(csv string) *unstructured.Unstructured {
	return olm(subscriptionKind(), kube.DefaultNamespace, awsefs.Operator, map[string]any{
		"spec": map[string]any{"name": awsefs.Operator, "source": "csi-operators"}, "status": map[string]any{"installedCSV": csv, "state": "AtLatestKnown"},
	})
}

func TestAnInstallationIsCheckedShownAndApplied(t *testing.T) {
	cluster := plugintest.Cluster(t, onAWS()...)
	golden.CompareText(t, "install-dry-run.txt", plugintest.Run(t, cluster, "", Command, "install", "efs", "--dry-run").Text())
	golden.CompareText(t, "install-no.txt", plugintest.Run(t, cluster, "n\n", Command, "install", "efs").Text())
	if len(cluster.Writes) > 0 {
		t.Errorf("it writes %q", cluster.Writes)
	}
	golden.CompareText(t, "install.txt", plugintest.Run(t, cluster, "y\n", Command, "install", "efs").Text())
	golden.CompareText(t, "install-objects.txt", strings.Join(cluster.Sent(), "\n")+"\n")
	cluster.Refuse(errors.New("denied"), "apply Subscription")
	golden.CompareText(t, "install-denied.txt", plugintest.Run(t, cluster, "", Command, "install", "efs", "--yes").Text())
}

func TestAllThatIsMissingIsSaidAtOnce(t *testing.T) {
	cluster := plugintest.Cluster(t, withSTS()...)
	none := &meta.NoKindMatchError{GroupKind: subscriptionKind().GroupKind()}
	cluster.Refuse(none, "list Subscription", "list OperatorGroup", "list ClusterCSIDriver")
	cluster.Objects = cluster.Objects[1:]
	golden.CompareText(t, "install-missing.txt", plugintest.Run(t, cluster, "", Command, "install", "efs").Text())
	golden.CompareText(t, "install-missing-dry-run.txt", plugintest.Run(t, cluster, "", Command, "install", "efs", "--dry-run").Text())
	cluster.Refuse(errors.New("the API is away"))
	if got := plugintest.Run(t, cluster, "", Command, "install", "efs"); got.Code != plugin.Failed {
		t.Error(got.Text())
	}
}

func TestEachCheckSaysWhatToDo(t *testing.T) {
	usual := request{namespace: kube.DefaultNamespace}
	roles := request{namespace: kube.DefaultNamespace, controllerRole: role}
	named := func(label string) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{openshift.ManagedByLabel: label}}}
	}
	space := &corev1.Namespace{}
	going := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}
	ours := map[string]string{kube.DefaultNamespace + "/" + awsefs.Operator: "csi-operators"}
	for name, tc := range map[string]struct {
		check Check
		state string
		text  string
	}{
		"a console":          {checkConsole(seen{}), ok, "quick starts"},
		"no console":         {checkConsole(seen{noConsole: true}), missing, `"additionalEnabledCapabilities":["Console"]`},
		"perhaps a console":  {checkConsole(seen{denied: denied("ClusterVersion")}), unknown, "lack permission to read ClusterVersion"},
		"no Infrastructure":  {checkPlatform(seen{}), unknown, "the cluster has no Infrastructure"},
		"no AWS":             {checkPlatform(seen{infrastructure: &configv1.Infrastructure{}}), missing, "the cluster is not on AWS"},
		"no version":         {checkVersion(seen{}), unknown, "or names no version of OpenShift"},
		"too old":            {checkVersion(seen{version: version.MajorMinor(4, 14)}), missing, "OpenShift 4.14 is older than 4.15: update the cluster"},
		"an old catalog":     {checkVersion(seen{version: version.MajorMinor(4, 17)}), ok, "OpenShift 4.17: its OLM needs the catalog image that contains the program opm"},
		"new enough":         {checkVersion(seen{version: version.MajorMinor(4, 21)}), ok, "OpenShift 4.21"},
		"the next major":     {checkVersion(seen{version: version.MajorMinor(5, 0)}), ok, "OpenShift 5.0"},
		"of the future":      {checkVersion(seen{version: version.MajorMinor(5, 5)}), unknown, "OpenShift 5.5 is newer than 5.4, the last version"},
		"the community's":    {checkOthers(seen{subscriptions: map[string]string{"a/aws-efs-operator": "community"}}, usual), missing, "from catalog community"},
		"ours":               {checkOthers(seen{subscriptions: ours, csiDriver: named("x")}, usual), ok, "no other operator runs"},
		"a chart's":          {checkOthers(seen{csiDriver: named("Helm"), plugins: []string{"a/b"}, charted: true}, usual), missing, "from-the-helm-chart.md"},
		"somebody's":         {checkOthers(seen{csiDriver: named(""), plugins: []string{"a/b"}}, usual), missing, "a/b runs the driver for another owner: see docs"},
		"what a chart left":  {checkOthers(seen{csiDriver: named("Helm")}, usual), ok, "which a predecessor left"},
		"perhaps a chart's":  {checkOthers(seen{csiDriver: named("Helm"), denied: denied("DaemonSet")}, usual), unknown, "lack permission to read DaemonSet"},
		"ours, without OLM":  {checkOthers(seen{csiDriver: named(awsefs.Operator)}, usual), ok, "no other operator runs"},
		"ours, blind":        {checkOthers(seen{csiDriver: named(awsefs.Operator), denied: denied("DaemonSet")}, usual), ok, "no other operator runs"},
		"a new namespace":    {checkNamespace(seen{}, usual), ok, "openshift-cluster-csi-drivers will be created"},
		"a namespace":        {checkNamespace(seen{namespace: space, groups: []string{"a"}}, usual), ok, "exists"},
		"one that goes":      {checkNamespace(seen{namespace: going}, usual), missing, "is being deleted: wait"},
		"several groups":     {checkNamespace(seen{namespace: space, groups: []string{"a", "b"}}, usual), missing, "has several OperatorGroups, a, b"},
		"STS without a role": {checkCredentials(seen{issuer: issuer}, usual), missing, "create them from the IAM documents"},
		"STS":                {checkCredentials(seen{issuer: issuer}, roles), ok, "STS, with role " + role},
		"a blank in a role":  {checkCredentials(seen{issuer: issuer}, request{controllerRole: role + " "}), missing, "--role-arn \"" + role + " \" must be the ARN"},
		"a role that is none": {checkCredentials(seen{issuer: issuer}, request{controllerRole: role, nodeRole: "node"}), missing,
			"--node-role-arn \"node\" must be the ARN"},
		"a role without STS": {checkCredentials(seen{}, roles), missing, "the cluster does not use STS"},
		"manual":             {checkCredentials(seen{credentials: credentials(operatorv1.CloudCredentialsModeManual)}, usual), unknown, "credentials mode Manual"},
		"minted":             {checkCredentials(seen{credentials: credentials("")}, usual), ok, "the cloud-credential-operator creates the Secrets"},
		"by hand":            {checkCredentials(seen{}, usual), unknown, "the cluster has no CloudCredential"},
	} {
		if tc.check.State != tc.state || !strings.Contains(tc.check.Text, tc.text) {
			t.Errorf("%s: %+v", name, tc.check)
		}
	}
	for text, want := range map[string]string{"4.17.3": "4.17", "4.21.0-rc.1": "4.21", "5.0.0": "5.0", "4.x": "", "": ""} {
		got := ""
		if found := versionOf(text); found != nil {
			got = found.String()
		}
		if got != want {
			t.Errorf("%q is OpenShift %s, want %s", text, got, want)
		}
	}
}

// A page that excludes a supported version would keep users from trying.
func TestTheGuidesNameTheFirstVersionThatIsInstalledOn(t *testing.T) {
	for file, sentence := range map[string]string{
		"README.md": "You need OpenShift %s or newer", "docs/guide/install.md": "* OpenShift %s or newer,",
		"docs/guide/plugin.md": "| `version` | OpenShift is older than %s |",
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", file))
		if want := fmt.Sprintf(sentence, firstVersion()); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q: %v", file, want, err)
		}
	}
}

func TestTheLastVersionIsThatOfTheBundle(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "manifests", "clusterserviceversion.yaml"))
	if want := fmt.Sprintf(`{"type": "olm.maxOpenShiftVersion", "value": "%s"}`, lastVersion()); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the bundle does not have %s: %v", want, err)
	}
}

func denied(kinds ...string) map[string]bool {
	made := map[string]bool{}
	for _, kind := range kinds {
		made[kind] = true
	}
	return made
}

func credentials(mode operatorv1.CloudCredentialsMode) *operatorv1.CloudCredential {
	return &operatorv1.CloudCredential{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: operatorv1.CloudCredentialSpec{CredentialsMode: mode},
	}
}

// With each kind unreadable in turn, a check must be unknown, and nothing may be installed.
func TestWhatMayNotBeReadIsNotOK(t *testing.T) {
	for kind, check := range map[string]string{
		"list Subscription": "OLM", "list OperatorGroup": "namespace", "list ClusterCSIDriver": "API", "get Infrastructure": "platform",
		"get ClusterVersion": "version", "get Authentication": "credentials", "get CloudCredential": "credentials", "get CSIDriver": "other operators",
		"get Namespace": "namespace",
	} {
		cluster := plugintest.Cluster(t, onAWS()...)
		resource := strings.ToLower(strings.Fields(kind)[1]) + "s"
		cluster.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no right")), kind)
		dry := plugintest.Run(t, cluster, "", Command, "install", "efs", "--dry-run", "-o", "json")
		var plan Plan
		if err := json.Unmarshal([]byte(dry.Out), &plan); err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(plan.Checks, func(one Check) bool { return one.Name == check })
		if one := plan.Checks[at]; one.State != unknown || !strings.Contains(one.Text, "you lack permission to read "+strings.Fields(kind)[1]) {
			t.Errorf("%s refused: %+v", kind, one)
		}
		if dry.Code != plugin.Failed || !strings.Contains(dry.Problems, resource) {
			t.Errorf("%s refused: %s", kind, dry.Text())
		}
		done := plugintest.Run(t, cluster, "", Command, "install", "efs", "--yes")
		if done.Code != plugin.Failed || len(cluster.Writes) > 0 || !strings.Contains(done.Err.Error(), "the installation was not done") {
			t.Errorf("%s refused, writes %q: %s", kind, cluster.Writes, done.Text())
		}
	}
}

func TestAnotherNamespaceAndRolesAreWrittenIntoTheObjects(t *testing.T) {
	objects, err := objectsOf(bundle.Install, seen{groups: []string{"there"}}, request{namespace: "example-efs", controllerRole: role, nodeRole: "node"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		names = append(names, nameOf(object))
	}
	want := []string{
		"CatalogSource openshift-marketplace/csi-operators", "Namespace example-efs", "Subscription example-efs/aws-efs-csi-driver-operator",
		"ClusterCSIDriver efs.csi.aws.com",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	env, _, err := unstructured.NestedSlice(objects[2].Object, "spec", "config", "env")
	roles := []any{map[string]any{"name": "ROLEARN", "value": role}, map[string]any{"name": "NODE_ROLEARN", "value": "node"}}
	if diff := cmp.Diff(roles, env); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestTheCatalogIsForTheVersionOfTheCluster(t *testing.T) {
	for release, want := range map[string]string{
		"": "catalog:", "4.15.0": "catalog-opm:", "4.20.9": "catalog-opm:", "4.21.0-rc.1": "catalog:", "4.22.1": "catalog:", "5.0.0": "catalog:",
	} {
		objects, err := objectsOf(bundle.Install, seen{version: versionOf(release)}, request{namespace: kube.DefaultNamespace})
		if err != nil {
			t.Fatal(err)
		}
		image, _, _ := unstructured.NestedString(objects[0].Object, "spec", "image")
		if len(objects) != 5 || !strings.Contains(image, "/"+want) {
			t.Errorf("OpenShift %s: %d objects, catalog %s", release, len(objects), image)
		}
	}
}

// chart returns the DaemonSet of a Helm chart.
func chart(namespace string) *appsv1.DaemonSet {
	made := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "efs-csi-node"}}
	made.Spec.Template.Labels = map[string]string{"app.kubernetes.io/instance": "efs"}
	made.Spec.Template.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins/efs.csi.aws.com/"},
	}}}
	return made
}

func TestWhoeverServesTheSocketRunsTheDriver(t *testing.T) {
	other := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "other"}}
	cluster := plugintest.Cluster(t, append(onAWS(), chart("kube-system"), other, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: awsefs.Name}})...)
	text := plugintest.Run(t, cluster, "", Command, "install", "efs", "--dry-run").Text()
	if want := "DaemonSet kube-system/efs-csi-node runs the driver for a Helm release"; !strings.Contains(text, want) {
		t.Errorf("%q is missing:\n%s", want, text)
	}
}

// changing returns the next version of an object at each read of the ClusterCSIDriver.
type changing struct {
	*canned.Cluster
	reads int
	after func(c *canned.Cluster, reads int)
}

// Get counts reads.
func (c *changing) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if key.Name == awsefs.Name || key.Name == awsefs.Operator {
		c.reads++
		c.after(c.Cluster, c.reads)
	}
	return c.Cluster.Get(ctx, key, into, options...)
}

func TestTheInstallationIsWatchedUntilTheDriverIsAvailable(t *testing.T) {
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: awsefs.Name, UID: "cr"}}
	csv := olm(csvKind(), kube.DefaultNamespace, "efs.v1", map[string]any{"status": map[string]any{"phase": "Installing", "message": "waiting for pods"}})
	begun := subscription("")
	watched := &changing{Cluster: plugintest.Cluster(t, onAWS()...)}
	watched.after = func(c *canned.Cluster, reads int) {
		switch reads {
		case 2:
			c.Objects = append(c.Objects, begun)
		case 3:
			begun.Object["status"] = map[string]any{"installedCSV": "efs.v1"}
			c.Objects = append(c.Objects, csv)
		case 4:
			csv.Object["status"] = map[string]any{"phase": "Succeeded"}
			cr.Status.Conditions = []operatorv1.OperatorCondition{{Type: "Available", Status: operatorv1.ConditionFalse, Message: "the pods start"}}
			c.Objects = append(c.Objects, cr)
		case 7:
			cr.Generation, cr.Status.ObservedGeneration = 2, 2
			cr.Status.Conditions = []operatorv1.OperatorCondition{
				{Type: "Available", Status: operatorv1.ConditionTrue},
				{Type: "Progressing", Status: operatorv1.ConditionTrue, Message: "waiting for Secret aws-efs-cloud-credentials"},
			}
		case 9:
			cr.Status.Conditions[1].Status, cr.Status.ObservedGeneration = operatorv1.ConditionFalse, 1
		case 11:
			cr.Status.ObservedGeneration = 2
		}
	}
	golden.CompareText(t, "install-watch.txt", plugintest.Run(t, watched, "", Command, "install", "efs", "--watch", "--yes").Text())
	cr.Status.Conditions = append(cr.Status.Conditions, operatorv1.OperatorCondition{Type: "Degraded", Status: operatorv1.ConditionTrue, Message: "no key"})
	watched.after = func(*canned.Cluster, int) {}
	wrong := plugintest.Run(t, watched, "", Command, "install", "efs", "--watch", "--yes")
	if wrong.Code != plugin.Wrong || wrong.Err.Error() != "the driver is installed, but degraded: no key" {
		t.Error(wrong.Text())
	}
	// The operator works, and waits for the administrator.
	cr.Status.Conditions = []operatorv1.OperatorCondition{
		{Type: "Available", Status: operatorv1.ConditionFalse},
		{Type: "AWSEFSXDegraded", Status: operatorv1.ConditionTrue, Reason: "ActionRequired", Message: "delete the Secret"},
	}
	stuck := plugintest.Run(t, watched, "", Command, "install", "efs", "--watch", "--yes", "--timeout", "10s")
	if text := stuck.Text(); !strings.Contains(text, "the driver becomes available only when you act: delete the Secret") || stuck.Code != plugin.Wrong {
		t.Errorf("code %d: %s", stuck.Code, text)
	}
	never := plugintest.Cluster(t, onAWS()...)
	late := plugintest.Run(t, never, "", Command, "install", "efs", "--watch", "--yes", "--timeout", "5ms")
	// What doctor says is compared in its own tests.
	before, said, _ := strings.Cut(late.Text(), "\"oc storage doctor\" says:\n")
	if !strings.Contains(said, "The cluster has no CSI driver") || !strings.HasSuffix(said, "run the command again\n-- exit code 4\n") {
		t.Errorf("doctor says:\n%s", said)
	}
	golden.CompareText(t, "install-late.txt", before)
}

func TestTheDocumentsForRolesAreThoseOfTheGuide(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	guide, folder := filepath.Join(here, "..", "..", "..", "docs", "guide", "iam"), "roles"
	t.Chdir(t.TempDir())
	cluster := plugintest.Cluster(t, withSTS()...)
	line := []string{"install", "efs", "--iam-documents", folder, "--account", "123456789012"}
	printed := plugintest.Run(t, cluster, "", Command, line...).Text()
	files, err := filepath.Glob(filepath.Join(guide, "*.json"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(folder, filepath.Base(file)))
		if diff := cmp.Diff(string(want), string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-guide +written):\n%s", filepath.Base(file), err, diff)
		}
	}
	plugintest.Run(t, cluster, "", Command, append(line, "--setting", "NODE_IAM_MOUNTS=true")...)
	if policy, err := os.ReadFile(filepath.Join(folder, "node-policy.json")); err != nil || !strings.Contains(string(policy), "elasticfilesystem:ClientMount") {
		t.Errorf("the policy of nodes that mount with an identity is %s, %v", policy, err)
	}
	if unset := plugintest.Run(t, cluster, "", Command, append(line, "--setting", "NODE_IAM=true")...); unset.Code != plugin.WrongUsage {
		t.Errorf("a setting that does not exist: %s", unset.Text())
	}
	wrong := plugintest.Run(t, cluster, "", Command, line[:4]...)
	none := plugintest.Run(t, plugintest.Cluster(t, onAWS()...), "", Command, line...)
	t.Chdir(here)
	golden.CompareText(t, "documents.txt", printed)
	if wrong.Code != plugin.WrongUsage || !strings.Contains(wrong.Err.Error(), "an AWS account has 12 digits") {
		t.Error(wrong.Text())
	}
	if none.Code != plugin.Wrong || !strings.Contains(none.Err.Error(), "needs no roles") {
		t.Error(none.Text())
	}
}
