package takeover

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/test/env"
)

// plans is the plan for a cluster with these applications, and the place in the audit log before the request for it. Without an API server, from a
// folder, it is the same.
func (s *scene) plans(t *testing.T, apps []*corev1.Pod) (env.Mark, migration.Plan) {
	t.Helper()
	mark, err := s.Audit.Now()
	env.Must(t, err)
	plan := s.dryRun(t, "--kubeconfig", s.Kubeconfig())
	requests, err := s.Audit.Since(mark, "admin")
	env.Must(t, err)
	if writes := env.Filter(requests, env.Request.IsWrite); len(requests) == 0 || len(writes) > 0 {
		t.Errorf("of %d requests these are writes:\n%s", len(requests), env.Describe(writes))
	}
	same(t, "the plan from a folder", plan, s.dryRun(t, "--from", s.gather(t)))
	if plan.Namespace != s.namespace || plan.Blocker != "" || plan.AtOnce != 1 {
		t.Errorf("namespace %s, %d at once, %s", plan.Namespace, plan.AtOnce, plan.Blocker)
	}
	used := map[string]string{}
	for _, app := range apps {
		used[app.Spec.NodeName] = app.Namespace + "/" + app.Name
	}
	for _, node := range plan.Nodes {
		if by := used[node.Node]; node.Waits != (by != "") || (by != "" && !slices.Equal(node.UsedBy, []string{by})) {
			t.Errorf("node %s waits is %v, used by %v", node.Node, node.Waits, node.UsedBy)
		}
	}
	return mark, plan
}

// didAsPlanned checks that the operator has done what a plan says, and nothing else.
func (s *scene) didAsPlanned(t *testing.T, mark env.Mark, plan migration.Plan) {
	t.Helper()
	requests, err := s.Audit.Since(mark, env.OperatorUserIn(s.namespace))
	env.Must(t, err)
	done, pods := did(requests)
	same(t, "what was done with each object", planned(plan), done)
	var wanted []string
	for _, node := range plan.Nodes {
		wanted = append(wanted, node.Pod)
	}
	slices.Sort(wanted)
	same(t, "the pods that were replaced", wanted, pods)
}

// dryRun is the plan that the command prints.
func (s *scene) dryRun(t *testing.T, args ...string) migration.Plan {
	t.Helper()
	binary, err := env.Binary("oc-storage")
	env.Must(t, err)
	command := exec.CommandContext(t.Context(), binary, append([]string{"migrate", "plan", "-o", "json"}, args...)...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("migrate plan %v: %v\n%s", args, err, stderr.String())
	}
	var plan migration.Plan
	env.Must(t, json.Unmarshal(stdout.Bytes(), &plan))
	return plan
}

// gather writes all that there is into a folder, as kubectl prints it. One call for all kinds takes a twentieth of one for each.
func (s *scene) gather(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	kinds, err := s.Kubectl(t.Context(), "api-resources", "--verbs=list", "-o", "name")
	env.Must(t, err)
	text, err := s.Kubectl(t.Context(), "get", strings.Join(strings.Fields(kinds), ","), "--all-namespaces", "-o", "yaml")
	env.Must(t, err)
	env.Must(t, os.WriteFile(filepath.Join(folder, "all.yaml"), []byte(text), 0o600))
	return folder
}

// planned is what is to be done with objects, by "resource namespace/name" as requests name them.
func planned(plan migration.Plan) map[string]string {
	found := map[string]string{}
	for _, object := range plan.Objects {
		action := object.Action
		switch action {
		case migration.PlanKeep:
			continue
		case migration.PlanAdopt:
			action = migration.PlanChange
		}
		found[resourceOf(object.Kind)+" "+object.Namespace+"/"+object.Name] = action
	}
	return found
}

// resourceOf is the plural of a kind.
func resourceOf(kind string) string {
	name := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(name, "ss"):
		return name + "es"
	case strings.HasSuffix(name, "constraints"):
		return name
	default:
		return name + "s"
	}
}

// did is what requests have done with objects, and which pods they have deleted, sorted.
func did(requests []env.Request) (done map[string]string, pods []string) {
	done = map[string]string{}
	for _, request := range requests {
		object := request.Object
		name := object.Resource + " " + object.Namespace + "/" + object.Name
		switch {
		case !request.IsWrite() || request.Response.Code >= 300 || object.Subresource != "" || isOwnBusiness(object.Resource):
		case object.Resource == "pods":
			pods = append(pods, object.Name)
		case request.Verb == "delete":
			done[name] = migration.PlanDelete
		case request.Response.Code == 201:
			done[name] = migration.PlanCreate
		case done[name] == "":
			done[name] = migration.PlanChange
		}
	}
	slices.Sort(pods)
	return done, pods
}

// isOwnBusiness reports whether something is no part of the plan: what the operator writes for itself, and the admission of
// SharedVolumes, which it installs whenever it runs.
func isOwnBusiness(resource string) bool {
	return slices.Contains([]string{
		"leases", "events", "clustercsidrivers", "subjectaccessreviews", "tokenreviews", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
	}, resource)
}
