package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

const (
	driverName = "efs.csi.aws.com"
	key        = "AKIAGOOD"

	describeSystems = "elasticfilesystem:DescribeFileSystems"
	describeTargets = "elasticfilesystem:DescribeMountTargets"
	describePoints  = "elasticfilesystem:DescribeAccessPoints"
	describeNodes   = "ec2:DescribeNetworkInterfaces"
	describeGroups  = "elasticfilesystem:DescribeMountTargetSecurityGroups"
	tagResource     = "elasticfilesystem:TagResource"
	untagResource   = "elasticfilesystem:UntagResource"
)

// driverTag is on what the driver makes.
const driverTag = "efs.csi.aws.com/cluster"

// problems are all that conditions, events and metrics can name.
func problems() []string {
	return []string{
		"OneZoneStorageClass", "MountTargetMissing", "MountTargetClosed", "FileSystemMissing", "AccessPointMissing", "PermissionMissing", "OptionalPermissionMissing",
		"AccessPointsNearLimit", "AccessPointsUnused", "AccessPointTagsOutdated", "CloudUnreachable",
	}
}

// scene is a cluster, an empty AWS, and an operator, for one test.
type scene struct {
	*fakeaws.Cloud
	t         *testing.T
	cluster   *env.Cluster
	namespace string
	infra     string
	// shared is what subtests share.
	shared *shared
}

type shared struct {
	operator *env.Operator
	vpc      string
	subnets  map[string]string
}

// open gives a test all but an operator and credentials. When it ends, nothing is said about AWS any more.
func open(t *testing.T, namespace string) *scene {
	t.Helper()
	cluster := pool.Lend(t)
	moto, _ := motos.Load(cluster)
	s := &scene{Cloud: fakeaws.NewCloud(t, moto.(string)), t: t, cluster: cluster, namespace: namespace, shared: &shared{}}
	var err error
	s.infra, err = s.cluster.InfraID(t.Context())
	env.Must(t, err)
	t.Cleanup(func() { s.stop() })
	t.Cleanup(func() {
		if err := env.Await(context.Background(), "no condition left", s.silent); err != nil {
			t.Error(err)
		}
	})
	s.keep(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	s.trust()
	return s
}

// trust creates the ConfigMap with CA certificates before the operator does, and waits until it is filled. The operator makes a new client when
// certificates appear. If they appeared during the first poll, the operator would poll a second time, and the tests count its requests.
func (s *scene) trust() {
	s.t.Helper()
	bundle := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: env.OperatorNamespace, Name: "aws-efs-csi-driver-trusted-ca-bundle",
		Labels: map[string]string{"config.openshift.io/inject-trusted-cabundle": "true"},
	}}
	env.Must(s.t, client.IgnoreAlreadyExists(s.cluster.Client.Create(s.t.Context(), bundle)))
	s.until("CA certificates", func() error {
		err := s.cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(bundle), bundle)
		if err == nil && bundle.Data["ca-bundle.crt"] == "" {
			err = errors.New("the ConfigMap is empty")
		}
		return err
	})
}

// in is the same for a subtest, which then is the one that fails.
func (s *scene) in(t *testing.T) *scene {
	same := *s
	same.t, same.Cloud = t, s.In(t)
	return &same
}

// start starts the operator, after the one that runs has ended.
func (s *scene) start(environment ...string) {
	s.t.Helper()
	s.stop()
	operator, err := s.cluster.StartOperator(context.Background(), []string{"--leader-elect=false"}, fakeaws.With(s.Proxy, environment...))
	env.Must(s.t, err)
	s.shared.operator = operator
}

func (s *scene) stop() {
	s.t.Helper()
	if s.shared.operator == nil {
		return
	}
	if s.t.Failed() {
		s.t.Logf("the operator printed:\n%s", env.LastLines(s.shared.operator.Output()))
	}
	if err := s.shared.operator.Stop(); err != nil {
		s.t.Error(err)
	}
	s.shared.operator = nil
}

// here is the cluster as this test or subtest has it.
func (s *scene) here() env.Scene { return env.Scene{Cluster: s.cluster, T: s.t} }

func (s *scene) keep(object client.Object) {
	s.t.Helper()
	s.here().Keep(object)
}

func (s *scene) drop(object client.Object) {
	s.t.Helper()
	s.here().Drop(object)
}

func (s *scene) patch(object client.Object, fields string) {
	s.t.Helper()
	s.here().Patch(object, fields)
}

