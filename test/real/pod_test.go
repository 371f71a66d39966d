package real

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// What containers are called. Those of the sidecars that run have the names of their programs; those of kube-rbac-proxy have it in theirs.
const (
	driverContainer = "csi-driver"
	proxyName       = "kube-rbac-proxy"
	leaderElection  = "--leader-election"
)

// released are the containers whose program is served as a module, and runs.
func released() []string {
	return []string{"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter"}
}

// listed programs are only held against lists of flags: no module of theirs is served.
func listed() []string {
	return []string{"csi-node-driver-registrar", "csi-liveness-probe", "csi-driver-nfs", "vsphere-syncer"}
}

// pod is a workload of a variant whose containers run.
type pod struct {
	v          *variant
	spec       corev1.PodSpec
	folder     string
	kubeconfig string
	// running are the programs by container.
	running map[string]*env.Operator
	servers []*http.Server
}

// startPod starts the containers of a workload: the CSI driver first, and each sidecar with its own arguments and environment, under the
// pod's ServiceAccount.
func startPod(ctx context.Context, v *variant, spec corev1.PodSpec, profile driverProfile) (*pod, error) {
	folder, err := os.MkdirTemp(suite.folder, "")
	if err != nil {
		return nil, err
	}
	p := &pod{v: v, spec: spec, folder: folder, running: map[string]*env.Operator{}}
	if p.kubeconfig, err = suite.cluster.AccountKubeconfig(ctx, v.namespace(), spec.ServiceAccountName); err != nil {
		return nil, err
	}
	// The container of the driver is the first one; the sidecars wait for its socket anyway.
	for _, container := range spec.Containers {
		if err := p.startContainer(ctx, container, profile); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: container %s: %w", v, container.Name, err), p.stop())
		}
	}
	return p, nil
}

func (p *pod) startContainer(ctx context.Context, container corev1.Container, profile driverProfile) error {
	switch name := container.Name; {
	case name == driverContainer:
		return p.startDriver(ctx, container, profile)
	case slices.Contains(released(), name):
		return p.startReleased(container, name)
	case strings.Contains(name, proxyName):
		return p.startProxy(ctx, container)
	case slices.Contains(listed(), name):
		return nil
	default:
		return errors.New("nobody knows its program: add it to the released ones, or to those with a list of flags")
	}
}

// startReleased starts a program as rendered. Only two things differ from its pod: the paths of its volumes, which lie in a folder of the
// test, and the kubeconfig with the token that is in a file of the pod.
func (p *pod) startReleased(container corev1.Container, program string) error {
	binary, err := env.Binary("real/" + program)
	if err != nil {
		return err
	}
	args, environment, err := p.outside(container)
	if err != nil {
		return err
	}
	p.running[container.Name], err = env.RunExactly(binary, append(args, "--kubeconfig="+p.kubeconfig), environment)
	return err
}

// outside returns the arguments and the environment of a container with the paths of this machine.
func (p *pod) outside(container corev1.Container) (args, environment []string, err error) {
	if len(container.Command) > 0 || len(container.EnvFrom) > 0 {
		return nil, nil, errors.New("it has a command or envFrom, which this test does not follow")
	}
	for _, argument := range container.Args {
		if strings.Contains(argument, "$(") {
			return nil, nil, fmt.Errorf("argument %s has a variable, which this test does not follow", argument)
		}
		argument, err = p.onDisk(container, argument)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, argument)
	}
	for _, variable := range container.Env {
		if variable.ValueFrom != nil {
			return nil, nil, fmt.Errorf("variable %s comes from another object, which this test does not follow", variable.Name)
		}
		value, err := p.onDisk(container, variable.Value)
		if err != nil {
			return nil, nil, err
		}
		environment = append(environment, variable.Name+"="+value)
	}
	return args, environment, nil
}

// onDisk replaces the path in an argument or value, if it has one. A path in no volume is an error: the pod would not have it.
func (p *pod) onDisk(container corev1.Container, text string) (string, error) {
	name, value, found := strings.Cut(text, "=")
	if !found {
		name, value = "", text
	}
	value = strings.TrimPrefix(strings.TrimPrefix(value, "unix://"), "unix:")
	if !strings.HasPrefix(value, "/") {
		return text, nil
	}
	for _, mount := range container.VolumeMounts {
		if rest, below := strings.CutPrefix(value, strings.TrimSuffix(mount.MountPath, "/")+"/"); below {
			file := filepath.Join(p.folder, mount.Name, filepath.FromSlash(rest))
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				return "", err
			}
			if !found {
				return file, nil
			}
			return name + "=" + file, nil
		}
	}
	return "", fmt.Errorf("%s is in no volume of the container", text)
}

