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
	// Without a driver, this command deletes nothing, and lists what is left.
	remains, err := p.remains(ctx)
	if err != nil {
		return "", err
	}
	if err := p.note(ctx, remains.Left); err != nil {
		return "", err
	}
	p.owns = true
	if p.older != "" {
		if err := p.installOlder(ctx); err != nil {
			return "", err
		}
	} else if _, err := p.oc(ctx, slices.Concat(p.installation(), []string{"--yes", "--watch", "--timeout", p.patience.String()})...); err != nil {
		return "", err
	}
	if err := p.versions(ctx); err != nil {
		return "", err
	}
	return "oc storage install efs: the driver is available, with operator " + p.facts.operator, nil
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

// installOlder applies what the installation would apply, but for the image of the catalog.
func (p *proof) installOlder(ctx context.Context) error {
	text, err := p.oc(ctx, append(p.installation(), "--dry-run", "-o", "json")...)
	if err != nil {
		return err
	}
	var plan install.Plan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		return fmt.Errorf("oc storage install efs --dry-run: %w", err)
	}
	for _, object := range plan.Objects {
		if object.GetKind() == "CatalogSource" {
			if err := unstructured.SetNestedField(object.Object, p.older, "spec", "image"); err != nil {
				return err
			}
		}
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		// It is the field manager of the plugin, which changes the image later.
		if _, err := p.command(ctx, string(text), "oc", "apply", "--server-side", "--field-manager=oc-storage", "-f", "-"); err != nil {
			return err
		}
	}
	return p.until(ctx, "the driver of the earlier release is available", func() error { return p.available(ctx, "") })
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
	}{{"Available", operatorv1.ConditionTrue}, {"Progressing", operatorv1.ConditionFalse}} {
		if !slices.ContainsFunc(cr.Status.Conditions, func(one operatorv1.OperatorCondition) bool {
			return one.Type == want.kind && one.Status == want.status
		}) {
			return fmt.Errorf("condition %s of the ClusterCSIDriver is not %s", want.kind, want.status)
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

// upgrade changes the catalog to that of the plugin, while a pod writes.
func (p *proof) upgrade(ctx context.Context) (string, error) {
	switch {
	case p.older == "":
		return "", skip("OLDER= names no catalog of an earlier release")
	case !p.owns:
		return "", skip("%s", notOurs)
	}
	before := p.facts.operator
	seen, err := p.whileWriting(ctx, func() error {
		if _, err := p.oc(ctx, append(p.installation(), "--yes", "--watch", "--timeout", p.patience.String())...); err != nil {
			return err
		}
		return p.until(ctx, "the driver is that of the new release", func() error { return p.available(ctx, before) })
	})
	if err := errors.Join(err, p.versions(ctx)); err != nil {
		return "", err
	}
	return fmt.Sprintf("From %s to %s by the channel of the catalog. %s", before, p.facts.operator, seen), nil
}

// remains is what an uninstallation prints. Without a ClusterCSIDriver it only looks.
func (p *proof) remains(ctx context.Context) (install.Remains, error) {
	var found install.Remains
	text, err := p.oc(ctx, "storage", "uninstall", "efs", "--yes", "--timeout", p.patience.String(), "-o", "json")
	if err != nil {
		return found, err
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return found, fmt.Errorf("oc storage uninstall efs: %w", err)
	}
	return found, nil
}

// uninstall removes the driver and its operator, and what OLM leaves of them. It keeps what was there before the installation.
func (p *proof) uninstall(ctx context.Context, before []string) (string, error) {
	// An operator that OLM is still installing would come after its removal.
	installing := &unstructured.Unstructured{}
	if err := p.until(ctx, "OLM has installed the operator", func() error {
		there, err := p.get(ctx, installing, "-n", kube.DefaultNamespace, subscription, awsefs.Operator)
		if csv, _, _ := unstructured.NestedString(installing.Object, "status", "installedCSV"); err == nil && there && csv == "" {
			err = errors.New("its Subscription names no installedCSV")
		}
		return err
	}); err != nil {
		return "", err
	}
	remains, err := p.remains(ctx)
	if err != nil {
		return "", err
	}
	if remains.Subscription != "" {
		if _, err := p.oc(ctx, "-n", kube.DefaultNamespace, "delete", "--ignore-not-found", subscription, awsefs.Operator); err != nil {
			return "", err
		}
	}
	if csv := remains.CSV; csv != "" {
		if _, err := p.oc(ctx, "-n", kube.DefaultNamespace, "delete", "--ignore-not-found", "clusterserviceversions.operators.coreos.com", csv); err != nil {
			return "", err
		}
	}
	if err := p.deleteLease(ctx); err != nil {
		return "", err
	}
	// What OLM has owned is gone by now: what is listed again is left.
	if remains, err = p.remains(ctx); err != nil {
		return "", err
	}
	for _, left := range remains.Left {
		if slices.Contains(before, left.Object) {
			continue
		}
		if _, err := p.oc(ctx, append(strings.Fields(left.Command)[1:], "--ignore-not-found")...); err != nil {
			return "", err
		}
	}
	return "oc storage uninstall efs, then the operator, its catalog and its CRD", nil
}

// deleteLease deletes the Lease of the operator once that is gone. OLM takes its rights first, so that it can't release the Lease itself.
func (p *proof) deleteLease(ctx context.Context) error {
	if _, err := p.oc(ctx, "-n", kube.DefaultNamespace, "wait", "--for=delete", "deployment/"+awsefs.Operator,
		"--timeout", p.patience.String()); err != nil {
		return err
	}
	_, err := p.oc(ctx, "-n", kube.DefaultNamespace, "delete", "lease", "--ignore-not-found", awsefs.Operator+"-lock")
	return err
}
