package adversaries

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	// fewFailing and allFailing are how many SharedVolumes one tenant has that can't be served: a quota forbids their PVCs. Make soak has all.
	fewFailing, allFailing = 100, 10_000
	// One in squatted fails because a PVC of its name is there, which is no PVC of its own.
	squatted = 20
	// One in fat carries as many annotations as the API server takes, which is 256 KiB in all.
	fat, fatness = 25, 256<<10 - 1<<10
	// mostMemoryOfFew and mostMemoryOfAll are the resident memory of the operator beside them, in MiB; without them it needs 60.
	mostMemoryOfFew, mostMemoryOfAll = 140, 300
	// mostFirst is how many requests one of the crowd may cost until its status says what is wrong.
	mostFirst = 8
	// mostBefore is how many requests about each of them, on average, may come before the PVC of another tenant is made who asks meanwhile. All
	// that is wrong with one costs four to five: nobody waits for the whole crowd.
	mostBefore = 2
	// mostLater is how many requests all of them may cost together while the lease is renewed once, which takes 2.6 s.
	mostLater = 100
)

// A tenant fills a namespace with SharedVolumes that can't be served, as many as the community's operator was never tried with. Others
// notice nothing, and the operator works neither more nor bigger than it may.
func TestACrowdOfFailingSharedVolumesStarvesNobody(t *testing.T) {
	crowd, most := fewFailing, mostMemoryOfFew
	if env.IsSoak(t) {
		crowd, most = allFailing, mostMemoryOfAll
	}
	// The race detector would need memory of its own.
	cluster := *suite.cluster
	cluster.Operator = env.OperatorName
	hostile, honest := tenant(t, &cluster, "hostile"), tenant(t, &cluster, "honest")
	squat(t, hostile, crowd/squatted)
	limit(t, &cluster, "hostile")
	operator := operate(t, &cluster, oftener)
	env.Eventually(t, "the operator leads", operator.Started)
	install(t, &cluster)
	served := 0
	serve := func(when string) error {
		sv := env.SharedVolume("honest", fmt.Sprintf("data-%d", served))
		served++
		if err := honest.Create(t.Context(), sv); err != nil {
			return err
		}
		mark := now(t)
		if err := env.AwaitFor(t.Context(), patience, "Ready "+when, func() error { return cluster.Ready(t.Context(), sv) }); err != nil {
			return err
		}
		first := before(requests(t, mark, env.OperatorUser, func(env.Request) bool { return true }), "honest")
		t.Logf("Ready %s; before its PVC was made, there were %d requests about the crowd: %s", when, len(first), tally(first))
		if len(first) > mostBefore*crowd {
			return fmt.Errorf("%d requests about the crowd before the PVC of %s was made, at most %d are allowed", len(first), sv.Name, mostBefore*crowd)
		}
		return nil
	}

	env.Must(t, serve("before the crowd"))
	mark := now(t)
	began := time.Now()
	env.Must(t, each(crowd, func(number int) error {
		if number == crowd/2 {
			if err := serve("while the crowd comes"); err != nil {
				return err
			}
		}
		return hostile.Create(t.Context(), failing(number))
	}))
	t.Logf("%d SharedVolumes were created within %s", crowd, time.Since(began).Round(time.Millisecond))
	env.Must(t, serve("when all have come"))
	awaitFailed(t, operator, crowd)
	t.Logf("all of them say what is wrong after %s", time.Since(began).Round(time.Millisecond))
	first := requests(t, mark, env.OperatorUser, ofCrowd)
	t.Logf("%d requests about the crowd until then: %s", len(first), tally(first))
	if len(first) > mostFirst*crowd {
		t.Errorf("%d requests until each of %d SharedVolumes says what is wrong, at most %d are allowed", len(first), crowd, mostFirst*crowd)
	}
	volumes := &metav1.PartialObjectMetadataList{}
	volumes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeList"))
	env.Must(t, cluster.Client.List(t.Context(), volumes, client.MatchingLabels{"openshift.io/aws-efs-operator-shared-volume-owner-namespace": "hostile"}))
	if count := len(volumes.Items); count > crowd/50 {
		t.Errorf("%d volumes were made for PVCs that a quota forbids", count)
	}
	bounded(t, "beside the crowd")
	small(t, operator, most, "beside the crowd")
	env.Must(t, serve("beside the crowd"))

	env.Must(t, operator.Stop())
	operator = operate(t, &cluster, oftener)
	env.Eventually(t, "the next operator leads", operator.Started)
	env.Must(t, serve("after a restart"))
	awaitFailed(t, operator, crowd)
	small(t, operator, most, "after a restart")
	env.Must(t, cluster.Uninstall(t.Context()))
}

