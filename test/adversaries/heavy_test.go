package adversaries

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	// An object of the API server takes 1.5 MiB at most, of which managed fields repeat the finalizers. The light ones have 100 KiB.
	heaviest, light = 1950, 160
	// allHeavy is how many SharedVolumes of that weight a tenant has, and as many PVCs.
	allHeavy, allLight = 100, 1000
	// mostMemoryOfHeavy is the resident memory of an operator that starts beside them, in MiB: 87 were measured.
	mostMemoryOfHeavy = 100
)

// A tenant writes lists and texts into SharedVolumes and PVCs that Kubernetes does not bound. What the operator keeps of one is bounded by a unit
// test, TestATenantDoesNotDecideHowMuchMemoryAnObjectTakes.
func TestHeavyObjectsTakeLittleMemory(t *testing.T) {
	env.OnlySoak(t)
	// The race detector would need memory of its own.
	cluster := *suite.cluster
	cluster.Operator = env.OperatorName
	hostile := tenant(t, &cluster, "heavy")
	weights := make([]int, allHeavy+allLight)
	for i := range weights {
		if weights[i] = heaviest; i >= allHeavy {
			weights[i] = light
		}
	}
	created := func(number int) *v1alpha1.SharedVolume {
		sv := env.SharedVolume("heavy", fmt.Sprintf("sv-%d", number))
		for i := range weights[number] {
			sv.Finalizers = append(sv.Finalizers, fmt.Sprintf("%sexample.com/%s-%d", strings.Repeat("long.", 48), strings.Repeat("x", 50), i))
		}
		return sv
	}
	t.Cleanup(func() {
		// They would hold up the end of the namespace.
		for number := range weights {
			if err := cluster.Client.Patch(context.Background(), created(number), env.Merge(`{"metadata":{"finalizers":null}}`)); err != nil {
				t.Error(err)
			}
		}
	})
	// One after another: an API server with few processors may need longer for many of these at a time than it allows for a request.
	for number := range weights {
		_, _, pvc := env.CommunityVolume("heavy", fmt.Sprintf("of-nobody-%d", number), false)
		pvc.Spec.VolumeName = strings.Repeat("x", weights[number]*400)
		env.Must(t, errors.Join(hostile.Create(t.Context(), created(number)), hostile.Create(t.Context(), pvc)))
	}
	limit(t, &cluster, "heavy")
	operator := operate(t, &cluster, alone)
	awaitFailed(t, operator, len(weights))
	small(t, operator, mostMemoryOfHeavy, fmt.Sprintf("beside %d heavy SharedVolumes and PVCs", len(weights)))
}
