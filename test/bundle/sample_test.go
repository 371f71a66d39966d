package bundle

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/internal/testing/drivernames"
	"github.com/csi-operators/csi-operators/internal/testing/gobuild"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
	"github.com/csi-operators/csi-operators/test/rbac"
)

const sampleOperator = "testshare-csi-driver-operator"

// thirdParty is a driver that is shipped for OLM.
type thirdParty struct {
	csv fakeolm.CSV
	// driver is its CSI name, operator that of its operator, and program what runs as that.
	driver, operator, program string
}

// packaged is the driver of a folder that new-driver has made in this tree, such as packages/smb.
func packaged(t *testing.T, folder string) thirdParty {
	t.Helper()
	tree := os.DirFS(filepath.Join(root(t), folder))
	described, err := olm.PackageOf(tree)
	env.Must(t, err)
	bundles, err := fs.Glob(tree, olm.Bundles+"/*/metadata")
	env.Must(t, err)
	if len(bundles) != 1 {
		t.Fatalf("%s has the bundles %v: run make package", folder, bundles)
	}
	files, err := olm.ReadFiles(tree, path.Dir(bundles[0]))
	env.Must(t, err)
	// One that was built before the last change of the driver would show nothing.
	program := filepath.Join(t.TempDir(), "csi-driver-operator")
	goCommand(t, root(t), "build", "-o", program, "./cmd/csi-driver-operator")
	return thirdParty{read(t, files), described.Driver, path.Base(path.Dir(bundles[0])), program}
}

// scaffold makes a driver for OLM in a copy of the tree.
func scaffold(t *testing.T) thirdParty {
	t.Helper()
	if folder := os.Getenv("PACKAGE"); folder != "" {
		return packaged(t, folder)
	}
	tree := t.TempDir()
	for _, folder := range []string{"api", "internal", "cmd/csi-driver-operator", "hack/bundle", "hack/new-driver", "test/rules"} {
		env.Must(t, os.CopyFS(filepath.Join(tree, folder), os.DirFS(filepath.Join(root(t), folder))))
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root(t), file))
		env.Must(t, err)
		env.Must(t, os.WriteFile(filepath.Join(tree, file), text, 0o600))
	}
	program, name := filepath.Join(tree, "csi-driver-operator"), drivernames.Free(t, root(t))
	goCommand(t, tree, "run", "./hack/new-driver", "testshare", "--csi-name", name, "--delivery", "olm")
	goCommand(t, tree, "build", "-o", program, "./cmd/csi-driver-operator")
	files, err := olm.ReadFiles(os.DirFS(tree), "packages/testshare/bundle/"+sampleOperator)
	env.Must(t, err)
	return thirdParty{read(t, files), name, sampleOperator, program}
}

// goCommand runs go in a tree, so that it finds what it has compiled before, wherever the tree lies.
func goCommand(t *testing.T, tree string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir, command.Env = tree, append(os.Environ(), "GOFLAGS="+gobuild.Flags())
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
}

// What new-driver writes for somebody else's driver is installed beside EFS, reaches Available under the RBAC of its bundle, and is
// removed without a trace and without touching EFS.
func TestADriverOfOthersLivesBesideEFS(t *testing.T) {
	third := scaffold(t)
	sample := third.csv
	s := open(t, env.OperatorNamespace)
	s.olm.Runs(third.operator, "csi-driver-operator", third.program)
	_, efs := released(t)

	env.Must(t, s.olm.Install(t.Context(), efs, s.namespace))
	env.Must(t, s.olm.Install(t.Context(), sample, s.namespace))
	for _, csv := range []fakeolm.CSV{efs, sample} {
		s.ask(t, csv)
	}
	env.Eventually(t, "both drivers installed", func() error {
		if err := s.at(t.Context(), efs); err != nil {
			return err
		}
		return s.SettledOf(t.Context(), third.driver)
	})
	cr := env.CR(third.driver, "")
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr))
	equal(t, "version of the driver", sample.Version.String(), cr.Status.Version)

	kept, granted := s.uids(t, env.OperatorName), s.rolesOf(t, third.operator)
	s.electSidecars(t, third)
	s.removesTheSample(t, third)
	s.needsItsRights(t, third, granted)
	env.Must(t, s.olm.Uninstall(t.Context(), sample.Name))
	env.Must(t, s.nothingOf(t.Context(), sample))
	equal(t, "objects of EFS", kept, s.uids(t, env.OperatorName))
	env.Must(t, s.at(t.Context(), efs))
}

// uids are those of all objects of a driver.
func (s *scene) uids(t *testing.T, operator string) map[string]string {
	t.Helper()
	owned, err := s.OwnedOf(t.Context(), operator)
	env.Must(t, err)
	found := map[string]string{}
	for i := range owned {
		found[owned[i].GetKind()+" "+owned[i].GetNamespace()+"/"+owned[i].GetName()] = string(owned[i].GetUID())
	}
	if len(found) < 20 {
		t.Fatalf("%d objects of %s: this shows nothing", len(found), operator)
	}
	return found
}

