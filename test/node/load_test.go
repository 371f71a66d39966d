package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

const (
	// few is how many claims load makes in TestTheDriversOfAWSShareANode, and many in TestManyVolumes, which only "make soak" runs.
	few, many = 20, 200
	// claimsOfAPod is how many claims one pod has.
	claimsOfAPod = 10
	// user is the namespace of the pods and the claims.
	user = "user"
	// driverController is the ServiceAccount of all containers in the controller's pod of EBS.
	driverController = "system:serviceaccount:" + namespace + ":aws-ebs-csi-driver-controller-sa"
)

// As many volumes as "make soak" makes are made, mounted, written and deleted on one node and on three, and nothing is left.
func TestManyVolumes(t *testing.T) {
	env.OnlySoak(t)
	for nodes, flags := range map[int][]string{
		1: {"--topology", "SingleReplica", "--real-nodes", "1"},
		3: {"--nodes", "3", "--real-nodes", "3"},
	} {
		t.Run(fmt.Sprintf("on nodes %d", nodes), func(t *testing.T) {
			open(t, flags...)
			inOneZone(t)
			if t.Run("the payload comes to its release", installPayload) {
				load(t, many, nodes)
			}
		})
	}
}

// inOneZone moves all nodes to the zone that the recorder reports as the driver: the kubelet registers no driver whose zone differs from its node's.
func inOneZone(t *testing.T) {
	t.Helper()
	for _, name := range suite.nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		patch := env.Merge(fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, corev1.LabelTopologyZone, zone))
		env.Must(t, suite.cluster.Client.Patch(t.Context(), node, patch))
	}
}

// load makes claims of EBS, mounts each in a pod that writes to it and reads it, and deletes them. It logs what that has cost. The operators have
// nothing to do meanwhile, and nothing is left.
func load(t *testing.T, claims, nodes int) {
	ctx := t.Context()
	env.Must(t, suite.cluster.Namespace(ctx, user))
	before, err := measure(ctx)
	env.Must(t, err)
	mark, err := suite.cluster.Audit.Now()
	env.Must(t, err)
	begin := time.Now()
	lap := func(what string) {
		t.Logf("%d claims %s after %s", claims, what, time.Since(begin).Round(time.Millisecond))
	}

	pods := []*corev1.Pod{}
	for i := range claims {
		if i%claimsOfAPod == 0 {
			pods = append(pods, writer(len(pods), nodes))
		}
		env.Must(t, suite.cluster.Client.Create(ctx, claim(pods[len(pods)-1], i)))
	}
	for _, pod := range pods {
		env.Must(t, suite.cluster.Client.Create(ctx, pod))
	}
	patiently(t, "all pods have written", func() error { return ready(ctx, pods) })
	lap("written")
	during, err := measure(ctx)
	env.Must(t, err)
	used := map[string]bool{}
	for _, pod := range pods {
		used[pod.Spec.NodeName] = true
		env.Must(t, suite.cluster.Client.Delete(ctx, pod))
	}
	if len(used) != nodes {
		t.Errorf("the pods run on %d nodes, want %d", len(used), nodes)
	}
	env.Must(t, suite.cluster.Client.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace(user)))
	patiently(t, "nothing is left", func() error { return nothing(ctx) })
	lap("gone")
	after, err := measure(ctx)
	env.Must(t, err)
	t.Log(after.since(before, during))
	requests(t, mark)
}

// patiently is eventually for what takes its time on few processors.
func patiently(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := env.AwaitFor(t.Context(), 10*time.Minute, what, check); err != nil {
		show(t)
		t.Fatal(err)
	}
}

// requests logs how many requests the programs have made, and fails if the operators had to do something.
func requests(t *testing.T, mark env.Mark) {
	operators := []string{env.OperatorUser, env.CSOUser, env.DriverOperatorUser(ebsOperator)}
	for _, name := range append(operators, driverController) {
		found, err := suite.cluster.Audit.Since(mark, name)
		env.Must(t, err)
		// client-go tries an event again after ten seconds, so an event of before may be written now.
		found = slices.DeleteFunc(found, func(one env.Request) bool { return one.IsLease() || one.Object.Resource == "events" })
		writes := env.Filter(found, env.Request.IsWrite)
		t.Logf("%s: %d requests, %d of them writes", name, len(found), len(writes))
		if slices.Contains(operators, name) && len(writes) > 0 {
			t.Errorf("volumes come and go, and %s writes:\n%s", name, env.Describe(writes))
		}
	}
}

// writer is a pod that writes to all of its volumes, and is ready when it has read what it wrote.
func writer(index, nodes int) *corev1.Pod {
	name, grace := fmt.Sprintf("writer-%d", index), int64(1)
	const script = `for at in /data/*; do echo "$at" > "$at/file" && sync && grep -qx "$at" "$at/file" || exit 1; done; touch /done; exec sleep 100000`
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: user, Name: name, Labels: map[string]string{"app": "writer"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "writer", Image: "devcluster.local/busybox:1", Command: []string{"sh", "-c", script},
				ReadinessProbe: &corev1.Probe{
					PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"cat", "/done"}}},
				},
			}},
		},
	}
	if nodes > 1 {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		}}
	}
	return pod
}

// claim is a PVC of the default class, which the pod mounts.
func claim(pod *corev1.Pod, index int) *corev1.PersistentVolumeClaim {
	name := fmt.Sprintf("claim-%d", index)
	container := &pod.Spec.Containers[0]
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/data/" + name})
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}})
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: user, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// ready returns an error unless all pods are.
func ready(ctx context.Context, pods []*corev1.Pod) error {
	var problems []error
	for _, pod := range pods {
		if err := suite.cluster.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		problems = append(problems, running(pod))
	}
	return errors.Join(problems...)
}

// nothing returns an error that names what is left of volumes: in the cluster, and on the nodes.
func nothing(ctx context.Context) error {
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}, &storagev1.VolumeAttachmentList{},
	} {
		options := []client.ListOption{}
		switch list.(type) {
		case *corev1.PodList, *corev1.PersistentVolumeClaimList:
			options = append(options, client.InNamespace(user))
		}
		if err := suite.cluster.Client.List(ctx, list, options...); err != nil {
			return err
		}
		if left := meta.LenList(list); left > 0 {
			return fmt.Errorf("%T has %d entries", list, left)
		}
	}
	return mounted()
}
