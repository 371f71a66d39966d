package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csi-operators/csi-operators/test/env"
)

// answered is a request for an object, and the code of the answer.
func answered(verb, group, resource, name string, code int) env.Request {
	request := env.Request{Verb: verb}
	request.Object.Group, request.Object.Version, request.Object.Resource, request.Object.Name = group, "v1", resource, name
	request.Response.Code = code
	return request
}

func TestCreatedIsWhatTheOperatorHasMadeItself(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "ServiceAccount"}, {Group: "apps", Version: "v1", Kind: "DaemonSet"},
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	token := answered("create", "", "serviceaccounts", "token", 201)
	token.Object.Subresource = "token"
	got, err := created([]env.Request{
		answered("patch", "apps", "daemonsets", "node", 201),
		answered("patch", "apps", "daemonsets", "node", 200),
		answered("create", "", "configmaps", "ca", 201),
		answered("create", "", "configmaps", "refused", 403),
		answered("create", "", "events", "started", 201),
		answered("create", "coordination.k8s.io", "leases", "lock", 201),
		answered("create", "authorization.k8s.io", "subjectaccessreviews", "review", 201),
		token,
		answered("patch", "apps", "daemonsets", "node", 201), // It was repaired.
	}, mapper)
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, object := range got {
		titles = append(titles, title(object))
	}
	if diff := cmp.Diff([]string{"DaemonSet node", "ConfigMap ca"}, titles); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAWorkloadIsRolledOutByItsOwnStatus(t *testing.T) {
	for name, test := range map[string]struct {
		kind         string
		spec, status map[string]any
		want         bool
	}{
		"every pod of the DaemonSet": {
			"DaemonSet", nil,
			map[string]any{"observedGeneration": int64(2), "desiredNumberScheduled": int64(3), "updatedNumberScheduled": int64(3), "numberAvailable": int64(3)},
			true,
		},
		"an old generation": {
			"DaemonSet", nil,
			map[string]any{"observedGeneration": int64(1), "desiredNumberScheduled": int64(3), "updatedNumberScheduled": int64(3), "numberAvailable": int64(3)},
			false,
		},
		"no pod is wanted yet": {"DaemonSet", nil, map[string]any{"observedGeneration": int64(2)}, false},
		"every pod of the Deployment": {
			"Deployment", map[string]any{"replicas": int64(2)},
			map[string]any{"observedGeneration": int64(2), "replicas": int64(2), "updatedReplicas": int64(2), "availableReplicas": int64(2)},
			true,
		},
		"an old pod of the Deployment is left": {
			"Deployment", map[string]any{"replicas": int64(2)},
			map[string]any{"observedGeneration": int64(2), "replicas": int64(3), "updatedReplicas": int64(2), "availableReplicas": int64(2)},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{"kind": test.kind, "spec": test.spec, "status": test.status}}
			object.SetGeneration(2)
			if got := workloadRolledOut(object); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
