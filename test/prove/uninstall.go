package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin/install"
)

const (
	// installing is how long a clean-up waits for OLM. A Subscription whose catalog can't be read never gets an operator.
	installing = 5 * time.Minute
	// sharedVolumes is the resource of SharedVolumes, and the name of its CRD.
	sharedVolumes = "sharedvolumes.aws-efs.managed.openshift.io"
)

// kept is why objects stay that the record does not name.
func kept(names ...string) error {
	return fmt.Errorf("the record of the installation does not have %s: others have created it since, or a run was killed right after its creation. "+
		"Delete it yourself, or, to keep it, run \"oc annotate namespace %s %s-\". Then run this command again with CLEAN=1",
		strings.Join(names, ", "), space, installed)
}

// uninstall removes the driver and its operator, and what OLM leaves of them, if these are still the objects of the record.
func (p *proof) uninstall(ctx context.Context, noted *record) (string, error) {
	now, err := p.read(ctx)
	if err != nil {
		return "", err
	}
	for _, name := range []string{driverName, subscriptionName} {
		if uid, there := now[name]; there && !noted.made(name, uid) {
			return "", kept(name)
		}
	}
	if now[subscriptionName] != "" {
		if err := p.finishInstallation(ctx); err != nil {
			return "", err
		}
		if err := p.noteMade(ctx, noted, ofOLM); err != nil {
			return "", err
		}
	}
	if now[driverName] != "" {
		if _, err := p.oc(ctx, "storage", "uninstall", "efs", "--yes", "--timeout", p.patience.String()); err != nil {
			return "", err
		}
	}
	if now[subscriptionName] != "" {
		if err := p.deleteSubscription(ctx); err != nil {
			return "", err
		}
	}
	if now, err = p.read(ctx); err != nil {
		return "", err
	}
	for _, name := range now.versions() {
		if !noted.made(name, now[name]) {
			continue
		}
		_, name, _ := strings.Cut(name, " ")
		if _, err := p.oc(ctx, "-n", kube.DefaultNamespace, "delete", "--ignore-not-found", "clusterserviceversions.operators.coreos.com", name); err != nil {
			return "", err
		}
	}
	if err := p.deleteLease(ctx); err != nil {
		return "", err
	}
	if err := p.deleteLeavings(ctx, noted); err != nil {
		return "", err
	}
	// A later run must not take a later installation for this one.
	_, err = p.oc(ctx, "annotate", "namespace", space, installed+"-")
	return "oc storage uninstall efs, then the operator, its catalog and its CRD", err
}

// finishInstallation waits until OLM has installed the operator, which would otherwise come after its removal. If that takes too long, OLM gets no
// chance to install it later.
func (p *proof) finishInstallation(ctx context.Context) error {
	waiting := *p
	waiting.patience = min(p.patience, installing)
	err := waiting.until(ctx, "OLM has installed the operator", func() error {
		at := &unstructured.Unstructured{}
		there, err := p.get(ctx, at, "-n", kube.DefaultNamespace, subscription, awsefs.Operator)
		if csv, _, _ := unstructured.NestedString(at.Object, "status", "installedCSV"); err == nil && there && csv == "" {
			err = errors.New("its Subscription names no installedCSV")
		}
		return err
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	p.say("%v. The clean-up deletes the Subscription first.", err)
	return p.deleteSubscription(ctx)
}

func (p *proof) deleteSubscription(ctx context.Context) error {
	_, err := p.oc(ctx, "-n", kube.DefaultNamespace, "delete", "--ignore-not-found", subscription, awsefs.Operator)
	return err
}

// deleteLeavings deletes what OLM leaves. What OLM has owned is gone by now.
func (p *proof) deleteLeavings(ctx context.Context, noted *record) error {
	now, err := p.read(ctx)
	if err != nil {
		return err
	}
	var foreign []string
	for _, name := range now.names() {
		if !slices.Contains(noted.Before, name) && !noted.made(name, now[name]) {
			foreign = append(foreign, name)
		}
	}
	// Of others is then, perhaps, what uses the rest.
	if len(foreign) > 0 {
		return kept(foreign...)
	}
	for _, left := range install.Leavings(kube.DefaultNamespace) {
		if !noted.made(left.Object, now[left.Object]) {
			continue
		}
		if strings.HasSuffix(left.Object, " "+sharedVolumes) {
			if err := p.noSharedVolumes(ctx); err != nil {
				return err
			}
		}
		if _, err := p.oc(ctx, append(strings.Fields(left.Command)[1:], "--ignore-not-found")...); err != nil {
			return err
		}
	}
	return nil
}

// noSharedVolumes returns an error if there are SharedVolumes, which Kubernetes would delete with their CRD.
func (p *proof) noSharedVolumes(ctx context.Context) error {
	list := &unstructured.UnstructuredList{}
	if _, err := p.get(ctx, list, sharedVolumes, "-A"); err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return nil
	}
	one := &list.Items[0]
	return fmt.Errorf("CustomResourceDefinition %s stays, because there are %d SharedVolumes, such as %s/%s: delete them, or, to keep them, run "+
		"\"oc annotate namespace %s %s-\". Then run this command again with CLEAN=1", sharedVolumes, len(list.Items), one.GetNamespace(), one.GetName(),
		space, installed)
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
