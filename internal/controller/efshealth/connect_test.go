package efshealth

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// cached reads what a cluster has.
type cached struct {
	cache.Cache
	cluster *canned.Cluster
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return c.cluster.Get(ctx, key, into, options...)
}

func (c cached) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return c.cluster.List(ctx, list, options...)
}

// region has a file system with a mount target and no access point.
type region struct {
	counted
	made aws.Options
}

func (*region) AccessPoints(context.Context, string) ([]aws.AccessPoint, error) { return nil, nil }

func (*region) MountTargets(context.Context, string) ([]aws.MountTarget, error) {
	return []aws.MountTarget{{Zone: "us-east-1a", State: aws.StateAvailable}}, nil
}

func (r *region) Requests() int { return r.lists }

// predecessor is an operator before this one.
type predecessor struct {
	running string
	err     error
}

func (f predecessor) Running(context.Context) (string, error) { return f.running, f.err }

func (predecessor) Events(handler.EventHandler) source.Source { return nil }

func secret(id string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: secretName},
		Data:       map[string][]byte{"aws_access_key_id": []byte(id), "aws_secret_access_key": []byte("abc")},
	}
}

func bundle(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "aws-efs-csi-driver-trusted-ca-bundle"}, Data: map[string]string{driver.TrustedCAKey: text},
	}
}

func infrastructure(name string) *configv1.Infrastructure {
	made := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: openshift.Singleton}}
	made.Status.InfrastructureName = "dev-x"
	made.Status.PlatformStatus = &configv1.PlatformStatus{Type: configv1.AWSPlatformType, AWS: &configv1.AWSPlatformStatus{
		Region: name, ServiceEndpoints: []configv1.AWSServiceEndpoint{{Name: "ec2", URL: "https://ec2.example"}},
	}}
	return made
}

// onAWS is a reconciler whose connections lead to one region.
func onAWS(t *testing.T, there *region, objects ...client.Object) (*Reconciler, *canned.Cluster) {
	t.Helper()
	r, c := newReconciler(t, objects...)
	r.Secrets, r.Classes = map[string]cache.Cache{secretName: cached{cluster: c}, "": cached{cluster: c}}, cached{cluster: c}
	r.followAll(nil)
	r.volumes.Queue, r.nodes.Queue = &later{}, &later{}
	for _, object := range objects {
		if err := errors.Join(r.volumes.Add(object), r.nodes.Add(object)); err != nil {
			t.Fatal(err)
		}
	}
	r.Connect = func(_ context.Context, options aws.Options) (Cloud, error) {
		there.made = options
		return there, nil
	}
	return r, c
}

type countedReads struct {
	client.Reader
	reads int
}

func (c *countedReads) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	c.reads++
	return c.Reader.Get(ctx, key, object, options...)
}

