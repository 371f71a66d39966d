package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

const newerCSV = versionKind + " " + awsefs.Operator + ".v5.4.0"

// A run was killed after it had changed the image of the catalog. OLM finds the new release when it has read the catalog, which may be at any time.
func TestTheCleanUpRemovesAnUpgradeThatGoesOn(t *testing.T) {
	for _, at := range []string{"get", "storage uninstall efs", "delete --raw"} {
		cluster, noted := ours()
		p := cluster.opened()
		began, looks := false, 0
		p.command = func(ctx context.Context, input, name string, args ...string) (string, error) {
			line := strings.Join(args, " ")
			if !began && strings.HasPrefix(line, at) {
				began, cluster.coming = true, awsefs.Operator+".v5.4.0"
			}
			if began && args[0] == "get" && args[len(args)-4] == awsefs.Operator {
				// It takes three looks.
				if looks++; looks == 3 {
					cluster.objects[newerCSV], cluster.csv = "newer", cluster.coming
				}
			}
			if began && at == "delete --raw" && strings.Contains(line, "/subscriptions/") {
				cluster.objects[newerCSV] = "newer"
			}
			return cluster.command(ctx, input, name, args...)
		}
		if _, err := p.uninstall(t.Context(), noted); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		if len(cluster.objects) > 0 {
			t.Errorf("%s: left are %v", at, cluster.objects)
		}
	}
}

// It was killed once more when it had deleted the Subscription that OLM was about to install.
func TestTheNextCleanUpKnowsWhatOLMWasAboutToInstall(t *testing.T) {
	cluster, noted := ours()
	cluster.coming, cluster.late = awsefs.Operator+".v5.4.0", newerCSV
	p := cluster.opened()
	p.command = func(ctx context.Context, input, name string, args ...string) (string, error) {
		if cluster.objects[subscriptionName] == "" {
			return "", errors.New("killed")
		}
		return cluster.command(ctx, input, name, args...)
	}
	if _, err := p.uninstall(t.Context(), noted); err == nil {
		t.Fatal("it has come to its end")
	}
	notes := cluster.changed("annotate")
	_, text, _ := strings.Cut(notes[len(notes)-1], installed+"=")
	at := noteIn(t, "this", noted)
	at.Annotations[installed] = text
	noted, err := recordOf(&at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.opened().uninstall(t.Context(), noted); err != nil || len(cluster.objects) > 0 {
		t.Errorf("left are %v (%v)", cluster.objects, err)
	}
}

// An administrator has subscribed to the operator, and OLM has installed it for them.
func TestWhatOLMInstallsForOthersIsNotNoted(t *testing.T) {
	cluster, noted := ours()
	cluster.objects[subscriptionName] = "of others"
	noted.Made, noted.Coming = map[string]types.UID{}, awsefs.Operator+".v5.3.0"
	if _, err := cluster.opened().noteMade(t.Context(), noted, ofOLM); err != nil || len(noted.Made) > 0 {
		t.Errorf("the record has %v (%v)", noted.Made, err)
	}
}

// Without that, an administrator knows only that nothing has happened for 20 minutes.
func TestAnInstallationThatDoesNotEndSaysWhatOLMSays(t *testing.T) {
	condition := func(kind, status, reason, message string) map[string]any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": message}
	}
	object := func(kind string, status map[string]any) map[string]any {
		return map[string]any{"apiVersion": "operators.coreos.com/v1alpha1", "kind": kind, "status": status}
	}
	cluster := &remembered{lists: map[string]any{
		awsefs.Operator: object("Subscription", map[string]any{
			"state": "UpgradePending", "installPlanRef": map[string]any{"name": "install-abc"}, "currentCSV": "operator.v1", "conditions": []any{
				condition("CatalogSourcesUnhealthy", "False", "AllCatalogSourcesHealthy", "all are healthy"),
				condition("BundleUnpackFailed", "True", "BundleUnpackFailed", "the image\ncan't be pulled"),
			},
		}),
		"install-abc": object("InstallPlan", map[string]any{"phase": "Failed", "conditions": []any{
			condition("Installed", "False", "InstallComponentFailed", "forbidden "+strings.Repeat("x", 1000)),
		}}),
		"operator.v1": object(versionKind, map[string]any{"phase": "Pending", "message": "requirements not met"}),
		awsefs.Name:   map[string]any{},
	}}
	err := cluster.opened().untilAvailable(t.Context(), "the driver is available", "")
	for _, want := range []string{
		"The Subscription has state UpgradePending; BundleUnpackFailed is True (BundleUnpackFailed) the image can't be pulled; ",
		"InstallPlan install-abc has phase Failed; Installed is False (InstallComponentFailed) forbidden x",
		"ClusterServiceVersion operator.v1 has phase Pending requirements not met",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if err != nil && (strings.Contains(err.Error(), "healthy") || len(err.Error()) > 800) {
		t.Errorf("the error is %v", err)
	}
}
