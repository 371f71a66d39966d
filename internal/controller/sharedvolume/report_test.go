package sharedvolume

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume/crdstatus"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const notListed = "namespace ns may not use access point fsap-0123456789abcdef of file system fs-1234cdef: ask a cluster administrator to add " +
	"fs-1234cdef/fsap-0123456789abcdef to annotation aws-efs.managed.openshift.io/allowed-shares of the namespace"

func TestTheStatusSaysWhatIsSo(t *testing.T) {
	const installed = "True Installed"
	for name, tc := range map[string]struct {
		before []string
		world  seen
		step   plan
		want   map[string]string
	}{
		"bound": {
			step: plan{phase: v1alpha1.Ready, reason: "Bound", bound: true, volume: "pv-ns-sv1"},
			want: map[string]string{"Ready": "True Bound", "Bound": "True Bound", "DriverInstalled": installed},
		},
		"bound without a driver": {
			world: seen{noDriver: true}, step: plan{phase: v1alpha1.Ready, reason: "Bound", message: noDriverMessage, bound: true},
			want: map[string]string{
				"Ready": "True Bound: " + noDriverMessage, "Bound": "True Bound",
				"DriverInstalled": "False NoCSIDriver: the PVC is bound, but pods can't use it until the EFS driver is installed: ask a cluster administrator " +
					"to create ClusterCSIDriver efs.csi.aws.com",
			},
		},
		"waiting": {
			step: plan{phase: v1alpha1.Pending, reason: "Creating"},
			want: map[string]string{"Ready": "False Creating", "Bound": "False Creating", "DriverInstalled": installed},
		},
		"bound to a PVC that wants another volume": {
			step: plan{phase: v1alpha1.Failed, reason: "ClaimChanged", message: "m", bound: true},
			want: map[string]string{"Ready": "False ClaimChanged: m", "Bound": "True Bound", "DriverInstalled": installed},
		},
		"bound, and not allowed any more": {
			world: seen{limits: notYours()}, step: plan{phase: v1alpha1.Ready, reason: "Bound", bound: true},
			want: map[string]string{
				"Ready": "True Bound", "Bound": "True Bound", "DriverInstalled": installed, "Allowed": "False NotListed: " + notListed,
			},
		},
		"allowed by a list": {
			world: seen{limits: limits{Namespace: "ns", Listed: true, List: "fs-1234cdef"}}, step: plan{phase: v1alpha1.Pending, reason: "Creating"},
			want: map[string]string{"Ready": "False Creating", "Bound": "False Creating", "DriverInstalled": installed, "Allowed": "True Listed"},
		},
		"nobody limits it any more, nor asks AWS": {
			before: []string{v1alpha1.ConditionAllowed, v1alpha1.ConditionMountable},
			step:   plan{phase: v1alpha1.Ready, reason: "Bound", bound: true, mountable: &mountability{}},
			want:   map[string]string{"Ready": "True Bound", "Bound": "True Bound", "DriverInstalled": installed},
		},
		"what AWS said stays as long as it is not asked": {
			before: []string{v1alpha1.ConditionMountable}, step: plan{phase: v1alpha1.Ready, reason: "Bound", bound: true},
			want: map[string]string{"Ready": "True Bound", "Bound": "True Bound", "DriverInstalled": installed, "Mountable": "False Old"},
		},
		"pods can't mount it": {
			step: plan{phase: v1alpha1.Ready, reason: "Bound", message: "m", bound: true, mountable: &mountability{reason: "FileSystemNotFound", message: "m"}},
			want: map[string]string{
				"Ready": "True Bound: m", "Bound": "True Bound", "DriverInstalled": installed, "Mountable": "False FileSystemNotFound: m",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			sv := owner("ns", "sv1")
			sv.Generation = 3
			for _, kind := range tc.before {
				sv.Status.Conditions = append(sv.Status.Conditions, condition(kind, false, "Old", ""))
			}
			got := statusOf(sv, tc.world, tc.step)
			if diff := cmp.Diff(tc.want, conditionTexts(got.Conditions)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got.Phase != tc.step.phase || got.Message != tc.step.message || got.VolumeName != tc.step.volume || got.ObservedGeneration != 3 {
				t.Errorf("status %+v", got)
			}
			if isReady := tc.step.phase == v1alpha1.Ready; isReady != (got.ClaimRef.Name == "pvc-sv1" && got.ClaimRef.Kind == "PersistentVolumeClaim") {
				t.Errorf("PVC %+v", got.ClaimRef)
			}
		})
	}
}

// What was once Ready keeps naming its PVC and its volume, whatever becomes of them.
func TestTheStatusKeepsTheNamesAndIsSorted(t *testing.T) {
	sv := owner("ns", "sv1")
	sv.Status = statusOf(sv, seen{limits: notYours()}, plan{phase: v1alpha1.Ready, reason: "Bound", bound: true, volume: "pv-ns-sv1"})
	got := statusOf(sv, seen{}, plan{phase: v1alpha1.Failed, reason: "VolumeChanged", message: strings.Repeat("m", 1001)})
	if got.ClaimRef.Name != "pvc-sv1" || got.VolumeName != "pv-ns-sv1" {
		t.Errorf("%+v", got)
	}
	if len(got.Message) != 1003 {
		t.Errorf("a message of %d bytes", len(got.Message))
	}
	var kinds []string
	for _, one := range got.Conditions {
		kinds = append(kinds, one.Type)
	}
	if diff := cmp.Diff([]string{"Bound", "DriverInstalled", "Ready"}, kinds); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(sv.Status.Conditions) != 4 {
		t.Error("the status from before was changed")
	}
}

func claimed(sv *v1alpha1.SharedVolume) *v1alpha1.SharedVolume {
	sv.Status.ClaimRef.Name = "pvc-sv1"
	return sv
}

func TestEventsTellWhatDiffers(t *testing.T) {
	ready := condition("Ready", true, "Bound", "")
	taken := condition("Ready", false, "NameTaken", "PersistentVolumeClaim pvc-sv1 is taken")
	creating := condition("Ready", false, "Creating", "")
	denied := condition("Allowed", false, "NotListed", notListed)
	deleting := condition("Ready", false, "VolumeDeleting", "wait")
	for name, tc := range map[string]struct {
		before, after *v1alpha1.SharedVolume
		want          []string
	}{
		"it fails":             {withStatus(""), withStatus(v1alpha1.Failed, taken), []string{"Warning NameTaken: PersistentVolumeClaim pvc-sv1 is taken"}},
		"it fails still":       {withStatus(v1alpha1.Failed, taken), withStatus(v1alpha1.Failed, taken), nil},
		"it fails for another": {withStatus(v1alpha1.Failed, taken), withStatus(v1alpha1.Failed, deleting), []string{"Warning VolumeDeleting: wait"}},
		"it is Ready at once":  {withStatus(""), withStatus(v1alpha1.Ready, ready), nil},
		"it stays Ready":       {withStatus(v1alpha1.Ready, ready), withStatus(v1alpha1.Ready, ready), nil},
		"it waits":             {withStatus(""), withStatus(v1alpha1.Pending, creating), nil},
		"it is Ready again":    {withStatus(v1alpha1.Failed, taken), withStatus(v1alpha1.Ready, ready), []string{"Normal Recovered: the PVC is bound"}},
		"it has waited":        {withStatus(v1alpha1.Pending, condition("Ready", false, "WaitingForFileSystem", "wait")), withStatus(v1alpha1.Ready, ready), nil},
		"it is made again":     {claimed(withStatus(v1alpha1.Pending, creating)), withStatus(v1alpha1.Ready, ready), []string{"Normal Recovered: the PVC is bound"}},
		"it is Ready, and of no use": {
			withStatus(v1alpha1.Failed, taken), withStatus(v1alpha1.Ready, ready, condition("Mountable", false, "FileSystemNotFound", "no file system")),
			[]string{"Warning FileSystemNotFound: no file system"},
		},
		"its list has shrunk":      {withStatus(v1alpha1.Ready, ready), withStatus(v1alpha1.Ready, ready, denied), []string{"Warning NotAllowed: the PVC stays bound, but " + notListed}},
		"it was not listed before": {withStatus(v1alpha1.Ready, ready, denied), withStatus(v1alpha1.Ready, ready, denied), nil},
		"it fails as it is not listed": {withStatus(""), withStatus(v1alpha1.Failed, condition("Ready", false, "NotAllowed", notListed), denied), []string{
			"Warning NotAllowed: " + notListed,
		}},
		"pods can't mount it": {
			withStatus(v1alpha1.Ready, ready), withStatus(v1alpha1.Ready, ready, condition("Mountable", false, "NoNodeInZone", "no node")),
			[]string{"Warning NoNodeInZone: no node"},
		},
		"pods can mount it again": {
			withStatus(v1alpha1.Ready, ready, condition("Mountable", false, "NoNodeInZone", "no node")),
			withStatus(v1alpha1.Ready, ready, condition("Mountable", true, "OneZone", "file system fs-1 is One Zone")),
			[]string{"Normal Mountable: pods can mount the share again: file system fs-1 is One Zone"},
		},
	} {
		events := &canned.Events{}
		(&Reconciler{Events: events}).emit(tc.before, tc.after)
		if diff := cmp.Diff(tc.want, events.Said); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEventsTellOfChangesThatSomebodyMayWonderAbout(t *testing.T) {
	sv := owner("ns", "sv1")
	known := owner("ns", "sv1")
	known.Status.ClaimRef.Name = "pvc-sv1"
	volume, pvc := newVolume(sv, "pv-ns-sv1", "uid-of-pvc"), newPVC(sv, "pv-ns-sv1")
	for name, tc := range map[string]struct {
		owner *v1alpha1.SharedVolume
		do    change
		want  []string
	}{
		"IDs were changed": {sv, change{what: restoreIDs, object: sv}, []string{"Warning IDsRestored: the IDs of a SharedVolume are immutable: the " +
			"operator restored them from its volume. For another access point, create another SharedVolume"}},
		"taken over": {sv, change{what: dropFinalizer, object: sv}, []string{"Normal Adopted: migrated from the community's operator"}},
		"confined": {sv, change{what: addAffinity, object: volume}, []string{"Normal ZoneAffinityAdded: added a node affinity to PersistentVolume " +
			"pv-ns-sv1, as the annotation asks: new pods that use it run in the zone of its file system"}},
		"the first volume":     {sv, change{what: createVolume, object: volume}, nil},
		"the first PVC":        {sv, change{what: createPVC, object: pvc}, nil},
		"another volume":       {known, change{what: createVolume, object: volume}, []string{"Normal Rebuilt: recreated pv-ns-sv1"}},
		"another PVC":          {known, change{what: createPVC, object: pvc}, []string{"Normal Rebuilt: recreated pvc-sv1"}},
		"a volume is rejoined": {known, change{what: rejoinVolume, object: volume}, nil},
		"a volume is marked":   {known, change{what: markVolume, object: volume}, nil},
		"a PVC is adopted":     {known, change{what: adoptPVC, object: pvc}, nil},
		"a PVC is deleted":     {known, change{what: deletePVC, object: pvc}, nil},
		"a volume is deleted":  {known, change{what: deleteVolume, object: volume}, nil},
	} {
		events := &canned.Events{}
		(&Reconciler{Events: events}).recordChange(tc.owner, &tc.do)
		if diff := cmp.Diff(tc.want, events.Said); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAStatusIsWrittenOnlyIfItIsNew(t *testing.T) {
	failing := plan{phase: v1alpha1.Failed, reason: "NameTaken", message: "taken"}
	old := owner("ns", "sv1")
	old.Status = statusOf(old, seen{}, failing)
	known := owner("ns", "sv1")
	known.Status.ClaimRef.Name = "pvc-sv1"
	for name, tc := range map[string]struct {
		owner        *v1alpha1.SharedVolume
		step         plan
		writes, says int
	}{
		"new, and waits":                   {owner("ns", "sv1"), plan{phase: v1alpha1.Pending, reason: "Creating"}, 0, 0},
		"new, and waits for a reason":      {owner("ns", "sv1"), plan{phase: v1alpha1.Pending, reason: "Binding", message: "m"}, 1, 0},
		"known, and waits":                 {known, plan{phase: v1alpha1.Pending, reason: "Creating"}, 1, 0},
		"new, and fails":                   {owner("ns", "sv1"), failing, 1, 1},
		"it fails as before":               {old, failing, 0, 0},
		"it fails for another reason":      {old, plan{phase: v1alpha1.Failed, reason: "VolumeChanged", message: "m"}, 1, 1},
		"it fails, and the text is new":    {old, plan{phase: v1alpha1.Failed, reason: "NameTaken", message: "still taken"}, 1, 0},
		"it fails no more, and that again": {old, plan{phase: v1alpha1.Ready, reason: "Bound", bound: true}, 1, 1},
	} {
		w := newWorking(t)
		sv := tc.owner.DeepCopy()
		if err := w.report(t.Context(), sv.DeepCopy(), sv, seen{}, tc.step); err != nil {
			t.Fatal(err)
		}
		if got := len(w.cached.Writes); got != tc.writes || len(w.events.Said) != tc.says {
			t.Errorf("%s: writes %q, events %q, want %d and %d", name, w.cached.Writes, w.events.Said, tc.writes, tc.says)
		}
	}
}

func TestAStatusThatCannotBeWrittenIsNotEmitted(t *testing.T) {
	w := newWorking(t)
	w.cached.Refuse(errors.New("no answer"))
	sv := owner("ns", "sv1")
	err := w.report(t.Context(), sv.DeepCopy(), sv, seen{}, plan{phase: v1alpha1.Failed, reason: "NameTaken", message: "taken"})
	if err == nil || err.Error() != "write status of SharedVolume ns/sv1: no answer" || len(w.events.Said) > 0 {
		t.Errorf("error %v, events %q", err, w.events.Said)
	}
}

// The community's CRD refuses an empty reference, and fields that it does not have would be written at every look.
func TestWhatTheCRDLacksIsNotWritten(t *testing.T) {
	lacks := []string{"conditions", "observedGeneration", "volumeName"}
	for name, tc := range map[string]struct {
		lacks []string
		step  plan
		want  []string
	}{
		"ours, failing": {nil, plan{phase: v1alpha1.Failed, reason: "x", message: "m"}, []string{"claimRef", "conditions", "message", "phase"}},
		"ours, ready": {nil, plan{phase: v1alpha1.Ready, reason: "Bound", bound: true, volume: "v"}, []string{
			"claimRef", "conditions", "message", "phase", "volumeName",
		}},
		"the community's, failing": {lacks, plan{phase: v1alpha1.Failed, reason: "x", message: "m"}, []string{"message", "phase"}},
		"the community's, ready":   {lacks, plan{phase: v1alpha1.Ready, reason: "Bound", bound: true, volume: "v"}, []string{"claimRef", "message", "phase"}},
	} {
		w := newWorking(t)
		sv := owner("ns", "sv1")
		if err := w.report(t.Context(), sv.DeepCopy(), sv, seen{lacks: tc.lacks}, tc.step); err != nil || len(w.cached.Bodies) != 1 {
			t.Fatal(err, w.cached.Writes)
		}
		var sent struct{ Status map[string]any }
		if err := json.Unmarshal([]byte(w.cached.Bodies[0]), &sent); err != nil {
			t.Fatal(err)
		}
		var got []string
		for field := range sent.Status {
			got = append(got, field)
		}
		if diff := cmp.Diff(tc.want, got, cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		// What the CRD would drop does not make it a new status.
		stored := sv.DeepCopy()
		stored.Status = crdstatus.Trim(sv.Status, tc.lacks)
		if err := w.report(t.Context(), stored.DeepCopy(), stored, seen{lacks: tc.lacks}, tc.step); err != nil {
			t.Fatal(err)
		}
		if len(w.cached.Writes) != 1 {
			t.Errorf("%s: written again: %q", name, w.cached.Writes)
		}
	}
}
