package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
)

// asProve makes the program of these tests the proof, as "make prove" starts it.
const asProve = "CSI_OPERATORS_PROVE"

func TestMain(m *testing.M) {
	if os.Getenv(asProve) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// olderImage is a catalog with an earlier release.
const olderImage = "registry.example/catalog:older"

// account is a cluster with OLM in an account of AWS. Both are stand-ins.
type account struct {
	*fakeaws.Cloud
	cluster *env.Cluster
	// path has oc.
	path string
	// before is what AWS has of others.
	before []string
}

// open starts both. Nothing else of the test asks AWS.
func open(t *testing.T, flags ...string) *account {
	t.Helper()
	cluster, err := env.Start(t.Context(), flags...)
	env.Must(t, err)
	t.Cleanup(func() { env.Must(t, cluster.Stop(context.Background())) })
	a := &account{Cloud: fakeaws.NewCloud(t, fakeaws.Start(t)), cluster: cluster, path: t.TempDir()}
	env.Must(t, fakeolm.ServeKinds(t.Context(), cluster))
	for _, namespace := range []string{"openshift-marketplace", env.OperatorNamespace} {
		env.Must(t, cluster.Namespace(t.Context(), namespace))
	}
	catalogs, err := catalogs()
	env.Must(t, err)
	// On real nodes, the operator runs in its pod.
	start := fakeolm.New
	if slices.Contains(flags, "--real-nodes") {
		start = fakeolm.OnNodes
	}
	lifecycle := start(cluster)
	ctx, end := context.WithCancel(context.Background())
	ended := lifecycle.FollowSubscriptions(ctx, catalogs)
	t.Cleanup(func() {
		end()
		<-ended
		_ = lifecycle.Stop()
	})
	infrastructure := env.NewObject("config.openshift.io/v1", "Infrastructure", "", "cluster")
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(infrastructure), infrastructure))
	id, _, err := unstructured.NestedString(infrastructure.Object, "status", "infrastructureName")
	env.Must(t, err)
	a.VPC(fakeaws.OwnedBy(id))
	// A person has called a share "prove".
	a.before = append(a.All(), a.FileSystem(fakeaws.OwnedBy(id), ""), a.FileSystem(fakeaws.OwnedBy(id, efscleanup.MarkerTag, "prove"), ""))
	plugin, err := env.Binary("oc-storage")
	env.Must(t, err)
	clients := t.TempDir()
	env.Must(t, cluster.Kubectls(clients))
	env.Must(t, os.Symlink(plugin, filepath.Join(a.path, "oc-storage")))
	env.Must(t, os.WriteFile(filepath.Join(a.path, "oc"), fmt.Appendf(nil, oc, filepath.Join(clients, "kubectl"), a.path), 0o700))
	return a
}

// oc finds the plugin in PATH, and hands its arguments to it, as oc does. AWS is faster here. It notes all commands but the signs of life, which come at
// the same time as others, and sends a signal to its caller before or after one, if file "kill" names the signal, a part of the command, and which of
// these commands it is. File "hold" names a command that hangs, and a pipe that says so.
const oc = `#!/bin/sh
set -eu
run() {
	case "$1 ${2:-}" in
	"storage efs") shift; $exec oc-storage "$@" --poll 1ms --max-backoff 1ms ;;
	"storage "*) shift; $exec oc-storage "$@" ;;
	*) $exec %[1]q "$@" ;;
	esac
}
case "$*" in
*prove-alive=*) exec=exec; run "$@" ;;
esac
echo "$*" | tr '\n' ' ' >> %[2]q/commands
echo >> %[2]q/commands
when=never exec=exec status=0
if [ -e %[2]q/hold ]; then
	{ read -r words; read -r pipe; } < %[2]q/hold
	case "$*" in *"$words"*) echo > "$pipe"; sleep 600 ;; esac
fi
if [ -e %[2]q/kill ]; then
	{ read -r when signal at; read -r words; } < %[2]q/kill
	tail -n 1 %[2]q/commands | grep -qF -e "$words" && [ "$(grep -cF -e "$words" %[2]q/commands)" = "$at" ] || when=never
fi
case $when in
before) kill "-$signal" $PPID; exit 1 ;;
after) exec= ; run "$@" || status=$?; kill "-$signal" $PPID; exit $status ;;
*) run "$@" ;;
esac
`

