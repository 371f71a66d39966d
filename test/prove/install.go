package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin/install"
)

// subscription is OLM's: oc may know other kinds of this name.
const subscription = "subscriptions.operators.coreos.com"

// notOurs is why a step is skipped that would change the driver.
const notOurs = "this run has not installed the driver"

// nodeDaemonSet has the node pods.
const nodeDaemonSet = "efs-csi-node"

// install installs the driver, unless the cluster has it. Before that it notes down what is there, so that the clean-up keeps it.
func (p *proof) install(ctx context.Context) (string, error) {
	cr := &operatorv1.ClusterCSIDriver{}
	hasDriver, err := p.get(ctx, cr, "clustercsidrivers.operator.openshift.io", awsefs.Name)
	if err != nil {
		return "", err
	}
	hasOperator, err := p.get(ctx, &unstructured.Unstructured{}, "-n", kube.DefaultNamespace, subscription, awsefs.Operator)
	if err != nil {
		return "", err
	}
	if hasDriver || hasOperator {
		if err := p.versions(ctx); err != nil {
			return "", err
		}
		return "", skip("the cluster had an operator or a driver of EFS before")
	}
	before, err := p.read(ctx)
	if err != nil {
		return "", err
	}
	users, err := p.usersOfDriver(ctx, before)
	if err != nil {
		return "", err
	}
	if need := users.all(); len(need) > 0 {
		return "", fmt.Errorf("this run would remove the driver at its end, but others need it: %s. Delete these, or install the driver yourself first",
			strings.Join(need, ", "))
	}
	noted := &record{Run: p.id, Before: before.names(), Made: map[string]types.UID{}}
	if err := p.note(ctx, noted); err != nil {
		return "", err
	}
	p.owns, p.noted = true, noted
	// Even a Ctrl-C leaves what was created until then. After a failure, OLM may have installed what others have subscribed to.
	err, of := p.createPlan(ctx), ofOLM
	if err != nil {
		of = ofNone
	}
	if _, other := p.noteMade(context.WithoutCancel(ctx), noted, of); errors.Join(err, other) != nil {
		return "", errors.Join(err, other)
	}
	if err := p.untilAvailable(ctx, "the driver is available", ""); err != nil {
		return "", err
	}
	if err := p.versions(ctx); err != nil {
		return "", err
	}
	return "With the objects of oc storage install efs, the driver is available, with operator " + p.facts.operator, nil
}

// installation is the command that installs the driver.
func (p *proof) installation() []string {
	args := []string{"storage", "install", "efs"}
	if p.role != "" {
		args = append(args, "--role-arn", p.role)
	}
	if p.nodeRole != "" {
		args = append(args, "--node-role-arn", p.nodeRole)
	}
	return args
}

// plan reads what "oc storage install efs" would apply. If the plugin refuses, its reasons precede the objects, and the last lines lack them.
func (p *proof) plan(ctx context.Context) (install.Plan, error) {
	var plan install.Plan
	text, err := p.oc(ctx, append(p.installation(), "--dry-run", "-o", "json")...)
	unread := json.Unmarshal([]byte(text), &plan)
	var lacks []string
	for _, one := range plan.Checks {
		if one.State == "missing" {
			lacks = append(lacks, one.Name+": "+one.Text)
		}
	}
	switch {
	case err != nil && len(lacks) > 0:
		return plan, fmt.Errorf("oc storage install efs refuses: %s (ROLEARN= of make prove is --role-arn, and NODE_ROLEARN= is --node-role-arn)",
			strings.Join(lacks, "; "))
	case err != nil:
		return plan, err
	case unread != nil:
		return plan, fmt.Errorf("oc storage install efs --dry-run: %w", unread)
	}
	return plan, nil
}

