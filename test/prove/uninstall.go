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
	return fmt.Errorf("the record of the installation does not have %s: others have created it since. Delete it yourself, or, to keep it, "+
		"run \"oc annotate namespace %s %s-\". Then run this command again with CLEAN=1",
		strings.Join(names, ", "), space, installed)
}

// uninstall removes the driver and its operator, and what OLM leaves of them, if these are still the objects of the record.
func (p *proof) uninstall(ctx context.Context, noted *record) (string, error) {
	now, err := p.noteMade(ctx, noted, ofNone)
	if err := errors.Join(err, noted.check(now)); err != nil {
		return "", err
	}
	_, subscribed := now[subscriptionName]
	if subscribed {
		if now, err = p.settle(ctx, noted); err != nil {
			return "", err
		}
	}
	if err := p.removeDriver(ctx, now); err != nil {
		return "", err
	}
	if subscribed {
		// That may have taken minutes. OLM has perhaps begun an upgrade meanwhile.
		if _, err := p.settle(ctx, noted); err != nil {
			return "", err
		}
		if err := p.deleteSubscription(ctx, noted); err != nil {
			return "", err
		}
	}
	of := ofNone
	if subscribed {
		of = ofOLM
	}
	now, err = p.noteMade(ctx, noted, of)
	if err := errors.Join(err, noted.check(now)); err != nil {
		return "", err
	}
	for _, name := range now.versions() {
		if !noted.made(name, now[name]) {
			continue
		}
		if err := p.deleteExactly(ctx, name, now[name]); err != nil {
			return "", err
		}
	}
	// Only the operator creates its Lease. OLM takes its rights first, so that it can't release the Lease itself.
	if _, err := p.oc(ctx, "-n", kube.DefaultNamespace, "wait", "--for=delete", "deployment/"+awsefs.Operator,
		"--timeout", p.patience.String()); err != nil {
		return "", err
	}
	if now, err = p.noteMade(ctx, noted, ofLeases); err != nil {
		return "", err
	}
	if err := p.deleteLeavings(ctx, noted, now); err != nil {
		return "", err
	}
	// A later run must not take a later installation for this one.
	_, err = p.oc(ctx, "annotate", "namespace", space, installed+"-")
	return "oc storage uninstall efs, then the operator, its catalog and its CRD. None of the installed objects exists", err
}

// removeDriver uninstalls the driver, unless others use it.
func (p *proof) removeDriver(ctx context.Context, now seen) error {
	if _, there := now[driverName]; !there {
		return nil
	}
	users, err := p.awaitUsers(ctx, func() (*users, error) { return p.usersOfDriver(ctx, now) })
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return fmt.Errorf("the driver stays, because others use it: %s. Delete these, or, to keep the driver, run \"oc annotate namespace %s %s-\". "+
			"Then run this command again with CLEAN=1", strings.Join(users, ", "), space, installed)
	}
	_, err = p.oc(ctx, "storage", "uninstall", "efs", "--yes", "--timeout", p.patience.String())
	return err
}

// check returns an error if a driver or a Subscription of others is there.
func (r *record) check(now seen) error {
	for _, name := range []string{driverName, subscriptionName} {
		if one, there := now[name]; there && !r.made(name, one) {
			return kept(name)
		}
	}
	return nil
}

// deleteLeavings deletes what OLM leaves, and waits until it is gone. What OLM has owned is gone by now.
func (p *proof) deleteLeavings(ctx context.Context, noted *record, now seen) error {
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
	needed, err := p.needed(ctx, noted, now)
	if err != nil {
		return err
	}
	var stays []error
	for _, left := range install.Leavings(kube.DefaultNamespace) {
		if !noted.made(left.Object, now[left.Object]) {
			continue
		}
		why := needed[left.Object]
		if left.Object == crdName {
			why = p.noSharedVolumes(ctx)
		}
		if why != nil {
			needed[left.Object] = why
			stays = append(stays, why)
			continue
		}
		if err := p.deleteExactly(ctx, left.Object, now[left.Object]); err != nil {
			return err
		}
	}
	err = p.until(ctx, "everything of the installation is gone", func() error {
		now, err := p.read(ctx)
		for name, one := range now {
			if noted.made(name, one) && needed[name] == nil {
				err = errors.Join(err, fmt.Errorf("%s is there", name))
			}
		}
		return err
	})
	return errors.Join(append(stays, err)...)
}

// needed says of the catalog and the OperatorGroup of this run why they stay, if a Subscription of others needs them. The run's own Subscription is gone
// by now.
func (p *proof) needed(ctx context.Context, noted *record, now seen) (map[string]error, error) {
	list := &unstructured.UnstructuredList{}
	if _, err := p.get(ctx, list, "-A", subscription); err != nil {
		return nil, err
	}
	found := map[string]error{}
	for i := range list.Items {
		one := &list.Items[i]
		source, _, _ := unstructured.NestedString(one.Object, "spec", "source")
		in, _, _ := unstructured.NestedString(one.Object, "spec", "sourceNamespace")
		for name, needs := range map[string]bool{
			catalogName: "CatalogSource "+in+"/"+source == catalogName, groupName: one.GetNamespace() == kube.DefaultNamespace,
		} {
			if needs && noted.made(name, now[name]) {
				found[name] = fmt.Errorf("%s stays, because %s needs it: delete this Subscription, or, to keep both, run \"oc annotate namespace %s %s-\". "+
					"Then run this command again with CLEAN=1", name, nameOf(one), space, installed)
			}
		}
	}
	return found, nil
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
