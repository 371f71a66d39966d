package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
)

// olmObject reads an object of OLM in the namespace of the operator. It is empty if it does not exist.
func (p *proof) olmObject(ctx context.Context, resource, name string) (*unstructured.Unstructured, bool, error) {
	at := &unstructured.Unstructured{Object: map[string]any{}}
	there, err := p.get(ctx, at, "-n", kube.DefaultNamespace, resource, name)
	return at, there, err
}

func statusOf(one *unstructured.Unstructured, fields ...string) string {
	text, _, _ := unstructured.NestedString(one.Object, append([]string{"status"}, fields...)...)
	return text
}

// settle waits until OLM has ended an installation or an upgrade, adds what it has created to the record, and returns what exists then.
func (p *proof) settle(ctx context.Context, noted *record) (seen, error) {
	if err := p.finishInstallation(ctx, noted); err != nil {
		return nil, err
	}
	now, err := p.noteMade(ctx, noted, ofOLM)
	return now, errors.Join(err, noted.check(now))
}

// finishInstallation waits until OLM has created the ClusterServiceVersion that it is about to install, which would otherwise come after the removal. If
// that takes too long, OLM gets no chance to install it later. OLM sets installedCSV to currentCSV when that ClusterServiceVersion exists
// (operator-framework/operator-lifecycle-manager, pkg/controller/operators/catalog/operator.go, ensureSubscriptionCSVState).
func (p *proof) finishInstallation(ctx context.Context, noted *record) error {
	waiting := *p
	waiting.patience = min(p.patience, installing)
	err := waiting.until(ctx, "OLM has installed the operator", func() error {
		at, there, err := p.olmObject(ctx, subscription, awsefs.Operator)
		if err != nil || !there {
			return err
		}
		current, has := statusOf(at, "currentCSV"), statusOf(at, "installedCSV")
		if current == has && has != "" {
			return nil
		}
		// After a kill, no Subscription may be left that names it.
		if current != "" && current != noted.Coming {
			noted.Coming = current
			if err := p.note(ctx, noted); err != nil {
				return err
			}
		}
		return fmt.Errorf("its Subscription names currentCSV %q and installedCSV %q", current, has)
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	p.say("%v. The clean-up deletes the Subscription first.", err)
	return p.deleteSubscription(ctx, noted)
}

// deleteSubscription deletes the Subscription of the run, if it exists.
func (p *proof) deleteSubscription(ctx context.Context, noted *record) error {
	now, err := p.read(ctx)
	if err != nil || !noted.made(subscriptionName, now[subscriptionName]) {
		return err
	}
	return p.deleteExactly(ctx, subscriptionName, now[subscriptionName])
}

// untilAvailable waits for the driver. If it does not come, the error has what OLM says.
func (p *proof) untilAvailable(ctx context.Context, what, except string) error {
	err := p.until(ctx, what, func() error { return p.available(ctx, except) })
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w. %s", err, p.saysOLM(ctx))
	}
	return err
}

// saysOLM reads the state of the Subscription, its InstallPlan and its ClusterServiceVersion, with all conditions that name a problem.
func (p *proof) saysOLM(ctx context.Context) string {
	at, there, err := p.olmObject(ctx, subscription, awsefs.Operator)
	if err != nil || !there {
		return "There is no Subscription" + because(err)
	}
	// Each of these conditions is True when something is wrong, or waits.
	said := []string{strings.TrimSpace("The Subscription has state " + statusOf(at, "state"))}
	said = append(said, conditions(at, "True")...)
	if name := statusOf(at, "installPlanRef", "name"); name != "" {
		plan, _, err := p.olmObject(ctx, "installplans.operators.coreos.com", name)
		said = append(said, fmt.Sprintf("InstallPlan %s has phase %s%s", name, statusOf(plan, "phase"), because(err)))
		said = append(said, conditions(plan, "False")...)
	}
	if name := statusOf(at, "currentCSV"); name != "" {
		version, _, err := p.olmObject(ctx, "clusterserviceversions.operators.coreos.com", name)
		said = append(said, strings.TrimSpace(fmt.Sprintf("ClusterServiceVersion %s has phase %s%s %s", name, statusOf(version, "phase"), because(err),
			short(statusOf(version, "message")))))
	}
	return strings.Join(said, "; ")
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (%v)", err)
}

// conditions are those with a status.
func conditions(one *unstructured.Unstructured, status string) []string {
	list, _, _ := unstructured.NestedSlice(one.Object, "status", "conditions")
	var found []string
	for _, each := range list {
		condition, _ := each.(map[string]any)
		text := func(field string) string {
			value, _ := condition[field].(string)
			return short(value)
		}
		if text("status") == status {
			found = append(found, strings.TrimSpace(fmt.Sprintf("%s is %s (%s) %s", text("type"), status, text("reason"), text("message"))))
		}
	}
	return found
}

// short is a text of others in one line.
func short(text string) string {
	const most = 300
	line := []rune(strings.Join(strings.Fields(text), " "))
	return string(line[:min(len(line), most)])
}
