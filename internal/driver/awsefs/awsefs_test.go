package awsefs

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
)

func TestRenderListsEveryObjectInOrderOfApplying(t *testing.T) {
	var got []string
	for _, object := range render(t, config(t, nil)) {
		got = append(got, object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetName())
	}
	want := []string{
		"ServiceAccount aws-efs-csi-driver-controller-sa",
		"ServiceAccount aws-efs-csi-driver-node-sa",
		"ClusterRole efs-privileged-role",
		"ClusterRole efs-kube-rbac-proxy-role",
		"ClusterRole efs-csi-provisioner-role",
		"Role aws-efs-csi-driver-lease-leader-election",
		"Role aws-efs-csi-driver-prometheus",
		"ClusterRoleBinding efs-controller-privileged-binding",
		"ClusterRoleBinding efs-node-privileged-binding",
		"ClusterRoleBinding efs-kube-rbac-proxy-binding",
		"ClusterRoleBinding efs-csi-provisioner-binding",
		"RoleBinding aws-efs-csi-driver-lease-leader-election",
		"RoleBinding aws-efs-csi-driver-prometheus",
		"CredentialsRequest openshift-aws-efs-csi-driver",
		"CredentialsRequest openshift-aws-efs-csi-driver-node",
		"ConfigMap aws-efs-csi-driver-trusted-ca-bundle",
		"ConfigMap aws-efs-csi-driver-dashboard",
		"CSIDriver efs.csi.aws.com",
		"Service aws-efs-csi-driver-controller-metrics",
		"ServiceMonitor aws-efs-csi-driver-controller-monitor",
		"PodDisruptionBudget aws-efs-csi-driver-controller-pdb",
		"DaemonSet efs-csi-node",
		"Deployment aws-efs-csi-driver-controller",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestRenderRefusesMissingImagesAndNamesThemAll(t *testing.T) {
	objects, err := tryRender(t, config(t, func(cfg *driver.Config) {
		delete(cfg.Images, "DRIVER_IMAGE")
		cfg.Images["KUBE_RBAC_PROXY_IMAGE"] = ""
	}))
	if err == nil || objects != nil {
		t.Fatalf("want an error and no objects, got %v and %d objects", err, len(objects))
	}
	for _, want := range []string{"DRIVER_IMAGE", "KUBE_RBAC_PROXY_IMAGE"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "PROVISIONER_IMAGE") {
		t.Errorf("error %q names a variable that is set", err)
	}
}

// Deployments that an administrator wrote for an earlier version do not set the variable.
func TestOnlyTheSettingNeedsTheImageOfItsPods(t *testing.T) {
	without := func(setting string) error {
		_, err := tryRender(t, config(t, func(cfg *driver.Config) {
			delete(cfg.Images, "NODE_HEALTH_IMAGE")
			cfg.Settings[WatchMounts] = setting
		}))
		return err
	}
	if err := without("false"); err != nil {
		t.Errorf("without the setting: %v", err)
	}
	if err := without("true"); err == nil || !strings.Contains(err.Error(), "[NODE_HEALTH_IMAGE] are empty") {
		t.Errorf("with the setting: error %v", err)
	}
}

func TestRenderAsksForCredentialsOnlyWhereTheyCanBeHonoured(t *testing.T) {
	const controller, node = "openshift-aws-efs-csi-driver", "openshift-aws-efs-csi-driver-node"
	cases := map[string]struct {
		mode    operatorv1.CloudCredentialsMode
		minting driver.Minting
		roles   map[string]string
		want    []string
	}{
		"default mode that mints gives both":               {minting: driver.Mints, want: []string{controller, node}},
		"default mode that passes through gives one":       {minting: driver.PassesThrough, want: []string{controller}},
		"default mode that has shown nothing asks for one": {want: []string{controller}},
		"mint mode mints both":                             {mode: operatorv1.CloudCredentialsModeMint, want: []string{controller, node}},
		"passthrough gives one":                            {mode: operatorv1.CloudCredentialsModePassthrough, want: []string{controller}},
		"manual mode gives none":                           {mode: operatorv1.CloudCredentialsModeManual},
		"STS with the controller role":                     {mode: operatorv1.CloudCredentialsModeManual, roles: map[string]string{"ROLEARN": "arn:x"}, want: []string{controller}},
		"STS with both roles":                              {mode: operatorv1.CloudCredentialsModeManual, roles: map[string]string{"ROLEARN": "arn:x", "NODE_ROLEARN": "arn:y"}, want: []string{controller, node}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, object := range render(t, config(t, func(cfg *driver.Config) {
				cfg.CredentialsMode, cfg.Minting, cfg.RoleARNs = tc.mode, tc.minting, tc.roles
			})) {
				if request, ok := object.(*cloudcredentialv1.CredentialsRequest); ok {
					got = append(got, request.Name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// If a pod can't reach its instance's metadata, the mount helper gets the region only from these variables.
func TestThePodsKnowTheRegionThatTheClusterKnows(t *testing.T) {
	for _, region := range []string{"us-gov-west-1", ""} {
		pods := 0
		for _, object := range render(t, config(t, func(cfg *driver.Config) { cfg.Region = region })) {
			pod := podOf(object)
			if pod == nil {
				continue
			}
			pods++
			told := map[string]string{}
			for _, variable := range pod.Containers[0].Env {
				if strings.HasSuffix(variable.Name, "_REGION") {
					told[variable.Name] = variable.Value
				}
			}
			want := map[string]string{}
			if region != "" {
				want = map[string]string{"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
			}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("region %q, %s (-want +got):\n%s", region, object.GetName(), diff)
			}
		}
		if pods != 2 {
			t.Errorf("region %q: %d workloads, want 2", region, pods)
		}
	}
}

// Kubelet mounts a Secret as soon as it exists. So pods may only name a Secret that the operator has accepted.
func TestNodePodsNameTheirSecretOnlyOnceItIsAccepted(t *testing.T) {
	for accepted, want := range map[string]int{"": 0, "abcd": 3} {
		found := 0
		for _, object := range render(t, config(t, func(cfg *driver.Config) { cfg.DependencyHashes[driver.Node][nodeSecret] = accepted })) {
			pod := podOf(object)
			if pod == nil {
				continue
			}
			for _, volume := range pod.Volumes {
				if volume.Secret != nil && volume.Secret.SecretName == nodeSecret {
					found++
				}
			}
			for _, container := range pod.Containers {
				for _, variable := range container.Env {
					if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil && variable.ValueFrom.SecretKeyRef.Name == nodeSecret {
						found++
					}
				}
			}
		}
		if found != want {
			t.Errorf("hash %q: the Secret is named %d times, want %d", accepted, found, want)
		}
	}
}

func TestRenderFollowsTheLogLevel(t *testing.T) {
	for level, want := range map[operatorv1.LogLevel]string{"": "--v=2", operatorv1.Debug: "--v=4", operatorv1.TraceAll: "--v=8"} {
		found := 0
		for _, object := range render(t, config(t, func(cfg *driver.Config) { cfg.Spec.LogLevel = level })) {
			if daemonSet, ok := object.(*appsv1.DaemonSet); ok {
				for _, container := range daemonSet.Spec.Template.Spec.Containers {
					for _, arg := range container.Args {
						if arg == want {
							found++
						}
					}
				}
			}
		}
		if found != 3 {
			t.Errorf("logLevel %q: %d of 3 node containers have %s", level, found, want)
		}
	}
}

func TestEveryContainerRequestsResourcesAndUsesAPriority(t *testing.T) {
	for _, object := range render(t, config(t, nil)) {
		pod := podOf(object)
		if pod == nil {
			continue
		}
		if pod.PriorityClassName == "" {
			t.Errorf("%s has no priority class", object.GetName())
		}
		for _, container := range pod.Containers {
			if container.Resources.Requests.Cpu().IsZero() || container.Resources.Requests.Memory().IsZero() {
				t.Errorf("%s: container %s has no CPU or memory request", object.GetName(), container.Name)
			}
		}
	}
}

// The controller parses tenants' input. It needs a privileged container only to delete directories, for which it mounts file systems.
func TestTheControllerIsPrivilegedOnlyToDeleteDirectories(t *testing.T) {
	for setting, want := range map[string]string{
		"false": "none", "true": "csi-driver csi-provisioner",
	} {
		for _, object := range render(t, config(t, set("DELETE_ACCESS_POINT_ROOT_DIR", setting))) {
			deployment, isDeployment := object.(*appsv1.Deployment)
			if !isDeployment {
				continue
			}
			if got := privileged(t, deployment.Spec.Template.Spec); got != want {
				t.Errorf("DELETE_ACCESS_POINT_ROOT_DIR=%s: privileged are %s, want %s", setting, got, want)
			}
		}
	}
}

func TestOnNodesOnlyThePluginIsPrivileged(t *testing.T) {
	for _, object := range render(t, config(t, nil)) {
		if daemonSet, isDaemonSet := object.(*appsv1.DaemonSet); isDaemonSet {
			if got, want := privileged(t, daemonSet.Spec.Template.Spec), "csi-driver"; got != want {
				t.Errorf("privileged are %s, want %s", got, want)
			}
		}
	}
}

// privileged lists the privileged containers. All others must drop all capabilities and privileges.
func privileged(t *testing.T, pod corev1.PodSpec) string {
	t.Helper()
	var names []string
	for _, container := range pod.Containers {
		with := container.SecurityContext
		if with != nil && with.Privileged != nil && *with.Privileged {
			names = append(names, container.Name)
			continue
		}
		if with == nil || with.AllowPrivilegeEscalation == nil || *with.AllowPrivilegeEscalation || with.Capabilities == nil ||
			!slices.Equal(with.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(with.Capabilities.Add) > 0 ||
			with.SeccompProfile == nil || with.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("container %s could do more than it needs to: %+v", container.Name, with)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestHostPortsDoNotCollide(t *testing.T) {
	owner := map[int32]string{}
	for _, object := range render(t, config(t, nil)) {
		pod := podOf(object)
		if pod == nil {
			continue
		}
		for _, container := range pod.Containers {
			for _, port := range container.Ports {
				if other, taken := owner[port.HostPort]; taken {
					t.Errorf("host port %d is used by %s and %s", port.HostPort, other, container.Name)
				}
				owner[port.HostPort] = container.Name
			}
		}
	}
	if len(owner) != 5 {
		t.Errorf("want the 5 host ports of the two pods, got %v", owner)
	}
}

func podOf(object client.Object) *corev1.PodSpec {
	switch workload := object.(type) {
	case *appsv1.Deployment:
		return &workload.Spec.Template.Spec
	case *appsv1.DaemonSet:
		return &workload.Spec.Template.Spec
	default:
		return nil
	}
}

// The operator calls AWS with the controller's credentials, and pods mount with the nodes'. Their order does not matter.
func TestEachWorkloadHasItsOwnCredentials(t *testing.T) {
	efs := Driver()
	slices.Reverse(efs.Credentials)
	for workload, secret := range map[driver.Workload]string{
		driver.Controller: "aws-efs-cloud-credentials", driver.Node: "node-aws-efs-cloud-credentials", "other": "",
	} {
		if got := efs.CredentialsOf(workload).Secret; got != secret {
			t.Errorf("the %s has Secret %q, want %q", workload, got, secret)
		}
	}
}

// Drivers before 3.4.0 exit if they get the flag for metrics. The tag of an image can be the version of something else.
func TestOnlyAVersionThatTheAdministratorSetsGivesTheDriverItsMetrics(t *testing.T) {
	for version, want := range map[string]bool{"": false, "3.3.0": false, "3.4.0": true, "3.10.1": true} {
		var found bool
		for _, object := range render(t, config(t, func(cfg *driver.Config) {
			cfg.Settings["DRIVER_VERSION"], cfg.Images["DRIVER_IMAGE"] = version, "registry.example/aws-efs-csi-driver:v5.3.0"
		})) {
			if deployment, is := object.(*appsv1.Deployment); is {
				for _, container := range deployment.Spec.Template.Spec.Containers {
					found = found || slices.Contains(container.Args, "--http-endpoint=127.0.0.1:8213")
				}
			}
		}
		if found != want {
			t.Errorf("version %q: the driver has the flag is %v, want %v", version, found, want)
		}
	}
}