func TestAConnectionIsMadeOfTheSecretAndThePlace(t *testing.T) {
	there := &region{}
	r, c := onAWS(t, there, secret("one"), infrastructure("eu-west-1"), bundle(""))
	r.HasInfrastructure = true
	connect := func() Cloud {
		t.Helper()
		there.made = aws.Options{}
		found, err := r.place(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cloud, err := r.connect(t.Context(), found)
		if err != nil {
			t.Fatal(err)
		}
		return cloud
	}
	if connect() == nil || there.made.Region != "eu-west-1" || there.made.Secret.AccessKeyID != "one" || there.made.Endpoints["ec2"] != "https://ec2.example" {
		t.Errorf("made of %+v", there.made)
	}
	if connect() == nil || there.made.Secret != nil {
		t.Errorf("made anew although nothing has changed: %+v", there.made)
	}
	live := &countedReads{Reader: r.Live}
	r.Live = live
	for what, change := range map[string]func(){
		"the Secret": func() { c.Objects[0] = secret("two") },
		"the region": func() { c.Objects[1] = infrastructure("eu-west-2") },
		"the bundle": func() { c.Objects[2] = bundle("certificates") },
	} {
		change()
		if connect() == nil || there.made.Secret == nil {
			t.Errorf("%s has changed, and the connection is the old one", what)
		}
	}
	if connect(); live.reads != 1 {
		t.Errorf("the Secret was read %d times after one change", live.reads)
	}
	if string(there.made.RootCAs) != "certificates" && len(there.made.RootCAs) > 0 {
		t.Errorf("certificates %q", there.made.RootCAs)
	}
	r.Off = true
	if connect() != nil {
		t.Error("it looks although it is off")
	}
	r.Off = false
	c.Objects = c.Objects[1:]
	if connect() != nil {
		t.Error("it looks without credentials")
	}
}

// An Infrastructure without a region is no reason to stop silently.
func TestTheRegionIsTheInfrastructuresOrTheOperators(t *testing.T) {
	for name, tc := range map[string]struct {
		infrastructure, operator string
		off                      bool
		want, problem            string
	}{
		"the Infrastructure's": {infrastructure: "eu-west-1", operator: "eu-west-2", want: "eu-west-1"},
		"the operator's":       {operator: "eu-west-2", want: "eu-west-2"},
		"none":                 {problem: "Infrastructure cluster has no region in status.platformStatus.aws: add it, or set AWS_REGION for the operator"},
		"none is wanted":       {off: true},
	} {
		there := &region{}
		r, _ := onAWS(t, there, secret("one"), infrastructure(tc.infrastructure))
		r.HasInfrastructure, r.Region, r.Off = true, tc.operator, tc.off
		found, err := r.place(t.Context())
		if err == nil {
			_, err = r.connect(t.Context(), found)
		}
		if err != nil || there.made.Region != tc.want || r.connection.problem != tc.problem {
			t.Errorf("%s: region %q, problem %q, error %v", name, there.made.Region, r.connection.problem, err)
		}
	}
}

func TestWhatCannotBeUsedIsReported(t *testing.T) {
	r, c := onAWS(t, &region{}, secret("with a space"))
	cloud, err := r.connect(t.Context(), place{region: "eu-west-1"})
	if err != nil || cloud != nil || !strings.HasPrefix(r.connection.problem, "Secret here/aws-efs-cloud-credentials can't be used: ") {
		t.Errorf("cloud %v, error %v, problem %q", cloud, err, r.connection.problem)
	}
	found := r.stateFindings(tagging{})
	if len(found) != 1 || found[0].message != "can't check AWS: "+r.connection.problem {
		t.Errorf("findings %+v", found)
	}
	c.Objects[0] = secret("two")
	r.Connect = func(context.Context, aws.Options) (Cloud, error) { return nil, errors.New("no role") }
	if cloud, err := r.connect(t.Context(), place{region: "eu-west-1"}); err != nil || cloud != nil || r.connection.problem != "no role" {
		t.Errorf("cloud %v, error %v, problem %q", cloud, err, r.connection.problem)
	}
	r.connection.problem = ""
	for range 2 {
		r.facts = r.merge(&snapshot{}, denials{}, &net.OpError{Op: "dial", Err: errors.New("refused")}, at)
	}
	found = r.stateFindings(tagging{outdated: 3, problem: "no right"})
	var got []string
	for _, one := range found {
		got = append(got, one.message)
	}
	want := []string{
		"can't check AWS, so earlier findings stay reported: no connection: dial: refused",
		"3 access points of this cluster do not have the resource tags of the Infrastructure: no right",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	c.Refuse(errors.New("no answer"))
	for _, err := range []error{
		func() error { _, err := r.connect(t.Context(), place{region: "eu-west-1"}); return err }(),
		func() error { _, err := r.uses(t.Context()); return err }(),
		func() error { _, err := r.Reconcile(t.Context(), ctrl.Request{}); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("error %v", err)
		}
	}
}

// trip is a trip, the poll if one is due, and the trip that it wakes. It returns when the cluster is looked at, or AWS asked, again.
func trip(t *testing.T, r *Reconciler) (time.Duration, error) {
	t.Helper()
	request := ctrl.Request{NamespacedName: client.ObjectKey{Name: efs.DriverName}}
	result, err := r.Reconcile(t.Context(), request)
	wait := r.poller.Tick(t.Context())
	if len(r.polled) > 0 {
		<-r.polled
		result, err = r.Reconcile(t.Context(), request)
		wait = r.poller.Tick(t.Context())
	}
	if err != nil || r.poller.subject.cloud == nil {
		return result.RequeueAfter, err
	}
	return status.MinRequeue(result.RequeueAfter, wait), nil
}

// One trip, from what the cluster has to what the ClusterCSIDriver says.
func TestTheManagementStateDecidesWhetherAWSIsAsked(t *testing.T) {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "efs"}, Provisioner: efs.DriverName, Parameters: map[string]string{"fileSystemId": absent}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelTopologyZone: "us-east-1a"}}}
	now := metav1.NewTime(at)
	cr := func(change func(*operatorv1.ClusterCSIDriver)) *operatorv1.ClusterCSIDriver {
		made := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: efs.DriverName, UID: "1-2"}}
		made.Status.Conditions = []operatorv1.OperatorCondition{{Type: "AWSEFSMountTargetMissing", Status: operatorv1.ConditionTrue, Message: "old"}}
		if change != nil {
			change(made)
		}
		return made
	}
	missing := "AWSEFSFileSystemMissing"
	for name, tc := range map[string]struct {
		cr          *operatorv1.ClusterCSIDriver
		objects     []client.Object
		predecessor predecessor
		asked       bool
		writes      int
		says        string
		err         string
	}{
		"managed":                {cr: cr(nil), objects: []client.Object{class, node, secret("one")}, asked: true, writes: 1, says: missing},
		"nothing is used":        {cr: cr(nil), objects: []client.Object{node, secret("one")}, writes: 1, says: `"status":{}`},
		"no credentials":         {cr: cr(nil), objects: []client.Object{class, node}, writes: 1, says: `"status":{}`},
		"no ClusterCSIDriver":    {objects: []client.Object{class, node, secret("one")}},
		"being deleted":          {cr: cr(func(made *operatorv1.ClusterCSIDriver) { made.DeletionTimestamp, made.Finalizers = &now, []string{"a"} }), objects: []client.Object{class, secret("one")}, writes: 1, says: `"status":{}`},
		"removed":                {cr: cr(func(made *operatorv1.ClusterCSIDriver) { made.Spec.ManagementState = operatorv1.Removed }), objects: []client.Object{class, secret("one")}, writes: 1, says: `"status":{}`},
		"unmanaged":              {cr: cr(func(made *operatorv1.ClusterCSIDriver) { made.Spec.ManagementState = operatorv1.Unmanaged }), objects: []client.Object{class, node, secret("one")}, asked: true, writes: 1, says: missing},
		"another operator runs":  {cr: cr(nil), objects: []client.Object{class, secret("one")}, predecessor: predecessor{running: "old"}},
		"nobody knows who works": {cr: cr(nil), objects: []client.Object{class, secret("one")}, predecessor: predecessor{err: errors.New("no answer")}, err: "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			there := &region{counted: counted{systems: []aws.FileSystem{{ID: regional}}}}
			objects := tc.objects
			if tc.cr != nil {
				objects = append([]client.Object{tc.cr}, objects...)
			}
			r, c := onAWS(t, there, objects...)
			r.Predecessors = []Predecessor{tc.predecessor}
			again, err := trip(t, r)
			if (tc.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want %s", err, tc.err)
			}
			if (there.lists > 0) != tc.asked || len(c.Writes) != tc.writes {
				t.Errorf("%d lists, writes %v", there.lists, c.Bodies)
			}
			if tc.writes > 0 && !strings.Contains(c.Bodies[0], tc.says) {
				t.Errorf("it says %s, want %s", c.Bodies[0], tc.says)
			}
			if tc.asked && (again < time.Second || again > longInterval) {
				t.Errorf("again in %s", again)
			}
			select {
			case <-r.Shares.first:
			default:
				t.Error("SharedVolumes still wait for the first look")
			}
		})
	}
}

func TestAReaderOfTheCacheThatIsBehindWaits(t *testing.T) {
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: efs.DriverName, ResourceVersion: "5"}}
	r, c := onAWS(t, &region{}, cr)
	newer := cr.DeepCopy()
	newer.ResourceVersion = "7"
	r.writer.Wrote(newer)
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: efs.DriverName}})
	if err != nil || result.RequeueAfter == 0 || len(c.Reads) != 1 {
		t.Errorf("again in %s, error %v, reads %v", result.RequeueAfter, err, c.Reads)
	}
}
