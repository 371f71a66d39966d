package storage

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
)

// Two drivers are upgraded. What administrators do, and a cluster in vSphere, ends with an upgrade of one.
func TestUpgradeGoesInOrderAndIsReportedLast(t *testing.T) {
	env.OnlySoak(t)
	upgrades(t, installed(t, configv1.OpenStackPlatformType), configv1.OpenStackPlatformType)
}

func upgrades(t *testing.T, s *scene, platform configv1.PlatformType) {
	t.Helper()
	entries := entriesOf(platform)
	uids := s.uids()
	journal := s.record()
	s.install(env.Release{Version: nextRelease})
	s.reach(nextRelease)
	journal.checkVersions(t, entries, nextRelease)
	checkUpgrade(t, journal, entries)
	for name, uid := range s.uids() {
		if uids[name] != uid {
			t.Errorf("%s was made anew", name)
		}
	}
}

// checkUpgrade reads what has happened, from the first moment to the last.
func checkUpgrade(t *testing.T, journal *journal, entries []catalogue.Entry) {
	t.Helper()
	var images, progressing []string
	samples := 0
	journal.read(func(now picture, changed client.Object) {
		switch object := changed.(type) {
		case *configv1.ClusterOperator:
			if now.operator == nil || object.Name != "storage" {
				return
			}
			samples++
			if available := env.OperatorCondition(object, configv1.OperatorAvailable); available.Status != configv1.ConditionTrue {
				t.Errorf("Available is %s: %s %s", available.Status, available.Reason, available.Message)
			}
			if degraded := env.OperatorCondition(object, configv1.OperatorDegraded); degraded.Status != configv1.ConditionFalse {
				t.Errorf("Degraded is %s: %s %s", degraded.Status, degraded.Reason, degraded.Message)
			}
			state := env.OperatorCondition(object, configv1.OperatorProgressing)
			if now.versionIn("operator") == release {
				progressing = append(progressing, string(state.Status))
			}
		case *appsv1.Deployment, *appsv1.DaemonSet:
			if image := env.ImageOf(object); strings.HasSuffix(image, ":"+nextRelease) && !slices.Contains(images, object.GetName()) {
				images = append(images, object.GetName())
			}
		}
	})
	if !slices.Contains(progressing, string(configv1.ConditionTrue)) {
		t.Errorf("of %d states of the ClusterOperator, none before the new version is Progressing: %v", samples, progressing)
	}
	place := func(name string) int { return slices.Index(images, name) }
	for _, entry := range entries {
		if operator := place(entry.Operator); operator < 1 || place(env.CSO) != 0 {
			t.Errorf("the order of new images is %v, want %s first and then %s", images, env.CSO, entry.Operator)
		}
		for _, workload := range entry.Workloads {
			if place(workload.Name) < place(entry.Operator) {
				t.Errorf("the order of new images is %v, want %s before %s", images, entry.Operator, workload.Name)
			}
		}
	}
}