// removesTheSample deletes the ClusterCSIDriver while a pod uses a volume. The driver stays until the pod has ended.
func (s *scene) removesTheSample(t *testing.T, third thirdParty) {
	t.Helper()
	volume, pvc, pod := env.Workload()
	volume.Spec.CSI.Driver = third.driver
	for _, object := range []client.Object{volume, pvc, pod} {
		env.Must(t, s.Client.Create(t.Context(), object))
	}
	env.Eventually(t, "the PVC bound", func() error {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc); err != nil {
			return err
		}
		if pvc.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", pvc.Status.Phase)
		}
		return nil
	})
	before := s.uids(t, third.operator)
	cr := env.CR(third.driver, "")
	env.Must(t, s.Client.Delete(t.Context(), cr))
	env.Eventually(t, "the pod named", func() error {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			return err
		}
		for _, condition := range cr.Status.Conditions {
			if condition.Reason == "VolumesInUse" && strings.Contains(condition.Message, pod.Namespace+"/"+pod.Name) {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", cr.Status.Conditions)
	})
	equal(t, "objects of the driver while a pod uses it", before, s.uids(t, third.operator))
	env.Must(t, s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	env.Eventually(t, "ClusterCSIDriver gone", func() error { return s.Gone(t.Context(), env.CR(third.driver, "")) })
	owned, err := s.OwnedOf(t.Context(), third.operator)
	env.Must(t, err)
	for i := range owned {
		t.Errorf("%s %s/%s is left", owned[i].GetKind(), owned[i].GetNamespace(), owned[i].GetName())
	}
}

// rolesOf are the roles that an operator has made for its driver.
func (s *scene) rolesOf(t *testing.T, operator string) []rbac.Role {
	t.Helper()
	everywhere, inside := &rbacv1.ClusterRoleList{}, &rbacv1.RoleList{}
	label := client.MatchingLabels{"app.kubernetes.io/managed-by": operator}
	env.Must(t, s.Client.List(t.Context(), everywhere, label))
	env.Must(t, s.Client.List(t.Context(), inside, label))
	var found []rbac.Role
	for _, role := range everywhere.Items {
		found = append(found, rbac.Role{Name: role.Name, Rules: role.Rules})
	}
	for _, role := range inside.Items {
		found = append(found, rbac.Role{Name: role.Name, Namespace: role.Namespace, Rules: role.Rules})
	}
	return found
}

// needsItsRights checks that the operator was refused nothing, and lists what it holds and has neither used nor passed on.
func (s *scene) needsItsRights(t *testing.T, third thirdParty, granted []rbac.Role) {
	t.Helper()
	user := "system:serviceaccount:" + s.namespace + ":" + third.operator
	env.Must(t, s.Audit.NoRefusals(0, user))
	requests, err := s.Audit.Since(0, user)
	env.Must(t, err)
	held := s.heldBy(t, third)
	idle := []string{}
	for _, right := range rbac.Idle(held, granted, requests) {
		// Watches begin with a list where the API server can't stream one, snapshots are not served here, and an event is patched
		// when it comes again.
		if right.Verb == "list" || strings.Contains(right.String(), "snapshot") || right.Resource == "events" {
			continue
		}
		idle = append(idle, right.String())
	}
	equal(t, "RBAC that nobody needed", []string{}, idle)
}

// heldBy are the roles of the operator in its bundle.
func (s *scene) heldBy(t *testing.T, third thirdParty) []rbac.Role {
	t.Helper()
	var held []rbac.Role
	for namespace, permissions := range map[string]any{"": third.csv.Install.ClusterPermissions, s.namespace: third.csv.Install.Permissions} {
		var parts []olm.Permission
		text, err := json.Marshal(permissions)
		env.Must(t, err)
		env.Must(t, json.Unmarshal(text, &parts))
		for _, part := range parts {
			held = append(held, rbac.Role{Namespace: namespace, Rules: part.Rules})
		}
	}
	return held
}

// electSidecars makes the Leases by which sidecars elect a leader, which the operator removes with the driver.
func (s *scene) electSidecars(t *testing.T, third thirdParty) {
	t.Helper()
	elected := 0
	for _, role := range s.heldBy(t, third) {
		for _, rule := range role.Rules {
			if !slices.Contains(rule.Resources, "leases") || !slices.Contains(rule.Verbs, "delete") {
				continue
			}
			for _, name := range rule.ResourceNames {
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
				env.Must(t, s.Client.Create(t.Context(), lease))
				elected++
			}
		}
	}
	if elected == 0 {
		t.Error("no sidecar has a Lease")
	}
}
