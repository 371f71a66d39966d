// Package rbac says which RBAC of the operator no request has ever needed.
package rbac

import (
	"flag"
	"fmt"
	"slices"
	"sort"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

// Complete reports whether no flag of `go test` has left out a test. Only then nobody needs a right that was not used.
func Complete() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// Role is a Role, or a ClusterRole if it has no namespace.
type Role struct {
	Name, Namespace string
	Rules           []rbacv1.PolicyRule
}

// Right is one thing that a rule allows: what is left when every list in it has one entry.
type Right struct {
	// Namespace is that of the role; empty means everywhere.
	Namespace string
	Group     string
	// Resource holds the subresource after a slash.
	Resource string
	Verb     string
	// Name is the only object that the rule is about; empty means all of them.
	Name string
}

// String reads as a sentence about kubectl.
func (r Right) String() string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Name != "" {
		resource += " " + r.Name
	}
	if r.Namespace == "" {
		return fmt.Sprintf("%s %s", r.Verb, resource)
	}
	return fmt.Sprintf("%s %s in %s", r.Verb, resource, r.Namespace)
}

// Of takes roles apart. Rules about URLs are named by their path in place of the resource.
func Of(roles []Role) []Right {
	var found []Right
	for _, role := range roles {
		for _, rule := range role.Rules {
			for _, path := range rule.NonResourceURLs {
				for _, verb := range rule.Verbs {
					found = append(found, Right{Resource: path, Verb: verb})
				}
			}
			found = append(found, ofResources(role.Namespace, rule)...)
		}
	}
	return found
}

func ofResources(namespace string, rule rbacv1.PolicyRule) []Right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var found []Right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					found = append(found, Right{Namespace: namespace, Group: group, Resource: resource, Verb: verb, Name: name})
				}
			}
		}
	}
	return found
}

// Idle returns the rules of the held roles that no allowed request has exercised. Rules that a granted role contains
// are not idle: Kubernetes lets nobody grant what they do not hold. A role for one namespace does not justify to hold
// the right everywhere, and the other way round.
func Idle(held, granted []Role, requests []env.Request) []Right {
	passedOn := map[Right]bool{}
	for _, right := range Of(granted) {
		passedOn[right] = true
	}
	exercised := map[Right]bool{}
	for _, request := range requests {
		for _, right := range exercisedBy(request) {
			exercised[right] = true
		}
	}
	var idle []Right
	for _, right := range Of(held) {
		if !passedOn[right] && !exercised[right] {
			idle = append(idle, right)
		}
	}
	sort.Slice(idle, func(i, j int) bool { return idle[i].String() < idle[j].String() })
	return slices.Compact(idle)
}

// exercisedBy returns every right that would have allowed a request: with and without its name, in its namespace and
// everywhere.
func exercisedBy(request env.Request) []Right {
	if request.IsRefused() || request.Annotations["authorization.k8s.io/decision"] != "allow" {
		return nil
	}
	object := request.Object
	resource := object.Resource
	if object.Subresource != "" {
		resource += "/" + object.Subresource
	}
	if resource == "" {
		path, _, _ := strings.Cut(request.URI, "?")
		return []Right{{Resource: path, Verb: request.Verb}}
	}
	verbs := []string{request.Verb}
	if request.Verb == "patch" && request.Response.Code == 201 {
		// A server-side apply that creates an object needs both permissions.
		verbs = append(verbs, "create")
	}
	var found []Right
	for _, verb := range verbs {
		for _, namespace := range []string{"", object.Namespace} {
			for _, name := range []string{"", object.Name} {
				found = append(found, Right{Namespace: namespace, Group: object.Group, Resource: resource, Verb: verb, Name: name})
			}
		}
	}
	return found
}
