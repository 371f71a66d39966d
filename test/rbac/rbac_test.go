package rbac

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

func TestIdleFindsRightsThatNobodyNeeded(t *testing.T) {
	rule := func(resource, verb string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{resource}, Verbs: []string{verb}, ResourceNames: names}
	}
	role := func(namespace string, rules ...rbacv1.PolicyRule) []Role {
		return []Role{{Namespace: namespace, Rules: rules}}
	}
	const allow, forbid = "allow", "forbid"
	cases := map[string]struct {
		held, granted []Role
		requests      []env.Request
		want          []string
	}{
		"a right that no request has needed": {
			held: role("ns", rule("daemonsets", "get")),
			want: []string{"get daemonsets.apps in ns"},
		},
		"a right that a request has needed": {
			held:     role("ns", rule("daemonsets", "get")),
			requests: []env.Request{request(t, allow, "get", "daemonsets", "ns", "a", 200)},
		},
		"an object that is not there was asked for with right": {
			held:     role("ns", rule("daemonsets", "get")),
			requests: []env.Request{request(t, allow, "get", "daemonsets", "ns", "a", 404)},
		},
		"one name of two": {
			held:     role("ns", rule("daemonsets", "get", "a", "b")),
			requests: []env.Request{request(t, allow, "get", "daemonsets", "ns", "b", 200)},
			want:     []string{"get daemonsets.apps a in ns"},
		},
		"another namespace": {
			held:     role("ns", rule("daemonsets", "get")),
			requests: []env.Request{request(t, allow, "get", "daemonsets", "other", "a", 200)},
			want:     []string{"get daemonsets.apps in ns"},
		},
		"a right in every namespace is exercised in one": {
			held:     role("", rule("daemonsets", "get")),
			requests: []env.Request{request(t, allow, "get", "daemonsets", "ns", "a", 200)},
		},
		"a subresource is not its resource": {
			held:     role("ns", rule("daemonsets/status", "patch"), rule("daemonsets", "patch")),
			requests: []env.Request{request(t, allow, "patch", "daemonsets/status", "ns", "a", 200)},
			want:     []string{"patch daemonsets.apps in ns"},
		},
		"an apply that has created an object": {
			held:     role("ns", rule("daemonsets", "patch", "a"), rule("daemonsets", "create", "a")),
			requests: []env.Request{request(t, allow, "patch", "daemonsets", "ns", "a", 201)},
		},
		"an apply that has changed an object": {
			held:     role("ns", rule("daemonsets", "patch", "a"), rule("daemonsets", "create", "a")),
			requests: []env.Request{request(t, allow, "patch", "daemonsets", "ns", "a", 200)},
			want:     []string{"create daemonsets.apps a in ns"},
		},
		"a refused request": {
			held:     role("ns", rule("daemonsets", "get")),
			requests: []env.Request{request(t, forbid, "get", "daemonsets", "ns", "a", 403)},
			want:     []string{"get daemonsets.apps in ns"},
		},
		"a request that never came to authorization": {
			held:     role("ns", rule("daemonsets", "get")),
			requests: []env.Request{request(t, "", "get", "daemonsets", "ns", "a", 429)},
			want:     []string{"get daemonsets.apps in ns"},
		},
		"a right that is passed on": {
			held:    role("ns", rule("daemonsets", "get")),
			granted: role("ns", rule("daemonsets", "get")),
		},
		"a right for all objects of which one is passed on": {
			held:    role("ns", rule("daemonsets", "get")),
			granted: role("ns", rule("daemonsets", "get", "a")),
			want:    []string{"get daemonsets.apps in ns"},
		},
		"a right everywhere that is passed on in one namespace": {
			held:    role("", rule("daemonsets", "get")),
			granted: role("ns", rule("daemonsets", "get")),
			want:    []string{"get daemonsets.apps"},
		},
		"a URL": {
			held: []Role{{Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}},
			want: []string{"get /metrics"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, right := range Idle(tc.held, tc.granted, tc.requests) {
				got = append(got, right.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("idle RBAC (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusedIsWhatThereIsNoRightTo(t *testing.T) {
	for message, want := range map[string]bool{
		`claims "a" is forbidden: User "b" cannot create resource "claims" in API group "" in the namespace "c"`:                                    true,
		`claims "a" is forbidden: unable to create new content in namespace c because it is being terminated`:                                       false,
		`roles.rbac.authorization.k8s.io "a" is forbidden: user "b" is attempting to grant RBAC permissions not currently held: {Verbs:["create"]}`: true,
	} {
		refused := request(t, "allow", "create", "claims", "c", "a", 403)
		refused.Response.Message = message
		if got := refused.IsRefused(); got != want {
			t.Errorf("IsRefused with %s = %v, want %v", message, got, want)
		}
	}
}

// request is an entry of an audit log as the API server writes it.
func request(t *testing.T, decision, verb, resource, namespace, name string, code int) env.Request {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	entry := map[string]any{
		"verb":           verb,
		"objectRef":      map[string]any{"apiGroup": "apps", "resource": resource, "subresource": subresource, "namespace": namespace, "name": name},
		"responseStatus": map[string]any{"code": code},
		"annotations":    map[string]string{"authorization.k8s.io/decision": decision},
	}
	text, err := json.Marshal(entry)
	env.Must(t, err)
	var parsed env.Request
	env.Must(t, json.Unmarshal(text, &parsed))
	return parsed
}
