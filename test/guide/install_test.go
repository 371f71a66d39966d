package guide

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/test/env"
)

// issuer is that of docs/guide/iam.
const issuer = "https://oidc.example.com/cluster"

func TestTheCommandsOfTheInstallationWork(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	cluster, home := reader(t, root)
	lifecycle := startLifecycle(t, cluster, root)
	authentication := &configv1.Authentication{}
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: "cluster"}, authentication))
	authentication.Spec.ServiceAccountIssuer = issuer
	env.Must(t, cluster.Client.Update(t.Context(), authentication))

	commands := blocks(t, root, "install.md")
	mirror, uninstall, trouble := from(t, commands, "mkdir -p disconnected"), from(t, commands, "get persistentvolumes"), len(commands)-1
	run(t, cluster, home, commands[:mirror])
	t.Run("roles", func(t *testing.T) { roles(t, cluster, root, home) })
	run(t, cluster, home, commands[mirror:uninstall])
	t.Run("mirrors", func(t *testing.T) { mirrored(t, cluster) })
	t.Run("subscriptions", func(t *testing.T) { subscriptions(t, cluster) })
	// They look at what is installed.
	run(t, cluster, home, commands[trouble:])
	run(t, cluster, home, commands[uninstall:trouble])
	if len(commands) < 20 {
		t.Errorf("%d command blocks were found: the fences are not read", len(commands))
	}
	current, err := release.Load(os.DirFS(root))
	env.Must(t, err)
	csv := olm.Packages()[0].CSVName(current.Version)
	want := []string{
		"openshift-cluster-csi-drivers/aws-efs-csi-driver-operator: " + csv, "example-efs/aws-efs-csi-driver-operator: " + csv,
	}
	if diff := cmp.Diff(want, lifecycle.stop()); diff != "" {
		t.Errorf("what OLM has been told to install (-want +got):\n%s", diff)
	}
	for kind, namespace := range map[string]string{
		"Subscription": "openshift-cluster-csi-drivers", "ClusterServiceVersion": "openshift-cluster-csi-drivers",
		"CatalogSource": "openshift-marketplace",
	} {
		found := listOf(operators(), kind)
		env.Must(t, cluster.Client.List(t.Context(), found, client.InNamespace(namespace)))
		if len(found.Items) > 0 {
			t.Errorf("%s %s is left after the uninstallation", kind, found.Items[0].GetName())
		}
	}
}

// from is where the block is that has some text.
func from(t *testing.T, commands []env.Block, text string) int {
	t.Helper()
	found := slices.IndexFunc(commands, func(b env.Block) bool { return strings.Contains(b.Text, text) })
	if found < 0 {
		t.Fatalf("no block has %q", text)
	}
	return found
}

func TestTheCommandsOfTheUpgradeWork(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	cluster, home := reader(t, root)
	lifecycle := startLifecycle(t, cluster, root)
	for namespace, example := range map[string]struct{ name, source, csv string }{
		"openshift-operators":           {"aws-efs-operator", "community-operators", "aws-efs-operator.v0.0.8"},
		"openshift-cluster-csi-drivers": {"aws-efs-csi-driver-operator", "redhat-operators", "aws-efs-csi-driver-operator.v4.16.0-202410111039"},
	} {
		env.Must(t, lifecycle.create(t.Context(), "ClusterServiceVersion", namespace, example.csv, map[string]any{}))
		env.Must(t, lifecycle.create(t.Context(), "Subscription", namespace, example.name, map[string]any{
			"spec": map[string]any{
				"name": example.name, "channel": "stable", "source": example.source, "sourceNamespace": "openshift-marketplace",
			},
			"status": map[string]any{"state": "AtLatestKnown", "installedCSV": example.csv},
		}))
	}
	if ran := run(t, cluster, home, blocks(t, root, "upgrade-from-community.md")); ran < 15 {
		t.Errorf("%d command blocks were found: the fences are not read", ran)
	}
	subscriptions(t, cluster)
	current, err := release.Load(os.DirFS(root))
	env.Must(t, err)
	csv, bridge := olm.Packages()[0].CSVName(current.Version), olm.Packages()[1].CSVName(current.Version)
	want := []string{
		"openshift-operators/aws-efs-operator: " + bridge,
		"openshift-operators/aws-efs-operator: " + csv,
		"openshift-operators/aws-efs-csi-driver-operator: " + csv,
		"openshift-cluster-csi-drivers/aws-efs-csi-driver-operator: " + csv,
	}
	if diff := cmp.Diff(want, lifecycle.stop()); diff != "" {
		t.Errorf("what OLM has been told to install (-want +got):\n%s", diff)
	}
}