// commands returns the commands that oc has received since the last call.
func (a *account) commands(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(a.path, "commands")
	text, err := os.ReadFile(file)
	env.Must(t, errors.Join(err, os.Remove(file)))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// catalogs are the images of catalogs, with the releases.
func catalogs() (map[string]fakeolm.CSV, error) {
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	repository := os.DirFS(root)
	_, older, err := releases()
	if err != nil {
		return nil, err
	}
	source, err := os.ReadFile(filepath.Join(root, "bundle/install/1-catalogsource.yaml"))
	if err != nil {
		return nil, err
	}
	_, image, _ := strings.Cut(string(source), "  image: ")
	image, _, _ = strings.Cut(image, "\n")
	found := map[string]fakeolm.CSV{}
	files, err := olm.ReadFiles(repository, path.Join("bundle", env.OperatorName))
	if err != nil {
		return nil, err
	}
	if found[image], err = fakeolm.ReadBundle(files); err != nil {
		return nil, err
	}
	found[publishedImage] = found[image]
	if files, err = olm.Generate(repository, older, olm.Packages()[0]); err != nil {
		return nil, err
	}
	found[olderImage], err = fakeolm.ReadBundle(files)
	return found, err
}

// releases are that of the tree, and one before it that differs in its version only.
func releases() (current, older release.Release, err error) {
	root, err := env.Root()
	if err != nil {
		return current, older, err
	}
	if current, err = release.Load(os.DirFS(root)); err != nil {
		return current, older, err
	}
	version, err := release.ParseVersion(current.Version.String() + "-preview.1")
	if err != nil {
		return current, older, err
	}
	older, err = release.LoadAt(os.DirFS(root), version)
	return current, older, err
}

// prove is the command line of the proof.
func (a *account) prove(folder string, args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], append([]string{ //nolint:noctx // The tests end it.
		"-kubeconfig", a.cluster.Kubeconfig(), "-account", fakeaws.Account, "-output", folder, "-poll", "300ms", "-beat", "1s", "-timeout", "1m",
	}, args...)...)
	command.Env = append(a.variables(), asProve+"=1")
	return command
}

// variables make oc and AWS those of the account.
func (a *account) variables() []string {
	return append(fakeaws.Variables(), "AWS_ENDPOINT_URL="+a.URL, "PATH="+a.path+":"+os.Getenv("PATH"))
}

// run runs it to its end.
func (a *account) run(t *testing.T, args ...string) (report string) {
	t.Helper()
	folder := t.TempDir()
	output, err := a.prove(folder, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	t.Logf("%s", output)
	text, err := os.ReadFile(filepath.Join(folder, "report.md"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// oc runs the command for the test itself.
func (a *account) oc(ctx context.Context, _, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(a.path, name), args...)
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, problems.String())
	}
	return string(output), err
}

// nothingLeft fails if the proof has left anything in AWS or in the cluster.
func (a *account) nothingLeft(t *testing.T) {
	t.Helper()
	a.In(t).WantLeft(a.before...)
	olmKind := func(kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: kind}
	}
	for name, one := range map[string]struct {
		kind      schema.GroupVersionKind
		namespace string
	}{
		space: {corev1.SchemeGroupVersion.WithKind("Namespace"), ""}, env.OperatorName: {olmKind("Subscription"), env.OperatorNamespace},
		"csi-operators": {olmKind("CatalogSource"), "openshift-marketplace"}, "efs-" + shareName: {schema.GroupVersionKind{
			Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"}, ""},
		"efs-" + oneZoneName: {schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"}, ""},
		"efs.csi.aws.com":    {schema.GroupVersionKind{Group: "operator.openshift.io", Version: "v1", Kind: "ClusterCSIDriver"}, ""},
		"sharedvolumes.aws-efs.managed.openshift.io": {schema.GroupVersionKind{
			Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, ""},
	} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(one.kind)
		err := a.cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: one.namespace, Name: name}, object)
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s %s is left (%v)", one.kind.Kind, name, err)
		}
	}
	left, err := (&proof{command: a.oc}).read(t.Context())
	env.Must(t, err)
	if len(left) > 0 {
		t.Errorf("%v are left", left.names())
	}
	volumes := &corev1.PersistentVolumeList{}
	env.Must(t, a.cluster.Client.List(t.Context(), volumes))
	if len(volumes.Items) > 0 {
		t.Errorf("%d PersistentVolumes are left", len(volumes.Items))
	}
}