// createPlan creates what "oc storage install efs" would apply and the cluster lacks, with the label of the run. Thus each object has the label from its
// creation. What others have created meanwhile is an error: "oc apply" would make it an object of this run. With OLDER=, that catalog replaces the one of
// the plan.
func (p *proof) createPlan(ctx context.Context) error {
	plan, err := p.plan(ctx)
	if err != nil {
		return err
	}
	for _, object := range plan.Objects {
		if object.GetKind() == "CatalogSource" && p.older != "" {
			if err := unstructured.SetNestedField(object.Object, p.older, "spec", "image"); err != nil {
				return err
			}
		}
		stays, err := p.keeps(ctx, object)
		if err != nil {
			return err
		}
		if stays {
			continue
		}
		// The clean-up keeps the Namespace, which other drivers share.
		if object.GetKind() != "Namespace" {
			object.SetLabels(map[string]string{runLabel: p.noted.Run})
		}
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		if err := p.create(ctx, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// changeCatalog gives the catalog that this run has created the image of the plan.
func (p *proof) changeCatalog(ctx context.Context) error {
	plan, err := p.plan(ctx)
	if err != nil {
		return err
	}
	for _, object := range plan.Objects {
		if nameOf(object) != catalogName {
			continue
		}
		image, _, _ := unstructured.NestedString(object.Object, "spec", "image")
		patch, err := json.Marshal([]map[string]any{
			{"op": "test", "path": "/metadata/uid", "value": p.noted.Made[catalogName]},
			{"op": "replace", "path": "/spec/image", "value": image},
		})
		if err != nil {
			return err
		}
		if _, err := p.oc(ctx, "-n", object.GetNamespace(), "patch", "catalogsources.operators.coreos.com", object.GetName(), "--type=json",
			"--patch", string(patch)); err != nil {
			return fmt.Errorf("change the image of %s with UID %s: %w", catalogName, p.noted.Made[catalogName], err)
		}
		return nil
	}
	return fmt.Errorf("oc storage install efs would not create %s", catalogName)
}

// keeps reports whether an object of the plan is of others, and stays as it is. It returns an error if the run needs another catalog.
func (p *proof) keeps(ctx context.Context, planned *unstructured.Unstructured) (bool, error) {
	there := &unstructured.Unstructured{}
	switch name := nameOf(planned); {
	case planned.GetKind() == "Namespace":
		return p.get(ctx, there, "namespace", planned.GetName())
	case !slices.Contains(p.noted.Before, name):
		return false, nil
	case planned.GetKind() != "CatalogSource":
		return true, nil
	case p.older != "":
		return true, fmt.Errorf("%s exists, and an upgrade would change its image: delete it first, unless another operator uses it, or omit OLDER=", name)
	}
	if _, err := p.get(ctx, there, "-n", planned.GetNamespace(), "catalogsources.operators.coreos.com", planned.GetName()); err != nil {
		return true, err
	}
	has, _, _ := unstructured.NestedString(there.Object, "spec", "image")
	if wants, _, _ := unstructured.NestedString(planned.Object, "spec", "image"); has != wants {
		return true, fmt.Errorf("%s exists with image %s, and this run would change it to %s: delete it first, unless another operator uses it",
			nameOf(planned), has, wants)
	}
	return true, nil
}

// available returns an error unless the driver is installed by a version of the operator that is not the one named.
func (p *proof) available(ctx context.Context, except string) error {
	cr := &operatorv1.ClusterCSIDriver{}
	if _, err := p.get(ctx, cr, "clustercsidrivers.operator.openshift.io", awsefs.Name); err != nil {
		return err
	}
	if cr.Status.Version == "" || cr.Status.Version == except || cr.Status.ObservedGeneration != cr.Generation {
		return fmt.Errorf("the ClusterCSIDriver is at version %q", cr.Status.Version)
	}
	for _, want := range []struct {
		kind   string
		status operatorv1.ConditionStatus
	}{{"Available", operatorv1.ConditionTrue}, {"Progressing", operatorv1.ConditionFalse}, {"Degraded", operatorv1.ConditionFalse}} {
		at := slices.IndexFunc(cr.Status.Conditions, func(one operatorv1.OperatorCondition) bool { return one.Type == want.kind })
		if at < 0 {
			return fmt.Errorf("the ClusterCSIDriver has no condition %s", want.kind)
		}
		if has := cr.Status.Conditions[at]; has.Status != want.status {
			return fmt.Errorf("condition %s of the ClusterCSIDriver is not %s: %s", want.kind, want.status, short(has.Message))
		}
	}
	return nil
}

// versions reads which operator and which driver run.
func (p *proof) versions(ctx context.Context) error {
	cr := &operatorv1.ClusterCSIDriver{}
	if _, err := p.get(ctx, cr, "clustercsidrivers.operator.openshift.io", awsefs.Name); err != nil {
		return err
	}
	p.facts.operator = cr.Status.Version
	nodes := &appsv1.DaemonSet{}
	if _, err := p.get(ctx, nodes, "-n", kube.DefaultNamespace, "daemonset", nodeDaemonSet); err != nil {
		return err
	}
	at := slices.IndexFunc(nodes.Spec.Template.Spec.Containers, func(one corev1.Container) bool { return one.Name == "csi-driver" })
	if at >= 0 {
		p.facts.driver = nodes.Spec.Template.Spec.Containers[at].Image
	}
	return nil
}

// upgrade changes the image of the catalog to that of the plugin, while a pod writes.
func (p *proof) upgrade(ctx context.Context) (string, error) {
	switch {
	case p.older == "":
		return "", skip("OLDER= names no catalog of an earlier release")
	case !p.owns:
		return "", skip("%s", notOurs)
	}
	before := p.facts.operator
	seen, err := p.whileWriting(ctx, func() error {
		if err := p.changeCatalog(ctx); err != nil {
			return err
		}
		return p.untilAvailable(ctx, "the driver is that of the new release", before)
	})
	if err := errors.Join(err, p.versions(ctx)); err != nil {
		return "", err
	}
	return fmt.Sprintf("From %s to %s by the channel of the catalog. %s", before, p.facts.operator, seen), nil
}
