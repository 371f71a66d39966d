package e2e

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

func everyDeletedObjectComesBack(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	if len(owned) != allObjects {
		t.Fatalf("%d objects are managed, want %d", len(owned), allObjects)
	}
	var repairs []time.Duration
	for i := range owned {
		object := &owned[i]
		name := object.GetKind() + " " + object.GetName()
		want := env.Content(object)
		started := time.Now()
		env.Must(t, cluster.Client.Delete(t.Context(), object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
		env.Eventually(t, name+" restored", func() error { return restored(t, cluster, object, want, true) })
		repairs = append(repairs, time.Since(started))
	}
	sort.Slice(repairs, func(i, j int) bool { return repairs[i] < repairs[j] })
	t.Logf("repair of a deleted object: median %s, slowest %s", repairs[len(repairs)/2], repairs[len(repairs)-1])
	env.Eventually(t, "settled again", func() error { return cluster.Settled(t.Context()) })
}

// damage is a change that a user makes to an object of the operator.
type damage struct {
	kind, name string
	// patch is a JSON patch.
	patch string
}

func everyDamageIsUndone(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	const daemonSet, deployment = "efs-csi-node", "aws-efs-csi-driver-controller"
	cases := map[string]damage{
		"a container is added to the node pods": {"daemonset", daemonSet,
			`[{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"extra","image":"registry.example/extra:1"}}]`},
		"an init container is added": {"daemonset", daemonSet,
			`[{"op":"add","path":"/spec/template/spec/initContainers","value":[{"name":"extra","image":"registry.example/extra:1"}]}]`},
		"a container is removed": {"daemonset", daemonSet,
			`[{"op":"remove","path":"/spec/template/spec/containers/1"}]`},
		"an argument is added": {"daemonset", daemonSet,
			`[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--debug"}]`},
		"an argument is changed": {"deployment", deployment,
			`[{"op":"replace","path":"/spec/template/spec/containers/0/args/2","value":"--delete-access-point-root-dir=true"}]`},
		"all arguments are removed": {"deployment", deployment,
			`[{"op":"remove","path":"/spec/template/spec/containers/0/args"}]`},
		"an environment variable is added": {"deployment", deployment,
			`[{"op":"add","path":"/spec/template/spec/containers/0/env/-","value":{"name":"EXTRA","value":"1"}}]`},
		"a node selector is added": {"daemonset", daemonSet,
			`[{"op":"add","path":"/spec/template/spec/nodeSelector/disk","value":"ssd"}]`},
		"a default is changed": {"daemonset", daemonSet,
			`[{"op":"replace","path":"/spec/template/spec/terminationGracePeriodSeconds","value":5}]`},
		"an image is changed": {"daemonset", daemonSet,
			`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"registry.example/other:1"}]`},
		"a memory limit is added": {"daemonset", daemonSet,
			`[{"op":"add","path":"/spec/template/spec/containers/0/resources/limits","value":{"memory":"64Mi"}}]`},
		"a volume is added": {"deployment", deployment,
			`[{"op":"add","path":"/spec/template/spec/volumes/-","value":{"name":"extra","emptyDir":{}}}]`},
		"the deployment is scaled": {"deployment", deployment,
			`[{"op":"replace","path":"/spec/replicas","value":0}]`},
		"the deployment is paused": {"deployment", deployment,
			`[{"op":"add","path":"/spec/paused","value":true}]`},
		"a rule is added to a ClusterRole": {"clusterrole", "efs-csi-provisioner-role",
			`[{"op":"add","path":"/rules/-","value":{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}}]`},
		"a rule of a ClusterRole is changed": {"clusterrole", "efs-csi-provisioner-role",
			`[{"op":"replace","path":"/rules/0/verbs","value":["get"]}]`},
		"all rules of a Role are removed": {"role", "aws-efs-csi-driver-prometheus",
			`[{"op":"remove","path":"/rules"}]`},
		"a subject is added to a binding": {"clusterrolebinding", "efs-node-privileged-binding",
			`[{"op":"add","path":"/subjects/-","value":{"kind":"User","name":"mallory","apiGroup":"rbac.authorization.k8s.io"}}]`},
		"a subject of a RoleBinding is changed": {"rolebinding", "aws-efs-csi-driver-prometheus",
			`[{"op":"replace","path":"/subjects/0/name","value":"mallory"}]`},
		"our label on a ConfigMap is changed": {"configmap", "aws-efs-csi-driver-trusted-ca-bundle",
			`[{"op":"replace","path":"/metadata/labels/config.openshift.io~1inject-trusted-cabundle","value":"false"}]`},
		"the dashboard is changed": {"configmap", "aws-efs-csi-driver-dashboard",
			`[{"op":"replace","path":"/data/aws-efs-csi-driver.json","value":"{}"},{"op":"add","path":"/data/more.json","value":"{}"}]`},
		"the label that marks our objects is removed": {"configmap", "aws-efs-csi-driver-trusted-ca-bundle",
			`[{"op":"remove","path":"/metadata/labels/app.kubernetes.io~1managed-by"}]`},
		"an annotation of ours is removed": {"service", "aws-efs-csi-driver-controller-metrics",
			`[{"op":"remove","path":"/metadata/annotations/service.beta.openshift.io~1serving-cert-secret-name"}]`},
		"a port is added to the Service": {"service", "aws-efs-csi-driver-controller-metrics",
			`[{"op":"add","path":"/spec/ports/-","value":{"name":"extra","port":99}}]`},
		"the ServiceMonitor is changed": {"servicemonitor", "aws-efs-csi-driver-controller-monitor",
			`[{"op":"replace","path":"/spec/endpoints/0/path","value":"/other"}]`},
		"the disruption budget is changed": {"poddisruptionbudget", "aws-efs-csi-driver-controller-pdb",
			`[{"op":"replace","path":"/spec/maxUnavailable","value":2}]`},
		"the CSIDriver is changed": {"csidriver", "efs.csi.aws.com",
			`[{"op":"replace","path":"/spec/podInfoOnMount","value":true}]`},
		"permissions are added to a CredentialsRequest": {"credentialsrequest", "openshift-aws-efs-csi-driver",
			`[{"op":"add","path":"/spec/providerSpec/statementEntries/0/action/-","value":"elasticfilesystem:*"}]`},
		"volume expansion is allowed in the StorageClass": {"storageclass", "efs-sc",
			`[{"op":"add","path":"/allowVolumeExpansion","value":true}]`},
		"a ServiceAccount stops to mount its token": {"serviceaccount", "aws-efs-csi-driver-node-sa",
			`[{"op":"add","path":"/automountServiceAccountToken","value":false}]`},
		"the managed fields are wiped": {"daemonset", daemonSet,
			`[{"op":"replace","path":"/metadata/managedFields","value":[{}]},{"op":"replace","path":"/spec/template/spec/hostNetwork","value":false}]`},
	}
	keepEarlierClass(t, cluster)
	t.Cleanup(func() { dropEarlierClass(t, cluster) })
	env.Quiet(t, operator)
	// What an object is to be is read before the first damage: some damage is undone by two writes, between which the object looks restored.
	kinds, wanted := map[string]bool{}, map[string]map[string]any{}
	for _, tc := range cases {
		object := find(t, cluster, tc)
		kinds[object.GetKind()], wanted[tc.kind+tc.name] = true, env.Content(object)
	}
	for _, ofPods := range []bool{false, true} {
		for _, round := range rounds(cases, ofPods) {
			t.Run(strings.Join(slices.Sorted(maps.Keys(round)), ", "), func(t *testing.T) {
				env.Eventually(t, "settled before", func() error { return cluster.Settled(t.Context()) })
				before := generations(t, cluster)
				inflict(t, cluster, round, wanted)
				if !ofPods {
					settle(t, cluster, operator, before)
				}
			})
		}
	}
	if len(kinds) != 14 {
		t.Errorf("kinds damaged: %v, want all 14", kinds)
	}
}

// rounds puts damage of different objects together, and never twice of one. Damage of pods, which are rolled out, is apart.
func rounds(cases map[string]damage, ofPods bool) []map[string]damage {
	var all []map[string]damage
	count := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		tc := cases[name]
		if isPods := tc.kind == "daemonset" || tc.kind == "deployment"; isPods != ofPods {
			continue
		}
		round := count[tc.kind+tc.name]
		count[tc.kind+tc.name]++
		if round == len(all) {
			all = append(all, map[string]damage{})
		}
		all[round][name] = tc
	}
	return all
}

// inflict damages objects, and waits until all are as wanted.
func inflict(t *testing.T, cluster *env.Cluster, round map[string]damage, wanted map[string]map[string]any) {
	t.Helper()
	damaged := map[string]*unstructured.Unstructured{}
	for name, tc := range round {
		damaged[name] = find(t, cluster, tc)
		patch := client.RawPatch("application/json-patch+json", []byte(tc.patch))
		env.Must(t, cluster.Client.Patch(t.Context(), damaged[name].DeepCopy(), patch))
	}
	for name, object := range damaged {
		want := wanted[round[name].kind+round[name].name]
		env.Eventually(t, name+": the damage undone", func() error { return restored(t, cluster, object, want, false) })
	}
}

func labelsAndAnnotationsOfOthersStay(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	env.Quiet(t, operator)
	object := find(t, cluster, damage{kind: "daemonset", name: "efs-csi-node"})
	want := env.Content(object)
	env.Must(t, cluster.Client.Patch(t.Context(), object.DeepCopy(), client.RawPatch("application/json-patch+json", []byte(
		`[{"op":"add","path":"/metadata/labels/team","value":"storage"},{"op":"add","path":"/metadata/annotations/note","value":"mine"},
		  {"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--debug"}]`))))
	env.Eventually(t, "the argument undone", func() error { return restored(t, cluster, object, want, false) })
	live := find(t, cluster, damage{kind: "daemonset", name: "efs-csi-node"})
	if live.GetLabels()["team"] != "storage" || live.GetAnnotations()["note"] != "mine" {
		t.Errorf("labels %v and annotations %v have lost those of others", live.GetLabels(), live.GetAnnotations())
	}
}

func rolloutRestartIsHonoured(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	before := generations(t, cluster)
	_, err := cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "rollout", "restart", "daemonset/efs-csi-node")
	env.Must(t, err)
	env.Quiet(t, operator)
	object := find(t, cluster, damage{kind: "daemonset", name: "efs-csi-node"})
	annotations, _, err := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "annotations")
	env.Must(t, err)
	if annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Errorf("restartedAt is gone from %v", annotations)
	}
	if after := object.GetGeneration(); after != before.nodes+1 {
		t.Errorf("generation %d after %d: one roll-out for one request", after, before.nodes)
	}
}

