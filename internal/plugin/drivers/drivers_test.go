package drivers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

const (
	efs  = "efs.csi.aws.com"
	home = "openshift-cluster-csi-drivers"
)

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func cr(name string, conditions ...string) *operatorv1.ClusterCSIDriver {
	made := &operatorv1.ClusterCSIDriver{ObjectMeta: named("", name)}
	for _, text := range conditions {
		kind, rest, _ := strings.Cut(text, "=")
		status, message, _ := strings.Cut(rest, " ")
		made.Status.Version = "1.0.0"
		made.Status.Conditions = append(made.Status.Conditions, operatorv1.OperatorCondition{
			Type: kind, Status: operatorv1.ConditionStatus(status), Reason: "Reason", Message: message,
		})
	}
	return made
}

func deployment(namespace, name string, available int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: named(namespace, name), Status: appsv1.DeploymentStatus{Replicas: 1, AvailableReplicas: available}}
}

func daemonSet(updated int32) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: named(home, "efs-csi-node"), Status: appsv1.DaemonSetStatus{
		DesiredNumberScheduled: 5, UpdatedNumberScheduled: updated, NumberReady: 4,
	}}
}

func csiDriver(name string) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: named("", name)}
}

// well are the conditions of a healthy driver.
func well() []string { return []string{"Available=True", "Degraded=False", "Progressing=False"} }

// set returns a command with a fake cluster.
func set(t *testing.T, objects ...client.Object) (*command, *canned.Cluster, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cluster := canned.New(scheme, objects...)
	out, errOut := &bytes.Buffer{}, &bytes.Buffer{}
	p := plugin.New(genericiooptions.IOStreams{Out: out, ErrOut: errOut})
	return &command{Plugin: p, Cluster: plugin.NewCluster(cluster, nil, "default")}, cluster, out, errOut
}

func many() []client.Object {
	removed, unmanaged, leaving := cr("secrets-store.csi.k8s.io", well()...), cr("pd.csi.storage.gke.io", well()...), cr("disk.csi.azure.com", well()...)
	removed.Spec.ManagementState, unmanaged.Spec.ManagementState = operatorv1.Removed, operatorv1.Unmanaged
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return []client.Object{
		cr(efs, "Available=True", "Degraded=False", "Progressing=True x",
			"AWSEFSDriverNodeServiceControllerProgressing=True 3 of 5 nodes have the new node pod; 2 idle nodes wait; this takes about 4 minutes"),
		csiDriver(efs), deployment(home, "aws-efs-csi-driver-operator", 1), daemonSet(3),
		cr("ebs.csi.aws.com", "Available=False", "AWSEBSDriverControllerServiceControllerAvailable=False no pod\nis there"),
		deployment(home, "aws-ebs-csi-driver-operator", 0),
		cr("file.csi.azure.com", "Available=True", "Degraded=True "+strings.Repeat("long ", 40)),
		cr("powervs.csi.ibm.com"), removed, unmanaged, leaving,
		csiDriver("disk.example.com"),
		deployment(home, "aws-efs-csi-driver-operator-of-others", 1),
	}
}

func TestEachDriverIsOnOneLine(t *testing.T) {
	c, _, out, _ := set(t, many()...)
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	golden.CompareText(t, "many.txt", out.String())
	for _, output := range []string{plugin.JSON, plugin.YAML} {
		c, _, out, _ := set(t, many()...)
		c.Output = output
		if err := c.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		golden.CompareText(t, "many."+output, out.String())
		if output == plugin.JSON {
			plugintest.FollowsSchema(t, "status", out.String())
		}
	}
}