func (s *scene) until(what string, checks ...func() error) {
	s.t.Helper()
	s.here().Until(what, checks...)
}

// credentials are those of the driver's controller, with a key, until the test ends.
func (s *scene) credentials() *corev1.Secret {
	s.t.Helper()
	secret := env.KeySecret(env.CloudSecret, key, "made-up")
	s.keep(secret)
	return secret
}

// system makes a file system, regional or in a zone such as b, with mount targets in zones.
func (s *scene) system(zone string, targets ...string) string {
	s.t.Helper()
	if s.shared.vpc == "" {
		vpc, subnets := s.VPC(nil)
		s.shared.vpc = vpc
		s.shared.subnets = map[string]string{"a": subnets[0], "b": subnets[1], "c": subnets[2], "d": s.Subnet(vpc, "d", "10.0.9.0/24", nil)}
	}
	if zone != "" {
		zone = fakeaws.Region + zone
	}
	id := s.FileSystem(nil, zone)
	for _, target := range targets {
		s.MountTarget(id, s.shared.subnets[target])
	}
	return id
}

// share makes a SharedVolume. At the end of the test it has gone, with its PVC and volume.
func (s *scene) share(name, fileSystem, accessPoint string) *v1alpha1.SharedVolume {
	s.t.Helper()
	sv := env.SharedVolume(s.namespace, name)
	sv.Spec.FileSystemID, sv.Spec.AccessPointID = fileSystem, accessPoint
	env.Must(s.t, s.cluster.Client.Create(s.t.Context(), sv))
	s.t.Cleanup(func() {
		ctx := context.Background()
		s.drop(sv)
		if err := env.Await(ctx, "SharedVolume "+name+" gone", func() error {
			return errors.Join(s.cluster.Gone(ctx, sv.DeepCopy()), s.cluster.PairGone(ctx, sv))
		}); err != nil {
			s.t.Error(err)
		}
	})
	return sv
}

// volume makes a volume as the driver's provisioner does.
func (s *scene) volume(name, fileSystem, accessPoint string) *corev1.PersistentVolume {
	s.t.Helper()
	volume, _, _ := env.Workload()
	volume.Name, volume.Spec.CSI.VolumeHandle = s.namespace+"-"+name, fileSystem+"::"+accessPoint
	s.keep(volume)
	return volume
}

// class makes a StorageClass for a file system.
func (s *scene) class(name, fileSystem string) *storagev1.StorageClass {
	s.t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + name}, Provisioner: driverName,
		Parameters: map[string]string{"fileSystemId": fileSystem, "provisioningMode": "efs-ap", "directoryPerms": "700"},
	}
	s.keep(class)
	return class
}

// pod makes a pod that uses a PVC, on a node or wherever the scheduler puts it. It ends with the test.
func (s *scene) pod(name, node, pvc string) *corev1.Pod {
	s.t.Helper()
	pod := env.Application(s.namespace, name, node, pvc)
	env.Eventually(s.t, "pod "+name+" created", func() error { return s.cluster.Client.Create(s.t.Context(), pod) })
	s.t.Cleanup(func() { s.drop(pod) })
	return pod
}

// zoneOf is the zone of the node on which a pod runs.
func (s *scene) zoneOf(pod *corev1.Pod) string {
	s.t.Helper()
	s.until("pod "+pod.Name+" runs", func() error { return s.cluster.Running(s.t.Context(), pod) })
	node := &corev1.Node{}
	env.Must(s.t, s.cluster.Client.Get(s.t.Context(), client.ObjectKey{Name: pod.Spec.NodeName}, node))
	return node.Labels[corev1.LabelTopologyZone]
}

// ready checks that a SharedVolume is Ready, and what it says about mounting: STATUS/REASON, or nothing.
func (s *scene) ready(sv *v1alpha1.SharedVolume, mountable string, texts ...string) func() error {
	return func() error {
		if err := s.cluster.Ready(s.t.Context(), sv); err != nil {
			return err
		}
		is, message := "", ""
		if found := meta.FindStatusCondition(sv.Status.Conditions, v1alpha1.ConditionMountable); found != nil {
			is, message = string(found.Status)+"/"+found.Reason, found.Message
		}
		for _, text := range texts {
			if !strings.Contains(message, text) {
				return fmt.Errorf("%s: Mountable says %q, without %q", sv.Name, message, text)
			}
		}
		if is != mountable {
			return fmt.Errorf("%s: Mountable is %q, want %q: %s", sv.Name, is, mountable, message)
		}
		return nil
	}
}

