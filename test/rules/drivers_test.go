package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/test/env"
)

// folders are the CSIDrivers of the drivers, one in each folder.
func folders(t *testing.T) []string {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	found, err := filepath.Glob(filepath.Join(root, "internal", "driver", "*", "assets", "csidriver.yaml"))
	env.Must(t, err)
	return found
}

// everyDriver calls check with each driver and all objects that it can have.
func everyDriver(t *testing.T, check func(d driver.Driver, objects []client.Object)) {
	t.Helper()
	drivers := all.Drivers()
	if folders := folders(t); len(folders) != len(drivers) {
		t.Fatalf("%d folders of drivers, but internal/driver/all knows %d: %v", len(folders), len(drivers), folders)
	}
	scheme, err := kube.Scheme()
	env.Must(t, err)
	for _, d := range drivers {
		settings, err := d.ReadSettings(func(string) string { return "" })
		env.Must(t, err)
		objects, err := d.Everything(scheme, kube.DefaultNamespace, settings)
		env.Must(t, err)
		check(d, objects)
	}
}

// shared are the ports of the node that drivers of several platforms have, with the CSI names of these. The ports are those of predecessors, and the
// platforms share no node. A new driver takes ports that no driver has: "go run ./hack/new-driver -ports" lists those.
func shared() map[int]string {
	return map[int]string{
		8206:  "ebs.csi.aws.com disk.csi.azure.com pd.csi.storage.gke.io",
		9206:  "ebs.csi.aws.com disk.csi.azure.com pd.csi.storage.gke.io",
		10300: "ebs.csi.aws.com disk.csi.azure.com cinder.csi.openstack.org pd.csi.storage.gke.io csi.vsphere.vmware.com",
		10302: "efs.csi.aws.com file.csi.azure.com csi.vsphere.vmware.com",
		10303: "efs.csi.aws.com pd.csi.storage.gke.io",
		10304: "disk.csi.azure.com cinder.csi.openstack.org",
		10305: "efs.csi.aws.com file.csi.azure.com manila.csi.openstack.org",
	}
}

// The kubelet rewrites the /etc/hosts of a pod before each of its containers starts, so a container that looks localhost up may not find it.
func TestNoContainerLooksLocalhostUp(t *testing.T) {
	everyDriver(t, func(d driver.Driver, objects []client.Object) {
		look := driver.MutatePods(func(_ driver.Config, pods driver.Pods) error {
			for _, container := range slices.Concat(pods.Spec.InitContainers, pods.Spec.Containers) {
				for _, text := range slices.Concat(container.Command, container.Args) {
					if strings.Contains(text, "localhost") {
						t.Errorf("container %s of the %s of %s has %s: write 127.0.0.1", container.Name, pods.Name, d.Name, text)
					}
				}
				for _, variable := range container.Env {
					if strings.Contains(variable.Value, "localhost") {
						t.Errorf("container %s of the %s of %s has %s=%s: write 127.0.0.1", container.Name, pods.Name, d.Name, variable.Name, variable.Value)
					}
				}
			}
			return nil
		})
		for _, object := range objects {
			env.Must(t, look(d, driver.Config{}, object))
		}
	})
}

// Two pods on the network of one node can't listen on one port, also if one listens on loopback only. The drivers of a platform share their
// nodes, and a driver without a platform shares them with all others.
func TestNoTwoHostPortsCollide(t *testing.T) {
	type use struct{ user, platform string }
	taken, again := map[int][]use{}, map[int][]string{}
	everyDriver(t, func(d driver.Driver, objects []client.Object) {
		look := driver.MutatePods(func(_ driver.Config, pods driver.Pods) error {
			declared := map[int]bool{}
			if pods.Spec.HostNetwork {
				for _, container := range pods.Spec.Containers {
					for _, port := range container.Ports {
						declared[int(port.HostPort)] = true
						if port.HostPort != port.ContainerPort {
							t.Errorf("container %s of %s uses port %d of the node: declare it as hostPort as well", container.Name, d.Name, port.ContainerPort)
						}
					}
				}
			}
			for port, container := range pods.HostPorts() {
				if !declared[port] {
					t.Errorf("container %s of %s listens on port %d of the node and does not declare it: the scheduler can't keep it free", container, d.Name, port)
				}
				mine := use{fmt.Sprintf("the %s of %s", pods.Name, d.Name), string(d.Platform)}
				for _, other := range taken[port] {
					if other.platform == mine.platform || other.platform == "" || mine.platform == "" {
						t.Errorf("port %d is used by %s and by %s: take one that \"go run ./hack/new-driver -ports\" does not list", port, mine.user, other.user)
					}
				}
				taken[port] = append(taken[port], mine)
				again[port] = append(again[port], d.Name)
			}
			return nil
		})
		for _, object := range objects {
			env.Must(t, look(d, driver.Config{}, object))
		}
	})
	found := map[int]string{}
	for port, names := range again {
		if len(names) > 1 {
			found[port] = strings.Join(names, " ")
		}
	}
	if diff := cmp.Diff(shared(), found); diff != "" {
		t.Errorf("ports that drivers of several platforms have (-known +found): a new driver takes others:\n%s", diff)
	}
	if len(taken) < 18 {
		t.Errorf("%d ports", len(taken))
	}
}