// Conditions of vSphere's operator have one of these three formats.
func TestTheStatusOfVSphereSaysWhyItsDriverIsNotThere(t *testing.T) {
	const name, prefix, operates = "csi.vsphere.vmware.com", "VMwareVSphere", "vmware-vsphere-csi-driver-operator"
	removed := cr(name, "Available=False", "Degraded=False", "Progressing=False", prefix+"DriverControllerServiceControllerAvailable=False the driver is removed",
		prefix+"DriverDisabled=True the driver is removed because spec.managementState is Removed. Left in the cloud: the storage policy")
	removed.Spec.ManagementState = operatorv1.Removed
	for want, cr := range map[string]client.Object{
		"Removed, the driver is removed because spec.managementState is Removed. Left in the cloud: the storage policy": removed,
		"Available, HostVersion: ESXi of hosts a is too old":                                                            cr(name, append(well(), prefix+"DriverDisabled=True HostVersion: ESXi of hosts a is too old")...),
		"Degraded, HostVersion: ESXi of hosts a is too old": cr(name, "Available=True", "Degraded=True sum", "Progressing=False",
			prefix+"OperatorCheckDegraded=True HostVersion: ESXi of hosts a is too old\nNodeVM: none"),
		"Available, ": cr(name, append(well(), prefix+"DriverDisabled=False", prefix+"ControllerUpgradeable=False HostVersion: old")...),
	} {
		c, _, out, _ := set(t, cr, deployment(home, operates, 1))
		c.Output = plugin.JSON
		if err := c.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		var report Report
		if err := json.Unmarshal(out.Bytes(), &report); err != nil || len(report.Drivers) != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		row := report.Drivers[0]
		if got := string(row.State) + ", " + row.HeldUp; got != want || row.Operator != home+"/"+operates {
			t.Errorf("%q of %s, want %q", got, row.Operator, want)
		}
	}
}

func TestColoursLeaveTheColumnsAsTheyAre(t *testing.T) {
	c, _, out, _ := set(t, many()...)
	found, err := survey.Read(t.Context(), c.Cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var plainly string
	for _, colours := range []bool{false, true} {
		out.Reset()
		if err := c.Print(nil, table(rows(found), colours, false)); err != nil {
			t.Fatal(err)
		}
		if !colours {
			plainly = out.String()
			continue
		}
		text := out.String()
		if !strings.Contains(text, red) || !strings.Contains(text, yellow) {
			t.Errorf("no colours: %q", text)
		}
		for _, code := range []string{plain, red, green, yellow} {
			text = strings.ReplaceAll(text, code, "")
		}
		if text != plainly {
			t.Errorf("with colours:\n%s\nwithout:\n%s", text, plainly)
		}
	}
}

func TestWhatMayNotBeReadOrIsNotServedIsSaid(t *testing.T) {
	forbidden := func(group, resource string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "", errors.New("no"))
	}
	for name, refuse := range map[string]func(*canned.Cluster){
		"no-crd": func(c *canned.Cluster) {
			c.Refuse(&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "ClusterCSIDriver"}}, "list ClusterCSIDriver")
		},
		"no-rights": func(c *canned.Cluster) { c.Refuse(forbidden("storage.k8s.io", "csidrivers")) },
		"some-right": func(c *canned.Cluster) {
			c.Refuse(forbidden("operator.openshift.io", "clustercsidrivers"), "list ClusterCSIDriver")
		},
		"no-pods": func(c *canned.Cluster) {
			c.Refuse(apierrors.NewInternalError(errors.New("etcd is away")), "list Pod "+home)
		},
	} {
		c, cluster, out, _ := set(t, csiDriver(efs), csiDriver("disk.example.com"), deployment(home, "aws-efs-csi-driver-operator", 1), cr(efs, well()...))
		if name == "no-crd" {
			cluster.Objects = cluster.Objects[:2]
		}
		refuse(cluster)
		if err := c.run(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden.CompareText(t, name+".txt", out.String())
	}
}

func TestACopyAndAnEmptyClusterAreSeen(t *testing.T) {
	c, _, out, _ := set(t, cr(efs, well()...), deployment(home, "aws-efs-csi-driver-operator", 1), deployment("other", "aws-efs-csi-driver-operator", 1))
	if err := c.run(t.Context()); err != nil || !strings.Contains(out.String(), "(2 copies)") {
		t.Errorf("%v: %s", err, out)
	}
	c, _, out, _ = set(t)
	want := "No CSI driver was found. To use EFS, create ClusterCSIDriver efs.csi.aws.com: docs/guide/install.md"
	if err := c.run(t.Context()); err != nil || !strings.Contains(out.String(), want) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAnOperatorOutsideOfTheClusterIsSeenByItsLease(t *testing.T) {
	holder, seconds := "laptop_uuid", int32(60)
	lease := &coordinationv1.Lease{ObjectMeta: named(home, "aws-efs-csi-driver-operator-lock"), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: time.Now()},
	}}
	for _, objects := range [][]client.Object{{lease}, {lease, cr(efs, well()...)}} {
		c, _, out, _ := set(t, objects...)
		if err := c.run(t.Context()); err != nil || !strings.Contains(out.String(), " laptop (holds the Lease) ") {
			t.Errorf("%v: %s", err, out)
		}
	}
}

