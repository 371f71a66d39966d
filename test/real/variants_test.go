package real

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/rbac"
)

// baseName is the variant of a cluster that lacks nothing and asks for nothing.
const baseName = "base"

// variant is what one driver renders in one configuration.
type variant struct {
	folder, name string
	// objects are all but the workloads and what other operators act on.
	objects    []*unstructured.Unstructured
	deployment appsv1.Deployment
	daemonSet  appsv1.DaemonSet
	// others are the containers of further Deployments and DaemonSets.
	others []corev1.Container
	roles  []rbac.Role
	// bound are the names of the roles of each ServiceAccount.
	bound map[string][]string
}

// namespace is where the driver runs.
func (v *variant) namespace() string { return v.deployment.Namespace }

// String names the variant as its golden file is named.
func (v *variant) String() string { return v.folder + "/" + v.name }

// readVariants has the golden tests of the drivers render everything. The base comes first.
func readVariants(ctx context.Context) (map[string][]*variant, error) {
	rendered, err := env.Rendered(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string][]*variant{}
	for name, objects := range rendered {
		folder, name, _ := strings.Cut(name, "/")
		// The catalogue is about operators, and "payload" about what comes with a release.
		if folder == "catalogue" || name == "payload" {
			continue
		}
		v := &variant{folder: folder, name: name, bound: map[string][]string{}}
		if err := v.read(objects); err != nil {
			return nil, fmt.Errorf("variant %s: %w", v, err)
		}
		all[folder] = append(all[folder], v)
	}
	for _, variants := range all {
		slices.SortFunc(variants, func(a, b *variant) int {
			if (a.name == baseName) != (b.name == baseName) {
				return map[bool]int{true: -1, false: 1}[a.name == baseName]
			}
			return cmp.Compare(a.name, b.name)
		})
	}
	return all, nil
}

func (v *variant) read(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		var err error
		var role rbacv1.ClusterRole
		var binding rbacv1.ClusterRoleBinding
		switch object.GetKind() {
		case "Deployment":
			// The controller is the first one. What is beside it has no sidecars.
			if v.deployment.Name == "" {
				err = convert(object, &v.deployment)
				break
			}
			var beside appsv1.Deployment
			err = convert(object, &beside)
			v.others = append(v.others, beside.Spec.Template.Spec.Containers...)
		case "DaemonSet":
			// The node pods register the driver. The pods of the others have no sidecars.
			var one appsv1.DaemonSet
			err = convert(object, &one)
			if slices.ContainsFunc(one.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == "csi-node-driver-registrar" }) {
				v.daemonSet = one
			} else {
				v.others = append(v.others, one.Spec.Template.Spec.Containers...)
			}
		// Nobody would make a Secret for it in time, and no sidecar needs one.
		case "CredentialsRequest", "PodDisruptionBudget":
		case "ClusterRole", "Role":
			err = convert(object, &role)
			v.roles = append(v.roles, rbac.Role{Name: role.Name, Namespace: role.Namespace, Rules: role.Rules})
			v.objects = append(v.objects, object)
		case "ClusterRoleBinding", "RoleBinding":
			err = convert(object, &binding)
			for _, subject := range binding.Subjects {
				v.bound[subject.Name] = append(v.bound[subject.Name], binding.RoleRef.Name)
			}
			v.objects = append(v.objects, object)
		default:
			v.objects = append(v.objects, object)
		}
		if err != nil {
			return err
		}
	}
	if v.deployment.Name == "" || v.daemonSet.Name == "" {
		return errors.New("it has no Deployment or no DaemonSet")
	}
	return nil
}