// subscriptionSpec is what of a Subscription the guides use, as OLM spells it.
type subscriptionSpec struct {
	Name                string `json:"name"`
	Channel             string `json:"channel"`
	Source              string `json:"source"`
	SourceNamespace     string `json:"sourceNamespace"`
	InstallPlanApproval string `json:"installPlanApproval"`
	Config              struct {
		Env []corev1.EnvVar `json:"env"`
	} `json:"config"`
}

// subscriptions checks what the commands have made of all Subscriptions: a stand-in takes any field.
func subscriptions(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	efs := awsefs.Driver()
	known := map[string]bool{}
	for _, credentials := range efs.Credentials {
		known[credentials.RoleARNVariable] = true
	}
	for _, setting := range efs.Settings {
		known[setting.Variable] = true
	}
	list := listOf(operators(), "Subscription")
	env.Must(t, cluster.Client.List(t.Context(), list))
	if len(list.Items) == 0 {
		t.Error("there is no Subscription")
	}
	for _, object := range list.Items {
		var spec subscriptionSpec
		decode(t, object, &spec)
		if !slices.ContainsFunc(olm.Packages(), func(p olm.Package) bool { return p.Name == spec.Name }) || spec.Channel != olm.Stable {
			t.Errorf("Subscription %s is to channel %q of package %q, which is not in the catalog", object.GetName(), spec.Channel, spec.Name)
		}
		source := &unstructured.Unstructured{}
		source.SetGroupVersionKind(operators().WithKind("CatalogSource"))
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: spec.SourceNamespace, Name: spec.Source}, source); err != nil {
			t.Errorf("source of Subscription %s: %v", object.GetName(), err)
		}
		if !slices.Contains([]string{"", "Automatic", "Manual"}, spec.InstallPlanApproval) {
			t.Errorf("installPlanApproval %q of Subscription %s", spec.InstallPlanApproval, object.GetName())
		}
		for _, variable := range spec.Config.Env {
			if !known[variable.Name] {
				t.Errorf("Subscription %s sets %s, which the operator does not read", object.GetName(), variable.Name)
			}
		}
	}
}

func decode(t *testing.T, object unstructured.Unstructured, spec any) {
	t.Helper()
	text, err := yaml.Marshal(object.Object["spec"])
	env.Must(t, err)
	if err := yaml.UnmarshalStrict(text, spec); err != nil {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

// roles checks what the commands have set in AWS, and said to the operator about it.
func roles(t *testing.T, cluster *env.Cluster, root, home string) {
	calls, err := os.ReadFile(filepath.Join(home, "aws.log"))
	env.Must(t, err)
	for _, workload := range []string{"controller", "node"} {
		for _, call := range []string{
			fmt.Sprintf("iam create-role --role-name efs-csi-%[1]s --assume-role-policy-document file://%[1]s-trust-policy.json\n", workload),
			fmt.Sprintf("iam put-role-policy --role-name efs-csi-%[1]s --policy-name efs-csi --policy-document file://%[1]s-policy.json\n", workload),
		} {
			if !strings.Contains(string(calls), call) {
				t.Errorf("AWS was not told %q but\n%s", call, calls)
			}
		}
		for _, name := range []string{workload + "-policy.json", workload + "-trust-policy.json"} {
			want, err := os.ReadFile(filepath.Join(root, "docs", "guide", "iam", name))
			env.Must(t, err)
			got, err := os.ReadFile(filepath.Join(home, name))
			env.Must(t, err)
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-docs/guide/iam +printed):\n%s", name, diff)
			}
		}
	}
	subscription := &unstructured.Unstructured{}
	subscription.SetGroupVersionKind(operators().WithKind("Subscription"))
	key := client.ObjectKey{Namespace: "openshift-cluster-csi-drivers", Name: "aws-efs-csi-driver-operator"}
	env.Must(t, cluster.Client.Get(t.Context(), key, subscription))
	var spec subscriptionSpec
	decode(t, *subscription, &spec)
	want := []corev1.EnvVar{
		{Name: "ROLEARN", Value: "arn:aws:iam::123456789012:role/efs-csi-controller"},
		{Name: "NODE_ROLEARN", Value: "arn:aws:iam::123456789012:role/efs-csi-node"},
	}
	if diff := cmp.Diff(want, spec.Config.Env); diff != "" || spec.InstallPlanApproval != "Manual" {
		t.Errorf("installPlanApproval %q, roles (-want +got):\n%s", spec.InstallPlanApproval, diff)
	}
}

