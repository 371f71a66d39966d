package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/plugin/install"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

const csvName = versionKind + " " + awsefs.Operator + ".v5.3.0"

// remembered is a cluster and an account of AWS that know the words of a clean-up. Its objects are named as a record names them.
type remembered struct {
	objects map[string]types.UID
	// labels has the value of runLabel of objects.
	labels map[string]string
	// lists answer "oc get" of whole kinds. An answer may be a function.
	lists map[string]any
	// shares has the file systems of AWS by the name of their share.
	shares map[string]string
	// did has all commands that change something.
	did []string
	// lacks is a kind that the cluster does not have.
	lacks string
	// plan answers "oc storage install efs --dry-run".
	plan install.Plan
	// csv is whether OLM installs the operator, and late is a ClusterServiceVersion that comes after the deletion of the Subscription. coming is the
	// currentCSV, if it is another one.
	csv, late, coming string
}

// opened is a clean-up of it.
func (r *remembered) opened() *proof {
	return &proof{
		out: io.Discard, started: time.Now(), poll: time.Millisecond, patience: 20 * time.Millisecond, command: r.command,
		list: func(_ context.Context, name string) (efscleanup.Report, error) {
			if id := r.shares[name]; id != "" {
				return efscleanup.Report{Objects: []efscleanup.Object{{Kind: efscleanup.FileSystem, ID: id}}}, nil
			}
			return efscleanup.Report{}, nil
		},
	}
}

func (r *remembered) command(_ context.Context, input, _ string, args ...string) (string, error) {
	line := strings.Join(args, " ")
	switch {
	case args[0] == "get":
		return r.get(args)
	case slices.Contains(args, "--dry-run"):
		return asJSON(r.plan)
	case args[0] == "apply":
		line += " " + input
	case args[0] == "wait" || slices.Contains(args, "wait"):
		return "", nil
	}
	r.did = append(r.did, line)
	if strings.HasPrefix(line, "storage uninstall efs") {
		delete(r.objects, driverName)
	}
	for name, uid := range r.objects {
		kind, _, _ := strings.Cut(strings.ToLower(name), " ")
		if args[0] == "delete" && strings.Contains(args[2], "/"+kind) && strings.HasSuffix(args[2], "/"+name[strings.LastIndexAny(name, " /")+1:]) {
			if !strings.Contains(input, fmt.Sprintf("%q", uid)) {
				return "", errors.New("oc delete: exit status 1: Error from server (Conflict): Precondition failed")
			}
			delete(r.objects, name)
		}
	}
	if strings.HasPrefix(line, "delete ") && strings.Contains(line, "/subscriptions/") && r.late != "" {
		r.objects[r.late], r.late = "late", ""
	}
	return "", nil
}

func (r *remembered) get(args []string) (string, error) {
	if r.lacks != "" && slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, r.lacks+"/") }) {
		return "", errors.New(`oc get: exit status 1: error: the server doesn't have a resource type "` + r.lacks + `"`)
	}
	if answer := r.lists[args[len(args)-4]]; answer != nil {
		if next, is := answer.(func() any); is {
			answer = next()
		}
		return asJSON(answer)
	}
	object := func(name string) map[string]any {
		kind, short, _ := strings.Cut(name, " ")
		metadata := map[string]any{"name": short, "uid": string(r.objects[name]), "labels": map[string]any{runLabel: r.labels[name]}}
		if namespace, name, is := strings.Cut(short, "/"); is {
			metadata["namespace"], metadata["name"] = namespace, name
		}
		return map[string]any{"apiVersion": "example/v1", "kind": kind, "metadata": metadata, "status": map[string]any{
			"installedCSV": r.csv, "currentCSV": cmp.Or(r.coming, r.csv),
		}}
	}
	items := []any{}
	for name := range r.objects {
		kind, _, _ := strings.Cut(name, " ")
		plain := name[strings.LastIndexAny(name, " /")+1:]
		isVersion := strings.Contains(strings.Join(args, " "), "clusterserviceversions") && kind == versionKind
		if isVersion || slices.ContainsFunc(args, func(arg string) bool {
			return strings.HasPrefix(arg, strings.ToLower(kind)) && strings.HasSuffix(arg, "/"+plain)
		}) {
			items = append(items, object(name))
		}
	}
	if slices.Contains(args, awsefs.Operator) && r.objects[subscriptionName] != "" {
		return asJSON(object(subscriptionName))
	}
	return asJSON(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

func asJSON(object any) (string, error) {
	text, err := json.Marshal(object)
	return string(text), err
}

// changed returns which commands begin with or have a word.
func (r *remembered) changed(word string) []string {
	return slices.DeleteFunc(slices.Clone(r.did), func(line string) bool { return !strings.Contains(line, word) })
}

// ours is an installation and its record.
func ours() (*remembered, *record) {
	objects := map[string]types.UID{
		driverName: "driver", subscriptionName: "subscription", catalogName: "catalog", csvName: "csv", crdName: "crd",
	}
	noted := &record{Before: []string{}, Made: map[string]types.UID{}}
	for name, uid := range objects {
		noted.Made[name] = uid
	}
	return &remembered{objects: objects, lists: map[string]any{}, csv: awsefs.Operator + ".v5.3.0"}, noted
}

func TestTheCleanUpRemovesWhatTheRunHasInstalledAndForgetsIt(t *testing.T) {
	for _, lacks := range []string{"", "consolequickstarts"} {
		cluster, noted := ours()
		cluster.lacks = lacks
		if _, err := cluster.opened().uninstall(t.Context(), noted); err != nil {
			t.Error(err)
		}
		if len(cluster.objects) > 0 {
			t.Errorf("left are %v", cluster.objects)
		}
		if last := cluster.did[len(cluster.did)-1]; last != "annotate namespace "+space+" "+installed+"-" {
			t.Errorf("the last command is %q: a later run would take a later installation for this one", last)
		}
	}
}

// Since the run was killed, an administrator has removed the driver and installed it anew, or has replaced a part of it.
func TestTheCleanUpKeepsWhatOthersHaveInstalledSince(t *testing.T) {
	for _, name := range []string{driverName, subscriptionName, catalogName} {
		cluster, noted := ours()
		cluster.objects[name] = "of others"
		_, err := cluster.opened().uninstall(t.Context(), noted)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "oc annotate namespace") {
			t.Errorf("%s: the error is %v", name, err)
		}
		if cluster.objects[name] == "" || cluster.objects[crdName] == "" {
			t.Errorf("%s: the clean-up has left only %v", name, cluster.objects)
		}
		if name != catalogName && len(cluster.changed("delete")) > 0 {
			t.Errorf("%s: the clean-up has done %q", name, cluster.did)
		}
	}
	cluster, noted := ours()
	noted.Before = []string{catalogName}
	delete(noted.Made, catalogName)
	if _, err := cluster.opened().uninstall(t.Context(), noted); err != nil || cluster.objects[catalogName] == "" {
		t.Errorf("what was there before is not left: %v (%v)", cluster.objects, err)
	}
}

