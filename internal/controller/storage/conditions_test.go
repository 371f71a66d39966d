package storage

import (
	"errors"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/controller/storage/olm"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// at is when all of these tests happen.
var at = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func newMemory() *memory {
	now := func() time.Time { return at }
	return &memory{once: map[string]bool{}, failures: &status.Failures{Now: now}, rollouts: &status.Rollouts{Now: now}, waits: &status.Waits{Now: now}}
}

// release is a seen at version 2, and at the time of all tests.
func release() *seen { return &seen{version: "2", now: at} }

func deployment(done bool) *appsv1.Deployment {
	found := &appsv1.Deployment{Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1}}
	found.Generation = 1
	if done {
		found.Status.UpdatedReplicas, found.Status.AvailableReplicas = 1, 1
		found.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
			LastUpdateTime: metav1.NewTime(at.Add(-time.Hour)),
		}}
	}
	return found
}

func driver(version string, conditions ...operatorv1.OperatorCondition) *operatorv1.ClusterCSIDriver {
	made := &operatorv1.ClusterCSIDriver{}
	made.Status.Version, made.Status.Conditions = version, conditions
	return made
}

func said(kind string, value bool, message string) operatorv1.OperatorCondition {
	return status.Condition(kind, value, "Said", message)
}

// short is "Kind=Status/Reason" of each condition, without what all types begin with.
func short(conditions []operatorv1.OperatorCondition, prefix string) string {
	var list []string
	for _, condition := range conditions {
		list = append(list, strings.TrimPrefix(condition.Type, prefix)+"="+string(condition.Status)+"/"+condition.Reason)
	}
	return strings.Join(list, " ")
}

// removed is what an administrator has asked for.
func removed(driver *operatorv1.ClusterCSIDriver) *operatorv1.ClusterCSIDriver {
	driver.Spec.ManagementState = operatorv1.Removed
	return driver
}