func convert(object *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// driverName is the CSI name of the driver.
func (v *variant) driverName() string {
	for _, object := range v.objects {
		if object.GetKind() == "CSIDriver" {
			return object.GetName()
		}
	}
	return ""
}

// rolesOf are the roles of a ServiceAccount.
func (v *variant) rolesOf(account string) []rbac.Role {
	var found []rbac.Role
	for _, role := range v.roles {
		if slices.Contains(v.bound[account], role.Name) {
			found = append(found, role)
		}
	}
	return found
}

// fingerprint is the same for two variants whose sidecars can't tell in which of them they are: they have the same arguments,
// environment, volumes and roles. What else differs concerns the driver, the scheduler or the kubelet.
func (v *variant) fingerprint() (string, error) {
	seen := []any{v.roles, v.bound}
	for _, template := range []corev1.PodTemplateSpec{v.deployment.Spec.Template, v.daemonSet.Spec.Template} {
		seen = append(seen, template.Spec.ServiceAccountName)
		for _, container := range template.Spec.Containers {
			if container.Name != driverContainer {
				seen = append(seen, container.Name, container.Args, container.Env, container.VolumeMounts, container.Ports)
			}
		}
	}
	text, err := json.Marshal(seen)
	if err != nil {
		return "", fmt.Errorf("fingerprint of %s: %w", v, err)
	}
	return string(text), nil
}

// changes are what this variant tells a program that runs, or lets an account do, and the base does not; and the other way round. Programs, accounts
// and values that have the name of a driver, or a port, are the same for all drivers.
func (v *variant) changes(base *variant) []string {
	before, after := base.told(), v.told()
	var changes []string
	for who := range before {
		if after[who] == nil {
			changes = append(changes, "no "+who)
		}
	}
	for who, told := range after {
		for _, one := range told {
			if !slices.Contains(before[who], one) {
				changes = append(changes, who+" with "+one)
			}
		}
		for _, one := range before[who] {
			if !slices.Contains(told, one) {
				changes = append(changes, who+" without "+one)
			}
		}
	}
	return changes
}

// port is a number that each driver chooses.
var port = regexp.MustCompile(`\b\d{4}\b`)

// told are the arguments, variables, mounts and ports of each program that runs, and the rules of each account.
func (v *variant) told() map[string][]string {
	lease := strings.ReplaceAll(v.driverName(), ".", "-")
	anyDriver := strings.NewReplacer(v.driverName(), "DRIVER", lease, "DRIVER", v.namespace(), "NAMESPACE")
	found := map[string][]string{}
	for workload, template := range map[string]corev1.PodTemplateSpec{"controller": v.deployment.Spec.Template, "node": v.daemonSet.Spec.Template} {
		add := func(who string, what any) {
			text := port.ReplaceAllString(anyDriver.Replace(fmt.Sprint(what)), "PORT")
			found[workload+" "+who] = append(found[workload+" "+who], text)
		}
		for _, role := range v.rolesOf(template.Spec.ServiceAccountName) {
			for _, rule := range role.Rules {
				add("account", rule)
			}
		}
		for _, container := range template.Spec.Containers {
			name := container.Name
			if name == driverContainer || slices.Contains(listed(), name) {
				continue
			}
			if strings.Contains(name, proxyName) {
				name = proxyName
			}
			for _, argument := range container.Args {
				add(name, argument)
			}
			for _, variable := range container.Env {
				add(name, variable)
			}
			for _, mount := range container.VolumeMounts {
				add(name, mount)
			}
			for _, port := range container.Ports {
				add(name, port)
			}
		}
	}
	return found
}

// group is what variants have in common that differ in nothing a sidecar sees.
type group struct {
	*variant
	others []string
}

// groups puts variants together whose sidecars are the same: one start is enough for them.
func groups(variants []*variant) ([]*group, error) {
	var all []*group
	byPrint := map[string]*group{}
	for _, v := range variants {
		print, err := v.fingerprint()
		if err != nil {
			return nil, err
		}
		if first := byPrint[print]; first != nil {
			first.others = append(first.others, v.name)
			continue
		}
		byPrint[print] = &group{variant: v}
		all = append(all, byPrint[print])
	}
	return all, nil
}