func TestTheCRDStaysWhileThereAreSharedVolumes(t *testing.T) {
	cluster, noted := ours()
	// An earlier clean-up has removed the driver.
	delete(cluster.objects, driverName)
	cluster.lists["-A"] = map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{
		map[string]any{"apiVersion": "v1", "kind": "SharedVolume", "metadata": map[string]any{"name": "data", "namespace": "shop"}},
	}}
	_, err := cluster.opened().uninstall(t.Context(), noted)
	if err == nil || !strings.Contains(err.Error(), "shop/data") || cluster.objects[crdName] == "" {
		t.Errorf("left are %v (%v)", cluster.objects, err)
	}
	if len(cluster.changed(installed+"-")) > 0 {
		t.Error("the record is gone, so that nothing would delete the CRD later")
	}
}

// A catalog that can't be pulled is such a case. The ClusterServiceVersion may come after the wait.
func TestTheCleanUpEndsWithoutAnOperator(t *testing.T) {
	for _, late := range []string{"", csvName} {
		cluster, noted := ours()
		cluster.csv, cluster.late = "", late
		delete(cluster.objects, csvName)
		delete(noted.Made, csvName)
		if _, err := cluster.opened().uninstall(t.Context(), noted); err != nil {
			t.Error(err)
		}
		if len(cluster.objects) > 0 {
			t.Errorf("left are %v", cluster.objects)
		}
		if first := cluster.changed("delete")[0]; !strings.Contains(first, "/subscriptions/") {
			t.Errorf("the first deletion is %q", first)
		}
	}
}

// A run was killed after it had created objects, and before it noted their UIDs.
func TestTheCleanUpKnowsItsObjectsByTheirLabel(t *testing.T) {
	for label, mine := range map[string]bool{"this": true, "another": false, "": false} {
		cluster, noted := ours()
		noted.Run, noted.Made = "this", map[string]types.UID{}
		cluster.labels = map[string]string{subscriptionName: label, driverName: label, catalogName: label}
		_, err := cluster.opened().uninstall(t.Context(), noted)
		if mine && (err != nil || len(cluster.objects) > 0) {
			t.Errorf("left are %v (%v)", cluster.objects, err)
		}
		if !mine && (err == nil || len(cluster.changed("delete")) > 0) {
			t.Errorf("with label %q, the clean-up has done %q (%v)", label, cluster.did, err)
		}
	}
}

// The operator creates its Lease when it starts, which may be after the record was written.
func TestTheCleanUpDeletesTheLeaseOfTheOperator(t *testing.T) {
	const lease = "Lease openshift-cluster-csi-drivers/" + awsefs.Operator + "-lock"
	cluster, noted := ours()
	noted.Made[lease] = "another"
	cluster.objects[lease] = "lease"
	if _, err := cluster.opened().uninstall(t.Context(), noted); err == nil || cluster.objects[lease] == "" {
		t.Errorf("a Lease of others is gone (%v)", err)
	}
	cluster, noted = ours()
	cluster.objects[lease] = "lease"
	if _, err := cluster.opened().uninstall(t.Context(), noted); err != nil || len(cluster.objects) > 0 {
		t.Errorf("left are %v (%v)", cluster.objects, err)
	}
}