func TestWhatADriverReportsIsCopied(t *testing.T) {
	was := func(value bool, reason string) *operatorv1.OperatorCondition {
		condition := status.Condition("PlainCSIDriverOperatorCRAvailable", value, reason, "before")
		return &condition
	}
	good := []operatorv1.OperatorCondition{said("XAvailable", true, ""), said("XProgressing", false, "")}
	off := said("XDisabled", true, "there is nothing")
	for name, tc := range map[string]struct {
		mayBeDisabled bool
		driver        *operatorv1.ClusterCSIDriver
		before        past
		want          string
	}{
		"nothing yet": {want: "Available=False/WaitForOperator Progressing=True/WaitForOperator Degraded=False/AsExpected Upgradeable=True/AsExpected"},
		"nothing any more": {before: past{available: was(true, "AsExpected"), once: true},
			want: "Available=True/WaitForOperator Progressing=True/WaitForOperator Degraded=False/AsExpected Upgradeable=True/AsExpected"},
		"well": {driver: driver("", good...), want: "Available=True/AsExpected Progressing=False/AsExpected Degraded=False/AsExpected Upgradeable=True/AsExpected"},
		"bad": {driver: driver("", said("XAvailable", false, "a"), said("XDegraded", true, "b"), said("XUpgradeable", false, "c")),
			want: "Available=False/Said Progressing=False/AsExpected Degraded=True/Said Upgradeable=False/Said"},
		"disabled": {mayBeDisabled: true, driver: driver("", off, said("XProgressing", true, "")),
			want: "Available=True/DriverDisabled Progressing=False/DriverDisabled Degraded=False/AsExpected Upgradeable=True/AsExpected"},
		"disabled, as before": {mayBeDisabled: true, driver: driver("", off), before: past{available: was(true, "DriverDisabled")},
			want: "Available=True/DriverDisabled Progressing=False/DriverDisabled Degraded=False/AsExpected Upgradeable=True/AsExpected"},
		"disabled until now": {mayBeDisabled: true, driver: driver(""), before: past{available: was(true, "DriverDisabled")},
			want: "Available=True/DriverDisabled Progressing=True/WaitForOperator Degraded=False/AsExpected Upgradeable=True/AsExpected"},
		"not disabled": {mayBeDisabled: true, driver: driver("", append(good, said("XDisabled", false, ""))...),
			want: "Available=True/AsExpected Progressing=False/AsExpected Degraded=False/AsExpected Upgradeable=True/AsExpected"},
		"disabled after it was available": {mayBeDisabled: true, driver: driver("", off, said("XAvailable", false, "down")),
			before: past{available: was(false, "Said"), once: true},
			want:   "Available=False/Said Progressing=False/AsExpected Degraded=True/DriverDisabled Upgradeable=True/AsExpected"},
		"disabled after it was available, and silent": {mayBeDisabled: true, driver: driver("", off), before: past{available: was(true, "AsExpected"), once: true},
			want: "Available=True/WaitForOperator Progressing=False/AsExpected Degraded=True/DriverDisabled Upgradeable=True/AsExpected"},
		"removed by an administrator after it was available": {mayBeDisabled: true, driver: removed(driver("", off, said("XDegraded", false, ""))),
			before: past{available: was(true, "AsExpected"), once: true},
			want:   "Available=True/DriverDisabled Progressing=False/DriverDisabled Degraded=False/AsExpected Upgradeable=True/AsExpected"},
		"to be removed, and its operator has not begun": {mayBeDisabled: true, driver: removed(driver("", good...)),
			before: past{available: was(true, "AsExpected"), once: true},
			want:   "Available=True/AsExpected Progressing=False/AsExpected Degraded=False/AsExpected Upgradeable=True/AsExpected"},
		"disabled where that can't be": {driver: driver("", append(good, off)...),
			want: "Available=True/AsExpected Progressing=False/AsExpected Degraded=False/AsExpected Upgradeable=True/AsExpected"},
	} {
		t.Run(name, func(t *testing.T) {
			entry := entries()[0]
			entry.MayBeDisabled = tc.mayBeDisabled
			got := copied(&result{choice: choice{entry: entry}, driver: tc.driver}, tc.before)
			if diff := cmp.Diff(tc.want, short(got, "PlainCSIDriverOperatorCR")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestADriverIsAtAVersionWhenItAndItsOperatorAre(t *testing.T) {
	good := []operatorv1.OperatorCondition{said("XAvailable", true, ""), said("XProgressing", false, "")}
	of := func(name, version string) *configv1.ClusterOperator {
		return &configv1.ClusterOperator{Status: configv1.ClusterOperatorStatus{Versions: []configv1.OperandVersion{{Name: name, Version: version}}}}
	}
	operator := func(version string) *configv1.ClusterOperator { return of("gated-operator", version) }
	fresh := deployment(true)
	fresh.Status.Conditions[0].LastUpdateTime = metav1.NewTime(at.Add(-time.Second))
	// The condition Progressing stays as it was when a template returns to an earlier ReplicaSet.
	returned, notReady := deployment(true), deployment(true)
	returned.Status.Conditions = append(returned.Status.Conditions, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, LastUpdateTime: metav1.NewTime(at.Add(-time.Second)),
	})
	notReady.Status.AvailableReplicas = 0
	for name, tc := range map[string]struct {
		entry    int
		done     result
		operator *configv1.ClusterOperator
		want     bool
	}{
		"ours, of the version":         {0, result{applied: true, deployment: deployment(true), driver: driver("2", good...)}, nil, true},
		"ours, of the version before":  {0, result{applied: true, deployment: deployment(true), driver: driver("1", good...)}, nil, false},
		"ours, not applied":            {0, result{deployment: deployment(true), driver: driver("2", good...)}, nil, false},
		"ours, not rolled out":         {0, result{applied: true, deployment: deployment(false), driver: driver("2", good...)}, nil, false},
		"ours, without its Deployment": {0, result{applied: true, driver: driver("2", good...)}, nil, false},
		"theirs, well":                 {1, result{applied: true, deployment: deployment(true), driver: driver("", good...)}, nil, true},
		"theirs, silent":               {1, result{applied: true, deployment: deployment(true), driver: driver("")}, nil, false},
		"theirs, progressing":          {1, result{applied: true, deployment: deployment(true), driver: driver("", said("XAvailable", true, ""), said("XProgressing", true, ""))}, nil, false},
		"theirs, not available":        {1, result{applied: true, deployment: deployment(true), driver: driver("", said("XAvailable", false, ""))}, nil, false},
		"theirs, just rolled out":      {1, result{applied: true, deployment: fresh, driver: driver("", good...)}, operator("1"), false},
		"theirs, rolled out and new":   {1, result{applied: true, deployment: fresh, driver: driver("", good...)}, nil, true},
		"theirs, first of this kind":   {1, result{applied: true, deployment: fresh, driver: driver("", good...)}, of("operator", "1"), false},
		"theirs, returned":             {1, result{applied: true, deployment: returned, driver: driver("", good...)}, operator("1"), false},
		"theirs, without a ready pod":  {1, result{applied: true, deployment: notReady, driver: driver("", good...)}, operator("1"), false},
		"theirs, lost a pod later":     {1, result{applied: true, deployment: notReady, driver: driver("", good...)}, operator("2"), true},
		"theirs, at that version":      {1, result{applied: true, deployment: fresh, driver: driver("", good...)}, operator("2"), true},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := newMemory(), release()
			w.clusterOperator, tc.done.entry = tc.operator, entries()[tc.entry]
			conditions, _ := r.crConditions(w, &tc.done)
			if got := reached(w, &tc.done, conditions); got != tc.want {
				t.Errorf("reached: %v", got)
			}
			progressing := status.Find(conditions, tc.done.entry.Condition+crConditions+status.Progressing)
			if tc.done.applied && rollOut(tc.done.deployment) == "" && (progressing.Status == operatorv1.ConditionTrue) == tc.want && !strings.Contains(name, "not available") {
				t.Errorf("reached: %v, but %+v", tc.want, progressing)
			}
		})
	}
}

// Its operator says nothing of the driver but that it can't drive it. What was so before keeps storage available, but is no news of this version.
func TestADriverThatBrokeIsNotAtANewVersion(t *testing.T) {
	r := newMemory()
	done := result{applied: true, deployment: deployment(true), driver: driver("", said("XDisabled", true, "the cloud does not answer"))}
	done.entry = entries()[1]
	done.entry.MayBeDisabled = true
	r.once[done.entry.Name] = true
	conditions, _ := r.crConditions(release(), &done)
	if reached(release(), &done, conditions) {
		t.Errorf("it is, with %s", short(conditions, "GatedCSIDriverOperatorCR"))
	}
	delete(r.once, done.entry.Name)
	conditions, _ = r.crConditions(release(), &done)
	if !reached(release(), &done, conditions) {
		t.Errorf("one that is disabled holds up the cluster's version, with %s", short(conditions, "GatedCSIDriverOperatorCR"))
	}
}

func TestEachConditionSaysWhatIsWrongWithOneDriver(t *testing.T) {
	good := driver("2", said("XAvailable", true, ""), said("XProgressing", false, ""))
	lost := deployment(true)
	lost.Status.AvailableReplicas = 0
	failing := deployment(false)
	failing.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "ten minutes"}}
	for name, tc := range map[string]struct {
		done result
		// want are the conditions that are not as they are if all is well, says is part of their messages.
		want, says string
	}{
		"all is well": {result{applied: true, deployment: deployment(true), driver: good}, "", ""},
		"it can't be rendered": {result{err: reconcile.TerminalError(errors.New("environment variable X is empty")), driver: good, deployment: deployment(true)},
			"StaticControllerDegraded=True/SyncError", "environment variable X is empty"},
		"an API server is away for a moment": {result{err: errors.New("timeout"), driver: good, deployment: deployment(true)}, "StaticControllerDegraded=False/Retrying", "timeout"},
		"somebody else's": {result{thirdParty: "CSIDriver x has another " +
			"owner"}, "StaticControllerDegraded=True/ForeignCSIDriver", "another owner"},
		"rolling out": {result{applied: true, deployment: deployment(false), driver: good}, "DeploymentProgressing=True/Deploying", "0 of 1 pods"},
		"never rolled out": {result{applied: true, deployment: failing, driver: good},
			"DeploymentProgressing=True/Deploying DeploymentDegraded=True/SyncError", "ten minutes"},
		"its pod is lost": {result{applied: true, deployment: lost, driver: good}, "DeploymentDegraded=False/Retrying", "no pod is ready"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newMemory()
			tc.done.choice = choice{entry: entries()[0], decision: wanted}
			conditions, _ := r.conditionsOf(release(), &tc.done)
			var odd []operatorv1.OperatorCondition
			var messages []string
			for _, condition := range conditions {
				if condition.Reason != status.AsExpected {
					odd, messages = append(odd, condition), append(messages, condition.Message)
				}
				if !ownTypes(entries())[condition.Type] {
					t.Errorf("%s is not among the conditions of this program", condition.Type)
				}
			}
			if diff := cmp.Diff(tc.want, short(odd, "PlainCSIDriverOperator")); diff != "" {
				t.Error(diff)
			}
			if all := strings.Join(messages, "\n"); !strings.Contains(all, tc.says) {
				t.Errorf("%q does not say %q", all, tc.says)
			}
		})
	}
}

