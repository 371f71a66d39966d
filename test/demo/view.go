package main

import (
	"context"
	"fmt"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// view prints what happens in the cluster as it happens: what the operator writes, found in the audit log, and the
// driver's pods, node by node.
type view struct {
	*demo
	mark     env.Mark
	seen     int
	requests int
	// nodes maps a node to the pod of the driver that was last seen ready there.
	nodes map[string]string
	// before maps the driver's pods, as they were at the beginning, to their nodes.
	before map[string]string
	// replaced are the nodes in the order in which the operator deleted these pods. One look may find several pods ready, so that looks don't tell the
	// order.
	replaced []string
}

// view starts to look from now on.
func (d *demo) view(ctx context.Context) (*view, error) {
	mark, err := d.cluster.Audit.Now()
	if err != nil {
		return nil, err
	}
	v := &view{demo: d, mark: mark, nodes: map[string]string{}, before: map[string]string{}}
	pods, err := v.pods(ctx)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		v.before[pod.Name] = pod.Spec.NodeName
		if isReady(pod) {
			v.nodes[pod.Spec.NodeName] = pod.Name
		}
	}
	return v, nil
}

// show prints what is new.
func (v *view) show(ctx context.Context) error {
	requests, err := v.cluster.Audit.Since(v.mark, env.OperatorUser)
	if err != nil {
		return err
	}
	for _, request := range requests[v.seen:] {
		if request.IsLease() || request.Verb == "watch" {
			continue
		}
		v.requests++
		v.print(request)
		v.note(request)
	}
	v.seen = len(requests)
	pods, err := v.pods(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if isReady(pod) && v.nodes[pod.Spec.NodeName] != pod.Name {
			v.nodes[pod.Spec.NodeName] = pod.Name
			what := "the driver is ready"
			if len(v.before) > 0 {
				what = "the new pod of the driver is ready"
			}
			v.say("  node %-10s %s (%d of %d nodes)", pod.Spec.NodeName, what, v.ready(pods), v.demo.nodes)
		}
	}
	return nil
}

// note remembers the node of a pod that the operator has deleted.
func (v *view) note(request env.Request) {
	node := v.before[request.Object.Name]
	if request.Verb == "delete" && request.Object.Resource == "pods" && request.Response.Code < 400 && node != "" && !slices.Contains(v.replaced, node) {
		v.replaced = append(v.replaced, node)
	}
}

// print shows a write; reads and reports of the status say nothing to a spectator.
func (v *view) print(request env.Request) {
	switch {
	case request.Object.Subresource != "" || request.Response.Code >= 400:
	case request.Verb == "patch" && request.Response.Code == 201:
		v.say("  + %s %s", request.Object.Resource, request.Object.Name)
	case request.Verb == "patch":
		v.say("  ~ %s %s", request.Object.Resource, request.Object.Name)
	case request.Verb == "delete":
		v.say("  - %s %s", request.Object.Resource, request.Object.Name)
	}
}

// ready counts the nodes whose pod was shown as ready. A pod from before this view does not count.
func (v *view) ready(pods []corev1.Pod) int {
	count := 0
	for _, pod := range pods {
		if _, old := v.before[pod.Name]; !old && isReady(pod) && v.nodes[pod.Spec.NodeName] == pod.Name {
			count++
		}
	}
	return count
}

// pods are the driver's node pods that are not being deleted, by node.
func (v *view) pods(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := v.cluster.Client.List(ctx, list, client.InNamespace(env.OperatorNamespace), client.MatchingLabels{"app": "efs-csi-node"})
	if err != nil {
		return nil, fmt.Errorf("list the driver's pods: %w", err)
	}
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	sort.Slice(pods, func(i, j int) bool { return pods[i].Spec.NodeName < pods[j].Spec.NodeName })
	return pods, nil
}

func isReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}