// The remover of a driver whose operator has gone knows the driver by its workloads.
func TestADriverConsistsOfTheWorkloadsThatItNames(t *testing.T) {
	everyDriver(t, func(d driver.Driver, objects []client.Object) {
		var found []string
		for _, object := range objects {
			switch object.(type) {
			case *appsv1.Deployment, *appsv1.DaemonSet:
				found = append(found, fmt.Sprintf("%T %s/%s", object, object.GetNamespace(), object.GetName()))
			}
		}
		want := []string{
			"*v1.DaemonSet " + kube.DefaultNamespace + "/" + d.DaemonSet, "*v1.Deployment " + kube.DefaultNamespace + "/" + d.Deployment,
		}
		for _, name := range d.Deployments {
			want = append(want, "*v1.Deployment "+kube.DefaultNamespace+"/"+name)
		}
		for _, name := range d.DaemonSets {
			want = append(want, "*v1.DaemonSet "+kube.DefaultNamespace+"/"+name)
		}
		slices.Sort(want)
		slices.Sort(found)
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("%s (-named +rendered):\n%s", d.Name, diff)
		}
	})
}

// A pod is ready a few seconds after it serves, may take its time to start, and is killed only for what lasts, or if it hangs when it starts. The driver must not give up
// before the liveness probe that asks it does.
func TestPodsAreReadyAsSoonAsTheyServe(t *testing.T) {
	looked := 0
	everyDriver(t, func(d driver.Driver, objects []client.Object) {
		env.Must(t, eachContainer(d, objects, func(pods driver.Pods, container corev1.Container) {
			ready, alive, start := container.ReadinessProbe, container.LivenessProbe, container.StartupProbe
			where := fmt.Sprintf("container %s of %s %s", container.Name, d.Name, pods.Name)
			if ready == nil {
				if start != nil {
					t.Errorf("%s has a startup probe, and becomes ready without one", where)
				}
				return
			}
			looked++
			if start == nil || alive == nil {
				t.Fatalf("%s: startup probe %v, liveness probe %v", where, start, alive)
			}
			// A try takes the period if it is refused, and the timeout if the driver hangs.
			refused, hanging := start.PeriodSeconds*start.FailureThreshold, max(start.PeriodSeconds, start.TimeoutSeconds)*start.FailureThreshold
			if start.PeriodSeconds > max(2, start.TimeoutSeconds/2) || start.InitialDelaySeconds > 0 || ready.InitialDelaySeconds > 0 || refused < 120 ||
				hanging > 300 {
				t.Errorf("%s starts by %v, ready by %v", where, start, ready)
			}
			least := int32(50)
			if d.Platform == "OpenStack" {
				least = 150
			}
			if alive.InitialDelaySeconds > 0 || alive.PeriodSeconds*alive.FailureThreshold < least {
				t.Errorf("%s is killed after %d * %d s, want %d s at least", where, alive.FailureThreshold, alive.PeriodSeconds, least)
			}
			for _, probe := range []*corev1.Probe{start, ready, alive} {
				if probe.HTTPGet != nil && !slices.ContainsFunc(pods.Spec.Containers, func(sidecar corev1.Container) bool {
					return slices.Contains(sidecar.Args, fmt.Sprintf("--probe-timeout=%ds", probe.TimeoutSeconds))
				}) {
					t.Errorf("%s: a probe waits for %d s, and the liveness probe for another time", where, probe.TimeoutSeconds)
				}
			}
		}))
	})
	// One is vSphere's webhook.
	if want := 2*len(all.Drivers()) + 1; looked != want {
		t.Errorf("%d containers are probed, want %d", looked, want)
	}
}