func TestWhatIsBeingRemovedDoesNotCountAsUnavailable(t *testing.T) {
	gone := driver("", said("XAvailable", false, "removed"))
	done := result{choice: choice{entry: entries()[0], decision: unwanted, why: "the platform of the cluster is None"}, driver: gone,
		removal: removal{message: "waiting for it", left: 1}}
	conditions, again := newMemory().conditionsOf(release(), &done)
	want := "StaticControllerDegraded=False/AsExpected RemovalProgressing=True/Removing RemovalDegraded=False/AsExpected"
	if diff := cmp.Diff(want, short(conditions, "PlainCSIDriverOperator")); diff != "" || again == 0 {
		t.Errorf("look again in %s: %s", again, diff)
	}
	done.removal.waits, done.driver = true, driver("2", said("XAvailable", true, ""))
	conditions, _ = newMemory().conditionsOf(release(), &done)
	if available := status.Find(conditions, "PlainCSIDriverOperatorCRAvailable"); available == nil || available.Status != operatorv1.ConditionTrue ||
		status.Find(conditions, "PlainCSIDriverOperatorRemovalProgressing").Status == operatorv1.ConditionTrue {
		t.Errorf("while volumes exist: %s", short(conditions, ""))
	}
}

func TestTheClassesOfAClusterAreNoErrorWhateverTheyAre(t *testing.T) {
	class := func(name, isDefault string) storagev1.StorageClass {
		made := storagev1.StorageClass{Provisioner: "plain.example"}
		made.Name, made.Annotations = name, map[string]string{defaultAnnotation: isDefault}
		return made
	}
	aws, none := &configv1.Infrastructure{Status: *platform("AWS")}, &configv1.Infrastructure{Status: *platform("None")}
	for name, tc := range map[string]struct {
		seen         seen
		reason, says string
	}{
		"one default":                 {seen{Cluster: openshift.Cluster{Infrastructure: aws}, classes: []storagev1.StorageClass{class("a", "true"), class("b", "false")}}, "AsExpected", ""},
		"no default":                  {seen{Cluster: openshift.Cluster{Infrastructure: aws}, classes: []storagev1.StorageClass{class("b", "false")}}, "AsExpected", ""},
		"two defaults":                {seen{Cluster: openshift.Cluster{Infrastructure: aws}, classes: []storagev1.StorageClass{class("b", "true"), class("a", "true")}}, "MultipleDefaultStorageClasses", "all but one of a, b"},
		"a platform without a driver": {seen{Cluster: openshift.Cluster{Infrastructure: none}}, "UnsupportedPlatform", "this release has no CSI driver for platform None"},
		"both":                        {seen{Cluster: openshift.Cluster{Infrastructure: none}, classes: []storagev1.StorageClass{class("b", "true"), class("a", "true")}}, "MultipleDefaultStorageClasses", "platform None"},
		"a platform that is missing":  {seen{}, "AsExpected", ""},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := classConditions(&tc.seen, choose(entries(), tc.seen.facts(entries())))
			available := status.Find(conditions, "DefaultStorageClassControllerAvailable")
			if available.Status != operatorv1.ConditionTrue || available.Reason != tc.reason || !strings.Contains(available.Message, tc.says) {
				t.Errorf("%+v", available)
			}
		})
	}
	old := class("old", "")
	old.Provisioner = "kubernetes.io/vsphere-volume"
	w := &seen{classes: []storagev1.StorageClass{class("b", ""), class("a", ""), old}}
	if diff := cmp.Diff([]string{"old"}, w.classesOf("csi.vsphere.vmware.com")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, w.classesOf("plain.example")); diff != "" {
		t.Error(diff)
	}
}

