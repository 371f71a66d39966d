package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// journal is what one user has asked of the API server.
type journal struct {
	audit env.Audit
	user  string
	mark  env.Mark
	seen  []env.Request
}

// read adds the requests since the last time.
func (j *journal) read() error {
	found, mark, err := j.audit.Next(j.mark, j.user)
	if err != nil {
		return err
	}
	j.seen, j.mark = append(j.seen, found...), mark
	return nil
}

// work is the requests from a place on that are neither of the lease nor watches.
func (j *journal) work(first int) []env.Request {
	return env.Filter(j.seen[first:], func(r env.Request) bool { return !r.IsLease() && r.Verb != "watch" })
}

func (j *journal) any(match func(env.Request) bool) bool { return slices.ContainsFunc(j.seen, match) }

// silent reports whether the last request, but of the lease, is so long ago.
func (j *journal) silent(quiet time.Duration) bool {
	for _, request := range slices.Backward(j.seen) {
		if !request.IsLease() {
			return time.Since(received(request)) > quiet
		}
	}
	return true
}

// received is the time of a request; the API server writes it in this form always.
func received(request env.Request) time.Time {
	at, err := time.Parse(time.RFC3339Nano, request.Received)
	if err != nil {
		return time.Now()
	}
	return at
}

// created lists, in the order of creation and each once, the objects that the user has made. Whether one still exists
// must be asked.
func created(requests []env.Request, mapper meta.RESTMapper) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	known := map[string]bool{}
	for _, request := range requests {
		of := request.Object
		if !makes(request) {
			continue
		}
		resource := schema.GroupVersionResource{Group: of.Group, Version: of.Version, Resource: of.Resource}
		kind, err := mapper.KindFor(resource)
		if err != nil {
			return nil, fmt.Errorf("kind of %s, which the operator has created: %w", resource, err)
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetNamespace(of.Namespace)
		object.SetName(of.Name)
		if !known[title(object)] {
			known[title(object)] = true
			found = append(found, object)
		}
	}
	return found, nil
}

// makes reports whether a request has made an object that stays. 201 is also the answer to a review of access, and to a
// server-side apply of something new.
func makes(request env.Request) bool {
	of := request.Object
	switch {
	case request.Response.Code != 201 || of.Subresource != "" || of.Name == "":
		return false
	case of.Group == "authentication.k8s.io" || of.Group == "authorization.k8s.io":
		return false
	default:
		return of.Resource != "events" && !request.IsLease()
	}
}

// live reads all that the operator has created and that still exists, but for PersistentVolumes and PVCs of SharedVolumes: these have
// steps of their own, and there may be thousands.
func (t *trial) live(ctx context.Context) ([]*unstructured.Unstructured, error) {
	if err := t.requests.read(); err != nil {
		return nil, err
	}
	own := env.Filter(t.requests.seen, func(r env.Request) bool { return !isOfPair(r) })
	made, err := created(own, t.cluster.Client.RESTMapper())
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	for _, object := range made {
		err := t.cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read %s: %w", title(object), err)
		}
		if err == nil {
			found = append(found, object)
		}
	}
	return found, nil
}

// rolledOut reports whether there are a DaemonSet and a Deployment that the operator has created, and all such have all
// their pods available in the version that is wanted.
func (t *trial) rolledOut(ctx context.Context) (bool, error) {
	made, err := created(env.Filter(t.requests.seen, isWorkload), t.cluster.Client.RESTMapper())
	if err != nil {
		return false, err
	}
	kinds := map[string]bool{}
	for _, object := range made {
		err := t.cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("read %s: %w", title(object), err)
		}
		if err != nil || !workloadRolledOut(object) {
			return false, nil //nolint:nilerr // One that is missing is not rolled out.
		}
		kinds[object.GetKind()] = true
	}
	return len(kinds) == 2, nil
}

func isWorkload(request env.Request) bool {
	of := request.Object
	return of.Group == "apps" && (of.Resource == "daemonsets" || of.Resource == "deployments")
}

// workloadRolledOut compares the counts in the status of a DaemonSet or Deployment.
func workloadRolledOut(object *unstructured.Unstructured) bool {
	number := func(path ...string) int64 {
		value, _, _ := unstructured.NestedInt64(object.Object, path...) // What is missing is 0, as in the typed object.
		return value
	}
	if number("status", "observedGeneration") != object.GetGeneration() {
		return false
	}
	if object.GetKind() == "DaemonSet" {
		want := number("status", "desiredNumberScheduled")
		return want > 0 && number("status", "updatedNumberScheduled") == want && number("status", "numberAvailable") == want
	}
	want := number("spec", "replicas")
	return number("status", "replicas") == want && number("status", "updatedReplicas") == want && number("status", "availableReplicas") == want
}

// title names an object in reports; the driver's namespace goes without saying.
func title(object client.Object) string {
	name := object.GetName()
	if object.GetNamespace() != "" && object.GetNamespace() != env.OperatorNamespace {
		name = object.GetNamespace() + "/" + name
	}
	return object.GetObjectKind().GroupVersionKind().Kind + " " + name
}

// tail is the last lines of a text.
func tail(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