// mirrored checks that the nodes know where every image is that the lists for mirrors have.
func mirrored(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	for kind, field := range map[string]string{"ImageTagMirrorSet": "imageTagMirrors", "ImageDigestMirrorSet": "imageDigestMirrors"} {
		list := listOf(schema.GroupVersion{Group: "config.openshift.io", Version: "v1"}, kind)
		env.Must(t, cluster.Client.List(t.Context(), list))
		if len(list.Items) != 1 {
			t.Fatalf("%d objects of kind %s", len(list.Items), kind)
		}
		mirrors, _, err := unstructured.NestedSlice(list.Items[0].Object, "spec", field)
		env.Must(t, err)
		text, err := yaml.Marshal(mirrors)
		env.Must(t, err)
		if len(mirrors) < 5 || strings.Contains(string(text), "mirror.example.com") {
			t.Errorf("%s is not for the reader's mirror:\n%s", kind, text)
		}
	}
}

func TestWhatTheGuidesNameIsThere(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	var guides []string
	for _, pattern := range []string{"docs/guide/*.md", "docs/contribute/*.md", "docs/*.md", "*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		env.Must(t, err)
		guides = append(guides, found...)
	}
	current, err := release.Load(os.DirFS(root))
	env.Must(t, err)
	var images []string
	for _, image := range append(current.Images, current.Packaging...) {
		images = append(images, image.Image[:strings.LastIndex(image.Image, ":")])
	}
	toLink, toFile := regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`), regexp.MustCompile(`\b(bundle|config|docs)/[\w./-]*\w`)
	toImage := regexp.MustCompile(`quay\.io/csi-operators/[\w/.-]*\w`)
	anchors := map[string]map[string]bool{}
	for _, guide := range guides {
		text, err := os.ReadFile(guide)
		env.Must(t, err)
		name := filepath.Base(guide)
		for _, link := range toLink.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(link[1], "://") {
				linked(t, anchors, guide, link[1], link[2])
			}
		}
		for _, file := range toFile.FindAllString(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil && !strings.HasSuffix(file, "-") && name == "install.md" {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, image := range toImage.FindAllString(string(text), -1) {
			if !slices.Contains(images, image) {
				t.Errorf("%s: %s has no image %s", name, release.ImagesFile, image)
			}
		}
	}
}

// linked follows a link in a guide to its file and its heading. It keeps the anchors of each file.
func linked(t *testing.T, anchors map[string]map[string]bool, from, file, anchor string) {
	t.Helper()
	target := from
	if file != "" {
		target = filepath.Join(filepath.Dir(from), filepath.FromSlash(file))
	}
	if _, err := os.Stat(target); err != nil {
		t.Errorf("%s: a link: %v", filepath.Base(from), err)
		return
	}
	if anchor == "" {
		return
	}
	if anchors[target] == nil {
		anchors[target] = anchorsOf(t, target)
	}
	if !anchors[target][anchor] {
		t.Errorf("%s: %s has no heading for %s", filepath.Base(from), filepath.Base(target), anchor)
	}
}

// anchorsOf are those of the headings of a file.
func anchorsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	env.Must(t, err)
	found, others := map[string]bool{}, regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		letters := others.ReplaceAllString(strings.ToLower(heading[1]), "")
		found["#"+strings.ReplaceAll(letters, " ", "-")] = true
	}
	return found
}
