package rules

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/rbac"
)

const (
	rightsFile = "testdata/rights.yaml"
	// tableStart and tableEnd enclose what is made in docs/guide/security.md.
	tableStart = "<!-- made of the roles by UPDATE=1 go test ./test/rules -->\n"
	tableEnd   = "<!-- end -->\n"
)

// row is why some holders have some rights.
type row struct {
	Who []holder `json:"who"`
	Why string   `json:"why"`
	// Rights are resources, by verbs; both are separated by spaces.
	Rights []map[string]string `json:"rights,omitempty"`
	// Grants stands for all that the driver's pods and Prometheus have, All for all that no other row has.
	Grants bool `json:"grants,omitempty"`
	All    bool `json:"all,omitempty"`
	// Stops is what stops more than that.
	Stops string   `json:"stops,omitempty"`
	Tests []string `json:"tests"`
}

// key is a right of which namespace and name do not matter.
type key struct{ resource, verb string }

func keyOf(right rbac.Right) key {
	resource := right.Resource
	if right.Group != "" {
		resource += "." + right.Group
	}
	return key{resource, right.Verb}
}

// knows reports whether a row has a right, of a holder with what it grants.
func (r row) knows(right key, granted map[key]bool) bool {
	for _, pattern := range r.Rights {
		for verbs, resources := range pattern {
			if slices.Contains(strings.Fields(verbs), right.verb) && slices.Contains(strings.Fields(resources), right.resource) {
				return true
			}
		}
	}
	return r.All || r.Grants && granted[right]
}

// unused are the resources of a row of which it has no right in use.
func (r row) unused(used map[key]bool) []string {
	var found []string
	for _, pattern := range r.Rights {
		for _, resources := range pattern {
			for _, resource := range strings.Fields(resources) {
				if !slices.ContainsFunc(slices.Collect(maps.Keys(used)), func(right key) bool { return right.resource == resource }) {
					found = append(found, resource)
				}
			}
		}
	}
	return found
}

// places say of one right whether all objects or named ones are meant, and whether in all namespaces.
type places struct{ named, any, inside, everywhere bool }

func (p places) String() string {
	words := []string{}
	if !p.any {
		words = append(words, "by name")
	}
	if !p.everywhere {
		words = append(words, "in its namespaces")
	}
	return strings.Join(words, ", ")
}

// TestEveryRightHasAReasonAndATest makes the table of the guide, too.
func TestEveryRightHasAReasonAndATest(t *testing.T) {
	text, err := os.ReadFile(rightsFile)
	env.Must(t, err)
	var rows []row
	env.Must(t, yaml.UnmarshalStrict(text, &rows))
	all := everyRole(t)
	granted := map[string]map[key]bool{}
	for _, role := range all {
		if slices.Contains([]holder{controllers, nodePods, webhooks, prometheus}, role.who) {
			if granted[role.driver] == nil {
				granted[role.driver] = map[key]bool{}
			}
			for _, right := range rbac.Of([]rbac.Role{role.Role}) {
				granted[role.driver][keyOf(right)] = true
			}
		}
	}
	used := make([]map[holder]map[key]places, len(rows))
	for _, role := range all {
		for _, right := range rbac.Of([]rbac.Role{role.Role}) {
			at := slices.IndexFunc(rows, func(r row) bool {
				return slices.Contains(r.Who, role.who) && r.knows(keyOf(right), granted[role.driver])
			})
			if at < 0 {
				t.Errorf("%s of %s: %s has no row in %s: say why, and which test shows it", role.who, role.driver, right, rightsFile)
				continue
			}
			if used[at] == nil {
				used[at] = map[holder]map[key]places{}
			}
			if used[at][role.who] == nil {
				used[at][role.who] = map[key]places{}
			}
			seen := used[at][role.who][keyOf(right)]
			inside := right.Namespace != "" || isForNamespaces(role)
			seen.named, seen.any = seen.named || right.Name != "", seen.any || right.Name == ""
			seen.inside, seen.everywhere = seen.inside || inside, seen.everywhere || !inside
			used[at][role.who][keyOf(right)] = seen
		}
	}
	table := table(t, rows, used)
	compareTable(t, table)
}

// isForNamespaces reports whether a ClusterRole is bound by RoleBindings only: those of operators for the namespaces of their drivers are.
func isForNamespaces(role held) bool {
	return (role.who == driverOperators || role.who == ibmOperators) && !strings.HasSuffix(role.Name, "-clusterrole")
}

func table(t *testing.T, rows []row, used []map[holder]map[key]places) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("| Who | May | Why | What stops more | Tests |\n|---|---|---|---|---|\n")
	for at, r := range rows {
		if len(r.Tests) == 0 {
			t.Errorf("%s: no test shows: %s", rightsFile, r.Why)
		}
		together := map[key]places{}
		for _, who := range r.Who {
			if len(used[at][who]) == 0 {
				t.Errorf("%s: %s has no right for: %s", rightsFile, who, r.Why)
			}
			for right, where := range used[at][who] {
				seen := together[right]
				together[right] = places{seen.named || where.named, seen.any || where.any, seen.inside || where.inside, seen.everywhere || where.everywhere}
			}
		}
		inUse := map[key]bool{}
		for right := range together {
			inUse[right] = true
		}
		if left := r.unused(inUse); len(left) > 0 {
			t.Errorf("%s: nobody has a right to %v for: %s", rightsFile, left, r.Why)
		}
		names := make([]string, 0, len(r.Who))
		for _, who := range r.Who {
			names = append(names, string(who))
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | `%s` |\n", strings.Join(names, "; "), describe(together), r.Why, r.Stops, strings.Join(r.Tests, "`, `"))
	}
	return text.String()
}

// describe puts together the verbs of a resource, and then the resources with the same.
func describe(rights map[key]places) string {
	verbs := map[string]map[string][]string{}
	for right, where := range rights {
		if verbs[right.resource] == nil {
			verbs[right.resource] = map[string][]string{}
		}
		verbs[right.resource][where.String()] = append(verbs[right.resource][where.String()], right.verb)
	}
	resources := map[string][]string{}
	for _, resource := range slices.Sorted(maps.Keys(verbs)) {
		for where, list := range verbs[resource] {
			slices.Sort(list)
			what := strings.Join(list, " ")
			if where != "" {
				what += " (" + where + ")"
			}
			resources[what] = append(resources[what], resource)
		}
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(resources)) {
		parts = append(parts, "`"+what+": "+strings.Join(resources[what], " ")+"`")
	}
	return strings.Join(parts, "<br>")
}

// compareTable compares the table with that of the guide, or writes it there.
func compareTable(t *testing.T, want string) {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	file := filepath.Join(root, "docs", "guide", "security.md")
	text, err := os.ReadFile(filepath.Clean(file))
	env.Must(t, err)
	before, rest, found := strings.Cut(string(text), tableStart)
	got, after, ends := strings.Cut(rest, tableEnd)
	if !found || !ends {
		t.Fatalf("docs/guide/security.md has no %s and %s", strings.TrimSpace(tableStart), strings.TrimSpace(tableEnd))
	}
	if want = "\n" + want + "\n"; got == want || t.Failed() {
		return
	}
	if os.Getenv("UPDATE") == "1" {
		env.Must(t, os.WriteFile(file, []byte(before+tableStart+want+tableEnd+after), 0o644))
		return
	}
	t.Error("the table of docs/guide/security.md differs from the roles: run UPDATE=1 go test ./test/rules and review it")
}