func TestAThirdPartysCSIDriverIsReported(t *testing.T) {
	made := func(label, annotation string) *storagev1.CSIDriver {
		driver := &storagev1.CSIDriver{}
		if label != "" {
			driver.Labels = map[string]string{openshift.ManagedByLabel: label}
		}
		if annotation != "" {
			driver.Annotations = map[string]string{"csi.openshift.io/managed": annotation}
		}
		return driver
	}
	for name, tc := range map[string]struct {
		driver *storagev1.CSIDriver
		want   bool
	}{
		"absent": {nil, false}, "without marks": {made("", ""), true}, "of another operator": {made("helm", ""), true},
		"of the operator": {made("plain-operator", ""), false}, "of an operator before it": {made("", "true"), false},
		"to be taken over": {made("helm", "true"), false}, "not to be taken over": {made("", "false"), true},
		"in other words": {made("", "False"), true}, "by a typo": {made("helm", "ture"), true}, "by another no": {made("", "no"), true},
	} {
		if got := isThirdParty(tc.driver, entries()[0]); got != tc.want {
			t.Errorf("%s: foreign is %v", name, got)
		}
	}
}

func TestARemovalIsCompleteOnlyWhenItsOperatorHasSaidSo(t *testing.T) {
	removed := status.Condition("XProgressing", false, removedReason, "")
	marked := func(made *operatorv1.ClusterCSIDriver) *operatorv1.ClusterCSIDriver {
		made.Annotations = map[string]string{openshift.NotWantedAnnotation: "None"}
		return made
	}
	for name, tc := range map[string]struct {
		driver *operatorv1.ClusterCSIDriver
		want   bool
	}{
		"absent":             {nil, false},
		"never asked for":    {driver("", removed), false},
		"said":               {marked(driver("", removed)), true},
		"with a version":     {marked(driver("2", removed)), false},
		"said of a half":     {marked(driver("", removed, said("YProgressing", true, ""))), false},
		"nothing said":       {marked(driver("", said("XProgressing", false, ""))), false},
		"nothing at all yet": {marked(driver("")), false},
	} {
		if got := isRemoved(tc.driver); got != tc.want {
			t.Errorf("%s: removed is %v", name, got)
		}
	}
}