// The check of bundles asks the same of operators that OLM installs.
func TestTheOperatorOfTheReleaseIsReadyAsSoonAsItServes(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	files, err := filepath.Glob(filepath.Join(root, "manifests", "*_deployment*.yaml"))
	env.Must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		env.Must(t, err)
		var operator appsv1.Deployment
		env.Must(t, yaml.Unmarshal(text, &operator))
		probe := operator.Spec.Template.Spec.Containers[0].ReadinessProbe
		if probe == nil || probe.PeriodSeconds > 2 || probe.InitialDelaySeconds > 0 || probe.PeriodSeconds*probe.FailureThreshold < 30 {
			t.Errorf("%s: readiness probe %v", file, probe)
		}
	}
	if len(files) != 2 {
		t.Errorf("the release has %q", files)
	}
}

// eachContainer calls look with all containers of workloads.
func eachContainer(d driver.Driver, objects []client.Object, look func(driver.Pods, corev1.Container)) error {
	each := driver.MutatePods(func(_ driver.Config, pods driver.Pods) error {
		for _, container := range pods.Spec.Containers {
			look(pods, container)
		}
		return nil
	})
	for _, object := range objects {
		if err := each(d, driver.Config{}, object); err != nil {
			return fmt.Errorf("look at %s: %w", object.GetName(), err)
		}
	}
	return nil
}

func TestPodsWithANetworkOfTheirOwnUseNoPortOfTheNode(t *testing.T) {
	looked := 0
	everyDriver(t, func(d driver.Driver, objects []client.Object) {
		for _, object := range objects {
			deployment, ok := object.(*appsv1.Deployment)
			if !ok || deployment.Spec.Template.Spec.HostNetwork {
				continue
			}
			looked++
			for _, container := range deployment.Spec.Template.Spec.Containers {
				if slices.ContainsFunc(container.Ports, func(port corev1.ContainerPort) bool { return port.HostPort != 0 }) {
					t.Errorf("%s: container %s", d.Name, container.Name)
				}
			}
		}
	})
	if looked == 0 {
		t.Error("there is no such Deployment, not even that of EBS")
	}
}

// A cache selects one ConfigMap of the namespace that has both. The other would neither be found nor pruned.
func TestADriverWithTheCAOfItsCloudHasNoDashboard(t *testing.T) {
	dashboards, followers := 0, 0
	everyDriver(t, func(d driver.Driver, objects []client.Object) {
		has := slices.ContainsFunc(objects, func(object client.Object) bool { return object.GetNamespace() == driver.ManagedNamespace })
		if has {
			dashboards++
		}
		if d.CloudCAVariable != "" {
			followers++
		}
		if has && d.CloudCAVariable != "" {
			t.Errorf("%s has both", d.Name)
		}
	})
	if dashboards == 0 || followers == 0 {
		t.Errorf("%d drivers with a dashboard, %d with a CA", dashboards, followers)
	}
}

func TestNoDriverIsGrantedMoreThanItNeeds(t *testing.T) {
	everyDriver(t, func(d driver.Driver, objects []client.Object) {
		looked := 0
		for _, object := range objects {
			var rules []rbacv1.PolicyRule
			switch role := object.(type) {
			case *rbacv1.ClusterRole:
				rules = role.Rules
			case *rbacv1.Role:
				rules = role.Rules
			}
			for _, rule := range rules {
				looked++
				// One Secret by its name, which has no credentials: docs/decisions/0044-drivers-of-openstack.md.
				isNamed := slices.Equal(rule.ResourceNames, []string{"csi-manila-secrets"}) && slices.Equal(rule.Verbs, []string{"get"})
				for _, part := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs) {
					if isNamed && part == "secrets" {
						continue
					}
					if part == "*" || part == "secrets" || part == "escalate" || part == "bind" || part == "impersonate" {
						t.Errorf("%s: %s of %s", d.Name, part, object.GetName())
					}
				}
			}
		}
		if looked < 10 {
			t.Errorf("%s: %d rules", d.Name, looked)
		}
	})
}