func TestTheDriverOfAChartLeadsToThePageAboutCharts(t *testing.T) {
	chart := &storagev1.CSIDriver{ObjectMeta: named("", efs)}
	chart.Annotations = map[string]string{"meta.helm.sh/release-name": "efs", "meta.helm.sh/release-namespace": "kube-system"}
	driver := survey.Driver{Name: efs, CSIDriver: chart, Profile: &survey.Profile{Operator: "aws-efs-csi-driver-operator"}}
	got := rowOf(driver, survey.Survey{CRs: plugin.Present}).HeldUp
	if want := "Helm release kube-system/efs runs the driver: see docs/guide/from-the-helm-chart.md"; got != want {
		t.Errorf("held up by %q, want %q", got, want)
	}
}

func TestAnAPIServerThatIsAwayIsAFailure(t *testing.T) {
	c, cluster, _, _ := set(t)
	cluster.Refuse(errors.New("connection refused"))
	err := c.run(t.Context())
	if plugin.Code(err) != plugin.Failed || !strings.Contains(err.Error(), "does not answer") {
		t.Error(err)
	}
}

// steps runs a function before each poll of a wait.
func (c *command) steps(cluster *canned.Cluster, steps ...func()) {
	c.wait, c.Poll = true, time.Millisecond
	var refusal error
	refuse := cluster.Fail
	cluster.Fail = func(asked string) error {
		if asked == "list CSIDriver" && len(steps) > 0 {
			refusal = nil
			if steps[0] == nil {
				refusal = &url.Error{Op: "Get", URL: "https://api", Err: errors.New("connection refused")}
			} else {
				steps[0]()
			}
			steps = steps[1:]
		}
		if refusal == nil && refuse != nil {
			return refuse(asked)
		}
		return refusal
	}
}

func TestWaitEndsWhenAllAreAvailable(t *testing.T) {
	driver := cr(efs, "Available=True", "Progressing=True")
	c, cluster, out, errOut := set(t, driver, csiDriver(efs), csiDriver("disk.example.com"), daemonSet(2))
	nothing := func() {}
	// The API server is unreachable twice.
	c.steps(cluster, nothing, nothing, nil, nil, nothing, func() { driver.Status = cr(efs, well()...).Status })
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	// An unchanged state is printed once.
	want := "0/1 drivers are available; efs.csi.aws.com is Progressing, 40% (2 of 5)\n" +
		"the API server does not answer, trying again: list CSIDrivers: list v1.CSIDriverList: Get \"https://api\": connection refused\n"
	if errOut.String() != want || !strings.Contains(out.String(), "Available") {
		t.Errorf("%s\nwant:\n%s\n%s", errOut, want, out)
	}
}

func TestWaitEndsWithACodeOfItsOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*command, *canned.Cluster)
		code   int
		text   string
	}{
		"too short": {func(c *command, _ *canned.Cluster) { c.timeout = 10 * time.Millisecond }, plugin.Unfinished,
			"timed out after 10ms while waiting until all drivers are available: run the command again"},
		"interrupted": {func(*command, *canned.Cluster) {}, plugin.Unfinished,
			"interrupted while waiting until all drivers are available: run the command again"},
		"no right": {func(_ *command, cluster *canned.Cluster) {
			cluster.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "clustercsidrivers"}, "", nil), "list ClusterCSIDriver")
		}, plugin.Failed, "wait: you lack permission to list ClusterCSIDrivers"},
		"what can't be read is no end": {func(c *command, cluster *canned.Cluster) {
			c.timeout = 10 * time.Millisecond
			cluster.Refuse(apierrors.NewUnauthorized("no"), "list CSIDriver")
		}, plugin.Unfinished, "timed out after 10ms"},
		"a person has to act": {func(_ *command, cluster *canned.Cluster) {
			waits := cr(efs, "Available=True", "Degraded=False", "Progressing=False", "AWSEFSCredentialsRequestControllerAvailable=True delete the Secret")
			waits.Status.Conditions[3].Reason = "ActionRequired"
			cluster.Objects = []client.Object{waits}
		}, plugin.Wrong, "the wait ends only when you act: efs.csi.aws.com: delete the Secret"},
	} {
		c, cluster, out, _ := set(t, cr(efs))
		tc.change(c, cluster)
		c.steps(cluster)
		ctx, cancel := context.WithCancel(t.Context())
		if name == "interrupted" {
			cancel()
		}
		err := c.run(ctx)
		cancel()
		if plugin.Code(err) != tc.code || !strings.HasPrefix(fmt.Sprint(err), tc.text) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(out.String(), "You lack permission") || name == "interrupted" && out.Len() > 0 {
			t.Errorf("%s: it speaks of rights: %s", name, out)
		}
	}
}

func TestWithoutADriverThereIsNothingToWaitFor(t *testing.T) {
	for _, objects := range [][]client.Object{{csiDriver("disk.example.com")}, nil, {&corev1.Pod{ObjectMeta: named(home, "p")}}} {
		c, cluster, _, errOut := set(t, objects...)
		c.steps(cluster)
		if err := c.run(t.Context()); err != nil || errOut.Len() > 0 {
			t.Errorf("%v: %s", err, errOut)
		}
	}
}

func TestStatusShowsTheDriversThatAreNamed(t *testing.T) {
	got := plugintest.Run(t, plugintest.Cluster(t, many()...), "", Command, "status", "disk.example.com", efs)
	if lines := strings.Split(strings.TrimSpace(got.Out), "\n"); len(lines) != 3 || !strings.Contains(got.Out, efs) || got.Code != 0 {
		t.Error(got.Text())
	}
	got = plugintest.Run(t, plugintest.Cluster(t, cr(efs, well()...), cr("ebs.csi.aws.com")), "", Command, "status", "--wait", efs)
	if got.Code != 0 {
		t.Errorf("a wait for one driver waits for others: %s", got.Text())
	}
	for _, line := range []string{"status efs", "status --wait efs"} {
		got = plugintest.Run(t, plugintest.Cluster(t, csiDriver(efs)), "", Command, strings.Fields(line)...)
		want := `the cluster has no driver "efs": its drivers are efs.csi.aws.com`
		if got.Code != plugin.Wrong || got.Err == nil || !strings.Contains(got.Err.Error(), want) {
			t.Errorf("%s: %s", line, got.Text())
		}
	}
}

func TestAWatchOfTheStatusPrintsWhatHasChanged(t *testing.T) {
	driver := cr(efs, "Available=True", "Progressing=True")
	c, cluster, out, _ := set(t, driver, csiDriver(efs))
	ctx, interrupt := context.WithCancel(t.Context())
	c.steps(cluster, func() {}, func() {}, func() { driver.Status = cr(efs, well()...).Status }, interrupt)
	c.wait, c.watch, c.Output = false, true, plugin.JSON
	if err := c.run(ctx); err != nil {
		t.Error(err)
	}
	plugintest.FollowsSchema(t, "status", out.String())
	var states []string
	for documents := json.NewDecoder(out); documents.More(); {
		var report Report
		if err := documents.Decode(&report); err != nil {
			t.Fatal(err)
		}
		states = append(states, string(report.Drivers[0].State))
	}
	if diff := cmp.Diff([]string{"Progressing", "Available"}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	root := c.Root("oc storage", "test", Command(c.Plugin))
	root.SetArgs([]string{"status", "--wait", "--watch"})
	if err := root.ExecuteContext(t.Context()); plugin.Code(err) != plugin.WrongUsage {
		t.Errorf("--wait and --watch: %v", err)
	}
}