// failing is one of the crowd. Some are forged, all that a tenant can write.
func failing(number int) *v1alpha1.SharedVolume {
	sv := env.SharedVolume("hostile", fmt.Sprintf("sv-%d", number))
	sv.Spec.AccessPointID = fmt.Sprintf("fsap-%017x", number)
	if number%fat == 0 {
		sv.Annotations = map[string]string{"example.com/fat": strings.Repeat("x", fatness)}
	}
	switch number % 20 {
	case 1:
		sv.Finalizers = []string{"example.com/forged"}
	case 2:
		sv.Labels = map[string]string{
			env.CommunityLabel: "true",
			"openshift.io/aws-efs-operator-shared-volume-owner-namespace": "honest",
			"openshift.io/aws-efs-operator-shared-volume-owner-name":      "data-0",
		}
	case 3:
		// It is cut in the names of volume and PVC, and in labels.
		sv.Name += strings.Repeat("-long", 45)
	}
	return sv
}

// squat makes PVCs of the names that some of the crowd want.
func squat(t *testing.T, hostile client.Client, count int) {
	t.Helper()
	env.Must(t, each(count, func(number int) error {
		_, _, pvc := env.CommunityVolume("hostile", fmt.Sprintf("sv-%d", number*squatted), false)
		pvc.Labels, pvc.Spec.VolumeName = nil, ""
		return hostile.Create(t.Context(), pvc)
	}))
}

// limit forbids more PVCs in a namespace than there are.
func limit(t *testing.T, cluster *env.Cluster, namespace string) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "claims"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("0")}
	env.Must(t, cluster.Client.Create(t.Context(), quota))
	env.Eventually(t, "the quota in force", func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil || len(quota.Status.Hard) == 0 {
			return fmt.Errorf("not yet (%w)", err)
		}
		return nil
	})
}

// awaitFailed waits until all of the crowd are Failed. To list them as often would be an attack of its own.
func awaitFailed(t *testing.T, operator *env.Operator, crowd int) {
	t.Helper()
	env.Must(t, env.AwaitFor(t.Context(), 5*time.Minute, "all of the crowd Failed", func() error {
		failed, err := operator.Metric(t.Context(), `csi_operator_shared_volumes{phase="Failed"}`)
		if err == nil && failed < float64(crowd) {
			err = fmt.Errorf("%v are", failed)
		}
		return err
	}))
}

// bounded waits for renewals of the lease, and counts what the crowd costs between them.
func bounded(t *testing.T, when string) {
	t.Helper()
	mark := now(t)
	env.Must(t, env.AwaitFor(t.Context(), 2*time.Minute, "the lease renewed twice", func() error {
		if seen := len(requests(t, mark, env.OperatorUser, isRenewal)); seen < 2 {
			return errors.New("not yet")
		}
		return nil
	}))
	all := requests(t, mark, env.OperatorUser, func(env.Request) bool { return true })
	var between []env.Request
	renewals := 0
	for _, request := range all {
		switch {
		case isRenewal(request):
			renewals++
		case renewals == 1 && ofCrowd(request):
			between = append(between, request)
		}
	}
	t.Logf("%s: %d requests about the crowd between two renewals of the lease: %s", when, len(between), tally(between))
	if len(between) > mostLater {
		t.Errorf("%s: %d requests about the crowd between two renewals of the lease, at most %d are allowed", when, len(between), mostLater)
	}
}

// small checks the operator's memory.
func small(t *testing.T, operator *env.Operator, most int, when string) {
	t.Helper()
	memory, known, err := env.Resident(operator.PID())
	env.Must(t, err)
	t.Logf("%s: %d MiB", when, memory)
	if known && memory > most {
		t.Errorf("%s: the operator holds %d MiB, at most %d are allowed", when, memory, most)
	}
}

func isRenewal(r env.Request) bool { return r.IsLease() && r.IsWrite() }

// ofCrowd is true for requests about the hostile tenant's objects.
func ofCrowd(r env.Request) bool {
	return r.Verb != "watch" && (r.Object.Namespace == "hostile" || strings.HasPrefix(r.Object.Name, "pv-hostile-"))
}

// before are the requests about the crowd until the first PVC is made in a namespace.
func before(all []env.Request, namespace string) []env.Request {
	made := slices.IndexFunc(all, func(r env.Request) bool {
		return r.IsWrite() && r.Object.Resource == "persistentvolumeclaims" && r.Object.Namespace == namespace
	})
	return env.Filter(all[:max(0, made)], ofCrowd)
}

// tally counts requests by what they are.
func tally(requests []env.Request) string {
	count := map[string]int{}
	for _, request := range requests {
		count[fmt.Sprintf("%s %s/%s %d", request.Verb, request.Object.Resource, request.Object.Subresource, request.Response.Code)]++
	}
	return fmt.Sprint(count)
}