// startDriver starts a CSI driver where the one of the pod would listen, with what that one can do.
func (p *pod) startDriver(ctx context.Context, container corev1.Container, profile driverProfile) error {
	endpoint := ""
	for _, variable := range container.Env {
		if variable.Name == "CSI_ENDPOINT" {
			endpoint = variable.Value
		}
	}
	if endpoint == "" || profile.ByVariable == slices.Contains(container.Args, "--endpoint=$(CSI_ENDPOINT)") {
		return errors.New("--endpoint=$(CSI_ENDPOINT) does not say where to listen")
	}
	socket, err := p.onDisk(container, endpoint)
	if err != nil {
		return err
	}
	binary, err := env.Binary("real/csidriver")
	if err != nil {
		return err
	}
	args := []string{
		"--endpoint=" + socket, "--name=" + p.v.driverName(), "--node=" + profile.nodeID(profile.node),
		"--capabilities=" + strings.Join(profile.Capabilities, ","), "--topology=" + profile.topology(),
		"--handle=" + profile.InTree.Handle, "--path=" + profile.InTree.Path,
		// So that the snapshotter has something to report, twice.
		"--stumbles=2",
	}
	if p.running[driverContainer], err = env.RunExactly(binary, args, nil); err != nil {
		return err
	}
	for _, argument := range container.Args {
		flag, address, _ := strings.Cut(argument, "=")
		if flag == "--http-endpoint" || flag == "--metrics-address" {
			return p.serveMetrics(ctx, address)
		}
	}
	return p.serveFixed(ctx, profile.Ports)
}

// serveFixed answers at ports of metrics that no flag names, if a proxy of the pod asks there.
func (p *pod) serveFixed(ctx context.Context, ports []int) error {
	for _, port := range ports {
		address := fmt.Sprintf("127.0.0.1:%d", port)
		asked := slices.ContainsFunc(p.spec.Containers, func(container corev1.Container) bool {
			return slices.Contains(container.Args, "--upstream=http://"+address+"/")
		})
		if !asked {
			continue
		}
		if err := p.serveMetrics(ctx, address); err != nil {
			return err
		}
	}
	return nil
}

// ended returns an error that says which program has ended, and its last words. Programs say what they don't like about a flag there.
func (p *pod) ended() error {
	for name, running := range p.running {
		select {
		case <-running.Done():
			return fmt.Errorf("%s: %s has ended: %s", p.v, name, lastWords(running.Output()))
		default:
		}
	}
	return nil
}

// lastWords is the sentence of a program's output that says why it has ended: the first one that is not a heading of its usage, or the last
// lines of its log.
func lastWords(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if before, _, usage := strings.Cut(output, "\nUsage of "); usage {
		lines = strings.Split(strings.TrimSpace(before), "\n")
	}
	return strings.Join(lines[max(0, len(lines)-3):], "\n")
}

// refusals are the sentences in which programs say that the API server has refused them.
func (p *pod) refusals() []string {
	forbidden := regexp.MustCompile(`[^"\n]*is forbidden: User[^"\n]*`)
	var found []string
	for name, running := range p.running {
		for _, sentence := range forbidden.FindAllString(running.Output(), 1) {
			found = append(found, name+": "+sentence)
		}
	}
	return found
}

// kill ends all programs without notice. Sidecars that wait for their Lease, and are to give it back when they end, do not end by SIGTERM.
func (p *pod) kill() {
	for _, running := range p.running {
		running.Kill()
	}
}

// stop ends all programs.
func (p *pod) stop() error {
	var problems []error
	for _, server := range p.servers {
		problems = append(problems, server.Close())
	}
	// The driver comes first in its pod, and ends last: sidecars that lose it end at once.
	for _, container := range slices.Backward(p.spec.Containers) {
		if running := p.running[container.Name]; running != nil {
			// Some end by the signal itself, which is no failure.
			_ = running.Stop()
		}
	}
	return errors.Join(append(problems, os.RemoveAll(p.folder))...)
}

// deploy makes the objects of a variant, and starts both pods. They end with the test.
func deploy(t *testing.T, v *variant, profile driverProfile) (controller, node *pod) {
	t.Helper()
	ctx := t.Context()
	for _, object := range v.objects {
		object = object.DeepCopy()
		applied := client.ApplyConfigurationFromUnstructured(object)
		env.Must(t, suite.cluster.Client.Apply(ctx, applied, client.FieldOwner("operator"), client.ForceOwnership))
	}
	t.Cleanup(func() {
		noLeases(t, v.namespace())
		for _, object := range slices.Backward(v.objects) {
			if err := suite.cluster.Client.Delete(context.Background(), object.DeepCopy()); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		}
	})
	var err error
	for _, start := range []struct {
		pod  **pod
		spec corev1.PodSpec
	}{{&controller, v.deployment.Spec.Template.Spec}, {&node, v.daemonSet.Spec.Template.Spec}} {
		*start.pod, err = startPod(ctx, v, start.spec, profile)
		env.Must(t, err)
		started := *start.pod
		t.Cleanup(func() { started.report(t) })
	}
	return controller, node
}

// report ends a pod, and shows what its programs have printed if the test has failed.
func (p *pod) report(t *testing.T) {
	if t.Failed() {
		for name, running := range p.running {
			t.Logf("%s printed:\n%s", name, env.LastLines(running.Output()))
		}
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// await waits for a condition, and no longer once a program of the pod has ended.
func (p *pod) await(ctx context.Context, what string, check func() error) error {
	var ended error
	err := env.Await(ctx, p.v.String()+": "+what, func() error {
		if ended = p.ended(); ended != nil {
			return nil
		}
		return check()
	})
	return errors.Join(ended, err)
}