func TestConditionsOfOthersAreKeptOnlyIfTheyComeLater(t *testing.T) {
	r := newMemory()
	for _, tc := range []struct {
		kind    string
		cleaned bool
		want    bool
	}{
		{"OldControllerDegraded", false, false},
		{"NewControllerDegraded", true, true},
		{"PlainCSIDriverOperatorCRAvailable", true, false},
		// The detector may still run when this program starts, and goes then.
		{"VSphereProblemDetectorControllerAvailable", false, false},
		{"VSphereProblemDetectorControllerAvailable", true, false},
		{"VSphereProblemDetectorDeploymentControllerProgressing", true, false},
	} {
		r.cleaned = tc.cleaned
		if got := r.belongsToOthers(tc.kind, ownTypes(entries())); got != tc.want {
			t.Errorf("%s, cleaned %v: %v", tc.kind, tc.cleaned, got)
		}
	}
}

// What the old operator has installed serves, though the new one has not said anything yet.
func TestStorageIsAvailableWhileAnOperatorOfOLMIsReplaced(t *testing.T) {
	r := newMemory()
	for reports, want := range map[*operatorv1.ClusterCSIDriver]operatorv1.ConditionStatus{
		nil:         operatorv1.ConditionTrue,
		driver("1"): operatorv1.ConditionTrue,
		driver("1", said("XAvailable", false, "no nodes")): operatorv1.ConditionFalse,
	} {
		done := result{removingOLM: true, driver: reports, olmRemoval: olm.State{Message: "waiting"}}
		done.entry = entries()[0]
		conditions, _ := r.conditionsOf(release(), &done)
		available := status.Find(conditions, done.entry.Condition+crConditions+status.Available)
		if available == nil || available.Status != want {
			t.Errorf("%+v, want %s", available, want)
		}
	}
}