// affinity is the zone in which a SharedVolume's volume keeps pods; empty for none.
func (s *scene) affinity(sv *v1alpha1.SharedVolume) string {
	s.t.Helper()
	volume := env.VolumeOf(sv)
	env.Must(s.t, s.cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(volume), volume))
	if volume.Spec.NodeAffinity == nil {
		return ""
	}
	term := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	if term.Key != corev1.LabelTopologyZone || term.Operator != corev1.NodeSelectorOpIn || len(term.Values) != 1 {
		s.t.Errorf("volume %s has affinity %v", volume.Name, volume.Spec.NodeAffinity)
	}
	return term.Values[0]
}

// says checks that the ClusterCSIDriver has a condition that is true, and has these texts in its message.
func (s *scene) says(problem string, texts ...string) func() error {
	return func() error {
		return s.cluster.Says(context.Background(), driverName, "AWSEFS"+problem, "True", texts...)
	}
}

// only checks that these and no other conditions about AWS are true, and that all others are there.
func (s *scene) only(wrong ...string) func() error {
	return func() error {
		states, err := s.states()
		if err != nil {
			return err
		}
		if states["CloudUnreachable"] != operatorv1.ConditionFalse {
			return fmt.Errorf("AWS has not answered yet: %v", states)
		}
		for _, problem := range problems() {
			// What could not be read is not said.
			if is := states[problem] == operatorv1.ConditionTrue; is != slices.Contains(wrong, problem) {
				return fmt.Errorf("condition %s is %q; all are %v", problem, states[problem], states)
			}
		}
		return nil
	}
}

// unreachable checks that a condition says why AWS can't be asked.
func (s *scene) unreachable() error {
	states, err := s.states()
	if err == nil && states["CloudUnreachable"] != operatorv1.ConditionTrue {
		err = fmt.Errorf("CloudUnreachable is not True: %v", states)
	}
	return err
}

// silent checks that nothing is said about AWS.
func (s *scene) silent() error {
	states, err := s.states()
	if err == nil && len(states) > 0 {
		err = fmt.Errorf("conditions are there: %v", states)
	}
	return err
}

// states are those of the conditions about AWS.
func (s *scene) states() (map[string]operatorv1.ConditionStatus, error) {
	cr, states := env.EFS(""), map[string]operatorv1.ConditionStatus{}
	if err := s.cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(cr), cr); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	for _, condition := range cr.Status.Conditions {
		if problem := strings.TrimPrefix(condition.Type, "AWSEFS"); slices.Contains(problems(), problem) {
			states[problem] = condition.Status
		}
	}
	return states, nil
}

// metric checks the value of a metric, or of one of its series.
func (s *scene) metric(name string, want float64) func() error {
	return func() error {
		value, err := s.shared.operator.Metric(context.Background(), name)
		if err == nil && value != want {
			err = fmt.Errorf("%s is %v, want %v", name, value, want)
		}
		return err
	}
}

// problem is the series of one thing that is wrong and matters to others than SharedVolumes.
func problem(kind, fileSystem, object string) string {
	return fmt.Sprintf("csi_operator_cloud_problem{driver=%q,file_system=%q,object=%q,problem=%q,shared=\"false\"}", driverName, fileSystem, object, kind)
}

// hasEvent checks that there is an event on an object, with a reason and a text.
func (s *scene) hasEvent(object, reason, text string) func() error {
	return func() error { return s.cluster.HasEvent(context.Background(), env.CR(object, ""), reason, text) }
}

// sent fails the test unless there were exactly so many calls of each action since Set.
func (s *scene) sent(want map[string]int) {
	s.t.Helper()
	got := map[string]int{}
	for _, call := range s.Calls() {
		got[call.Action]++
	}
	if want[describeTargets] > 0 && want[describeNodes] == 0 {
		// Each poll that finds mount targets also asks for the nodes, of which AWS has none.
		want[describeNodes] = 1
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("the calls are %v, want %v: %v", got, want, s.Calls())
	}
}

// denied makes AWS refuse these actions.
func denied(actions ...string) func(fakeaws.Call) fakeaws.Fault {
	return func(call fakeaws.Call) fakeaws.Fault {
		if !slices.Contains(actions, call.Action) {
			return nil
		}
		return func(func() *fakeaws.Answer) *fakeaws.Answer {
			return fakeaws.Error(call.Action, http.StatusForbidden, "AccessDeniedException", "User is not authorized to perform: "+call.Action)
		}
	}
}