// used is a PersistentVolume of the file system of a share.
func used(name, handle, namespace string) corev1.PersistentVolume {
	volume := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: awsefs.Name, VolumeHandle: handle}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: name}
	return volume
}

func TestAFileSystemInUseIsNotDeleted(t *testing.T) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "writer"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "lines"},
	}}}
	unbound := used("data", "fs-1::fsap-2", "")
	unbound.Spec.ClaimRef = nil
	nfs := used("data", "", "shop")
	nfs.Spec.CSI, nfs.Spec.NFS = nil, &corev1.NFSVolumeSource{Server: "us-east-1a.fs-1.efs.us-east-1.amazonaws.com"}
	for name, one := range map[string]struct {
		volume corev1.PersistentVolume
		pods   []corev1.Pod
		want   string
	}{
		"a PVC of others":         {used("data", "fs-1::fsap-2", "shop"), nil, "PersistentVolume data of PVC shop/data"},
		"a pod that does not end": {used("lines", "fs-1::fsap-2", space), []corev1.Pod{pod}, "pod " + space + "/writer"},
		"NFS":                     {nfs, nil, "PersistentVolume data of PVC shop/data"},
		"a volume without a PVC":  {unbound, nil, "PersistentVolume data"},
		"another file system":     {used("data", "fs-12::fsap-2", "shop"), nil, ""},
		"no pod":                  {used("lines", "fs-1", space), nil, ""},
	} {
		cluster := &remembered{shares: map[string]string{shareName: "fs-1"}, lists: map[string]any{
			"persistentvolumes": corev1.PersistentVolumeList{Items: []corev1.PersistentVolume{one.volume}}, "pods": corev1.PodList{Items: one.pods},
		}}
		_, err := cluster.opened().deleteShares(t.Context(), true)
		if one.want == "" && (err != nil || len(cluster.did) != 1) || one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if one.want != "" && len(cluster.did) > 0 {
			t.Errorf("%s: the clean-up has done %q", name, cluster.did)
		}
	}
}

// A person can create a share of any name, also of this one.
func TestWithoutItsNamespaceSharesAreDeletedOnRequestOnly(t *testing.T) {
	for _, asked := range []bool{false, true} {
		cluster := &remembered{lists: map[string]any{}, shares: map[string]string{oneZoneName: "fs-1", "prove": "fs-2"}}
		p := cluster.opened()
		p.cleanOnly = asked
		_, err := p.deleteShares(t.Context(), false)
		switch {
		case asked && (err != nil || len(cluster.did) != 1 || !strings.Contains(cluster.did[0], "--name "+oneZoneName+" --delete")):
			t.Errorf("with CLEAN=1, it has done %q (%v)", cluster.did, err)
		case !asked && (err == nil || !strings.Contains(err.Error(), "CLEAN=1") || len(cluster.did) > 0):
			t.Errorf("without CLEAN=1, it has done %q (%v)", cluster.did, err)
		}
	}
}

// The record is in the Namespace before the installation, with what stays, and then with what came.
func TestTheRecordHasWhatIsNew(t *testing.T) {
	cluster, noted := ours()
	noted.Before, noted.Made = []string{catalogName}, map[string]types.UID{driverName: "older"}
	noted.Run = "this"
	cluster.labels = map[string]string{subscriptionName: "this", driverName: "this", catalogName: "this"}
	if _, err := cluster.opened().noteMade(t.Context(), noted, ofOLM); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(map[string]types.UID{driverName: "older", subscriptionName: "subscription", csvName: "csv", crdName: "crd"})
	if got := fmt.Sprint(noted.Made); got != want {
		t.Errorf("the record is %s, want %s", got, want)
	}
	at := &corev1.Namespace{}
	_, text, _ := strings.Cut(cluster.did[0], installed+"=")
	at.Annotations = map[string]string{installed: text}
	if read, err := recordOf(at); err != nil || fmt.Sprint(*read) != fmt.Sprint(*noted) {
		t.Errorf("read as %v (%v)", read, err)
	}
}

// While a clean-up waits for OLM, an administrator can create a ClusterCSIDriver, or the policies of the guide.
func TestACleanUpAdoptsOnlyWhatOLMCreates(t *testing.T) {
	cluster, noted := ours()
	cluster.objects["ValidatingAdmissionPolicy roles.limits."+awsefs.Operator] = "policy"
	noted.Before, noted.Made = []string{catalogName}, map[string]types.UID{subscriptionName: "subscription"}
	if _, err := cluster.opened().noteMade(t.Context(), noted, ofOLM); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(map[string]types.UID{subscriptionName: "subscription", csvName: "csv", crdName: "crd"})
	if got := fmt.Sprint(noted.Made); got != want {
		t.Errorf("the record is %s, want %s", got, want)
	}
}