func aBindingThatWasReplacedIsRestored(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	env.Quiet(t, operator)
	object := find(t, cluster, damage{kind: "clusterrolebinding", name: "efs-csi-provisioner-binding"})
	want := env.Content(object)
	// The role of a binding can't be changed, so a user who wants another one replaces the binding.
	evil := object.DeepCopy()
	evil.SetResourceVersion("")
	evil.SetUID("")
	evil.SetManagedFields(nil)
	env.Must(t, unstructured.SetNestedField(evil.Object, "cluster-admin", "roleRef", "name"))
	env.Eventually(t, "the binding replaced before the operator has restored it", func() error {
		err := cluster.Client.Delete(t.Context(), object.DeepCopy())
		if err := client.IgnoreNotFound(err); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		return cluster.Client.Create(t.Context(), evil.DeepCopy())
	})
	env.Eventually(t, "the binding restored", func() error { return restored(t, cluster, object, want, true) })
}

func anObjectWithoutOurFieldManagerIsTakenBack(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	role := find(t, cluster, damage{kind: "clusterrole", name: "efs-privileged-role"})
	// A backup that is restored has no managed fields of ours; removal would not find the object.
	wipe := `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`
	env.Must(t, cluster.Client.Patch(t.Context(), role.DeepCopy(), client.RawPatch("application/json-patch+json", []byte(wipe))))
	env.Eventually(t, "the ClusterRole ours again", func() error {
		owned, err := cluster.OwnedMetadata(t.Context(), env.OperatorName)
		if err == nil && len(owned) != allObjects {
			err = fmt.Errorf("%d of %d objects are ours", len(owned), allObjects)
		}
		return err
	})
}