// The steps that need no container succeed, all others say why they were skipped, and nothing is left: after the end, after a kill anywhere, and
// after Ctrl-C.
func TestTheProofLeavesNothing(t *testing.T) {
	a := open(t, "--nodes", "5")
	requests, commands := 0, 0
	t.Run("at its end", func(t *testing.T) {
		report := a.run(t, "-older", olderImage)
		requests, commands = len(a.Calls()), len(a.commands(t))
		for _, want := range []string{
			"| Installation | passed |", "| File system | passed |", "| One Zone file system | passed |", "simulated by a devcluster",
			"Of 12 steps, 9 passed, 0 failed, and 3 were skipped. **This was a rehearsal**", "by AWS_ENDPOINT_URL",
			"| A volume of each mode | skipped | 0 | a devcluster simulates the nodes", "| SharedVolume | passed |",
			"| Upgrade | passed |", "-preview.1 to ", "| Tests | skipped | 0 | TESTS= names no command |", "| Removal of the driver | passed |",
			"| Clean-up in AWS | passed |", "| Removal of the rest | passed |",
		} {
			if !strings.Contains(report, want) {
				t.Errorf("the report lacks %q:\n%s", want, report)
			}
		}
		a.nothingLeft(t)
	})
	t.Run("as a job of a CI", func(t *testing.T) {
		report := a.run(t, "-steps", "share,tests", "-tests", `test -s "$MANIFEST" && oc get storageclass "$STORAGE_CLASS" -o name`)
		if !strings.Contains(report, "storageclass.storage.k8s.io/efs-csi-operators-prove |") || !strings.Contains(report, "| Installation | skipped |") {
			t.Errorf("the report is\n%s", report)
		}
		a.nothingLeft(t)
	})
	dice := env.Dice(t)
	// The driver exists, and the record does not have it.
	kills := []fault{{when: "after", words: "create -f -", at: 1 + plannedObjects}}
	// Every second kill of the soak is at a request to AWS, and the others are at a command.
	rounds := 0
	if env.IsSoak(t) {
		rounds = min(env.Rounds(t), 20)
		// OLM finds the upgrade when the run is gone.
		kills = append(kills, fault{when: "after", words: "patch catalogsources", at: 1})
	}
	if requests == 0 || t.Failed() {
		return
	}
	for i := range rounds {
		one := fault{when: []string{"before", "after"}[dice.IntN(2)], at: 1 + dice.IntN(commands)}
		if i%2 == 1 {
			one = fault{request: 1 + dice.IntN(requests)}
		}
		kills = append(kills, one)
	}
	for _, one := range kills {
		t.Run("killed "+one.String(), func(t *testing.T) {
			one.signal = syscall.SIGKILL
			a.kill(t, one)
			a.cleanTwice(t)
			a.nothingLeft(t)
		})
	}
	if !env.IsSoak(t) {
		return
	}
	t.Run("after Ctrl-C", func(t *testing.T) {
		a.kill(t, fault{signal: syscall.SIGINT, when: "after", words: "create -f -", at: 2 + plannedObjects})
		a.nothingLeft(t)
	})
}

// plannedObjects is the number of objects that an installation creates after Namespace csi-operators-prove. The operator's Namespace exists before.
const plannedObjects = 4

// fault is when a proof gets a signal: at a request to AWS, or before or after the command of oc that is the nth one with these words.
type fault struct {
	signal  syscall.Signal
	request int
	when    string
	words   string
	at      int
}

func (f fault) String() string {
	if f.request > 0 {
		return fmt.Sprintf("at request %d", f.request)
	}
	return strings.TrimSpace(fmt.Sprintf("%s command %d %s", f.when, f.at, f.words))
}

// kill starts the proof, and sends it the signal. A proof that looks less often than the first one may end before a command or request of that number.
func (a *account) kill(t *testing.T, f fault) {
	t.Helper()
	file := filepath.Join(a.path, "kill")
	_ = os.Remove(filepath.Join(a.path, "commands"))
	if f.when != "" {
		env.Must(t, os.WriteFile(file, fmt.Appendf(nil, "%s %d %d\n%s\n", f.when, int(f.signal), f.at, f.words), 0o600))
	}
	command := a.prove(t.TempDir(), "-older", olderImage)
	output, err := command.StdoutPipe()
	env.Must(t, err)
	var problems bytes.Buffer
	command.Stderr = &problems
	started := make(chan struct{})
	a.Set(func(call fakeaws.Call) fakeaws.Fault {
		if call.Number == f.request {
			<-started
			_ = command.Process.Signal(f.signal)
		}
		return nil
	})
	defer a.Set(nil)
	env.Must(t, command.Start())
	close(started)
	reader := bufio.NewReader(output)
	for {
		text, err := reader.ReadString('\n')
		if errors.Is(err, io.EOF) || err != nil {
			break
		}
		t.Log(strings.TrimSpace(text))
	}
	err = command.Wait()
	if err == nil && f.words != "" {
		t.Error("the proof has come to its end before the signal: this shows nothing")
	}
	_ = os.Remove(file)
	commands := a.commands(t)
	t.Logf("%v %s; the last of %d commands was %q", err, problems.String(), len(commands), commands[len(commands)-1])
}
