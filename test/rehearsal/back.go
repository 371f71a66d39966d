package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// goBack goes back to the older version as docs/guide/going-back.md says, and upgrades again. Each operator is killed once in the middle of its work.
// The pod with a volume goes on writing.
func (r *rehearsal) goBack(ctx context.Context) error {
	older, err := r.newest(ctx, filepath.Join(r.file("older"), "bundle/install/1-catalogsource.yaml"))
	if err != nil {
		return err
	}
	newer, err := r.newest(ctx, r.published("bundle/install/1-catalogsource.yaml"))
	if err != nil {
		return err
	}
	before, err := r.kept(ctx)
	if err != nil {
		return err
	}
	r.say("Going back: deleting %s and installing %s.", newer.csv.Name, older.csv.Name)
	if err := r.change(ctx, older, func(ctx context.Context) error {
		if err := r.olm.Uninstall(ctx, newer.csv.Name); err != nil {
			return err
		}
		return r.olm.Install(ctx, older.csv, env.OperatorNamespace)
	}, before); err != nil {
		return err
	}
	r.say("Upgrading to %s again.", newer.csv.Name)
	return r.change(ctx, newer, func(ctx context.Context) error { return r.olm.Upgrade(ctx, older.csv.Name, newer.csv) }, before)
}

// change changes the version of the operator while the pod writes, and kills the operator as soon as it runs. kept must stay the same.
func (r *rehearsal) change(ctx context.Context, to version, do func(context.Context) error, kept []string) error {
	if err := r.whileWriting(ctx, func(ctx context.Context) error {
		if err := do(ctx); err != nil {
			return err
		}
		if err := env.AwaitFor(ctx, patience, "the operator at work", func() error { return r.works(ctx, to) }); err != nil {
			return err
		}
		// Without a grace period the kubelet sends SIGKILL.
		if _, err := r.cluster.Kubectl(ctx, "-n", env.OperatorNamespace, "delete", "pods", "-l", "app="+env.OperatorName,
			"--grace-period=0", "--force"); err != nil {
			return err
		}
		if err := env.AwaitFor(ctx, patience, "another pod of the operator ready", func() error { return r.operatorRuns(ctx, to) }); err != nil {
			return err
		}
		return r.settled(ctx, to)
	}); err != nil {
		return err
	}
	now, err := r.kept(ctx)
	if err == nil && !slices.Equal(kept, now) {
		err = fmt.Errorf("the change to %s did not keep all (-before +after):\n%s", to.csv.Name, cmp.Diff(kept, now))
	}
	return err
}

// works returns an error until an operator has begun to change the driver, or has done it already.
func (r *rehearsal) works(ctx context.Context, wanted version) error {
	cr := env.EFS("")
	if err := r.cluster.Client.Get(ctx, client.ObjectKeyFromObject(cr), cr); err != nil {
		return err
	}
	if cr.Status.Version == wanted.csv.Version.String() || slices.ContainsFunc(cr.Status.Conditions, func(each operatorv1.OperatorCondition) bool {
		return strings.HasSuffix(each.Type, operatorv1.OperatorStatusTypeProgressing) && each.Status == operatorv1.ConditionTrue
	}) {
		return nil
	}
	return fmt.Errorf("the ClusterCSIDriver is at version %q, and does not progress", cr.Status.Version)
}

// kept lists what no change of the version may replace, with UIDs, finalizers and restarts: the ClusterCSIDriver, the volume, its PVC and the pod.
func (r *rehearsal) kept(ctx context.Context) ([]string, error) {
	var found []string
	for _, list := range []string{"clustercsidrivers", "persistentvolumes", "persistentvolumeclaims"} {
		lines, err := r.cluster.Kubectl(ctx, "get", list, "-A", "-o",
			`jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.metadata.finalizers}{"\n"}{end}`)
		if err != nil {
			return nil, err
		}
		found = append(found, strings.Fields(strings.ReplaceAll(lines, " ", "_"))...)
	}
	pod := &corev1.Pod{}
	if err := r.cluster.Client.Get(ctx, client.ObjectKeyFromObject(r.pod), pod); err != nil {
		return nil, err
	}
	return append(found, fmt.Sprintf("Pod %s %s, %d restarts", pod.Name, pod.UID, pod.Status.ContainerStatuses[0].RestartCount)), nil
}