func anAggregatedClusterRoleIsRestored(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	env.Quiet(t, operator)
	role := find(t, cluster, damage{kind: "clusterrole", name: "efs-privileged-role"})
	want := env.Content(role)
	patch := `[{"op":"add","path":"/aggregationRule","value":{"clusterRoleSelectors":[{"matchLabels":{"kubernetes.io/bootstrapping":"rbac-defaults"}}]}}]`
	env.Must(t, cluster.Client.Patch(t.Context(), role.DeepCopy(), client.RawPatch("application/json-patch+json", []byte(patch))))
	env.Eventually(t, "the ClusterRole restored", func() error { return restored(t, cluster, role, want, true) })
}

// find reads one object of the driver. Some damage is undone by two writes: a test that compares with what it finds waits until the operator is quiet.
func find(t *testing.T, cluster *env.Cluster, wanted damage) *unstructured.Unstructured {
	t.Helper()
	owned, err := cluster.OwnedMetadata(t.Context(), env.OperatorName)
	env.Must(t, err)
	for _, one := range owned {
		if strings.EqualFold(one.Kind, wanted.kind) && one.Name == wanted.name {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(one.GroupVersionKind())
			env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(one), object))
			return object
		}
	}
	t.Fatalf("%s %s is not in the cluster", wanted.kind, wanted.name)
	return nil
}

// restored checks that an object is again as it was, and a new one if it had been deleted.
func restored(t *testing.T, cluster *env.Cluster, object *unstructured.Unstructured, want map[string]any, anew bool) error {
	t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), live); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if anew == (live.GetUID() == object.GetUID()) {
		return fmt.Errorf("UID %s, before %s", live.GetUID(), object.GetUID())
	}
	if live.GetResourceVersion() == object.GetResourceVersion() {
		return fmt.Errorf("resource version %s is the one from before the damage", live.GetResourceVersion())
	}
	if got := env.Content(live); !reflect.DeepEqual(want, got) {
		return fmt.Errorf("is not as it was:\nwant %v\ngot  %v", want, got)
	}
	return nil
}
