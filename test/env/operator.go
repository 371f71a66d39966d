package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the EFS operator is called and where it runs.
const (
	OperatorName      = "aws-efs-csi-driver-operator"
	OperatorNamespace = "openshift-cluster-csi-drivers"
	// RaceOperator is its program with the race detector, for a test of test/adversaries: there the most happens at the same time.
	RaceOperator = race + OperatorName
	// OperatorUser is the operator's name in the audit log.
	OperatorUser = "system:serviceaccount:" + OperatorNamespace + ":" + OperatorName
)

// race is the folder of bin/ that has the programs with the race detector.
const race = "race/"

// Program returns the path of one of our programs for most tests: the shipped build, or with RaceAsked the build with the race detector.
func Program(name string) string {
	if RaceAsked() {
		return race + name
	}
	return name
}

// RaceAsked tells whether RACE=1 gives all tests the race detector. It takes five times the processor time.
func RaceAsked() bool {
	return os.Getenv("RACE") != "" //nolint:forbidigo // A test has no flags; so make soak says it.
}

// OperatorUserIn is the operator's name in the audit log if it runs in another namespace.
func OperatorUserIn(namespace string) string {
	return "system:serviceaccount:" + namespace + ":" + OperatorName
}

// Images are references for a cluster in which no image is ever pulled.
func Images() map[string]string {
	images := map[string]string{}
	for variable, name := range map[string]string{
		"PROVISIONER_IMAGE":           "csi-provisioner",
		"NODE_DRIVER_REGISTRAR_IMAGE": "csi-node-driver-registrar", "LIVENESS_PROBE_IMAGE": "livenessprobe",
		"KUBE_RBAC_PROXY_IMAGE": "kube-rbac-proxy", "NODE_HEALTH_IMAGE": "aws-efs-node-health",
	} {
		images[variable] = "registry.example/" + name + ":1.0.0"
	}
	// What a driver accepts depends on its version.
	images["DRIVER_IMAGE"] = "registry.example/aws-efs-csi-driver:v3.4.1"
	return images
}

// InstallManifests applies the CRD of SharedVolumes, the ServiceAccount, roles and bindings of the operator, and what limits
// its account, as they are shipped. Namespaces without a list may use
// SharedVolumes: see SharedVolumesServedBefore.
func (c *Cluster) InstallManifests(ctx context.Context) error {
	return c.InstallManifestsIn(ctx, OperatorNamespace)
}

// InstallManifestsIn is InstallManifests for another namespace, which it makes if it is missing. The guide says to replace
// the name in all files.
func (c *Cluster) InstallManifestsIn(ctx context.Context, namespace string) error {
	if err := c.Namespace(ctx, namespace); err != nil {
		return err
	}
	root, err := Root()
	if err != nil {
		return err
	}
	for _, folder := range []string{"crd", "rbac", "limits"} {
		files, err := filepath.Glob(filepath.Join(root, "config", folder, "*.yaml"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no manifests in config/%s: run 'make generate' (%w)", folder, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(filepath.Clean(name))
			if err != nil {
				return fmt.Errorf("apply: %w", err)
			}
			if err := c.apply(ctx, name, strings.NewReader(strings.ReplaceAll(string(text), OperatorNamespace, namespace))); err != nil {
				return err
			}
		}
	}
	return c.SharedVolumesServedBefore(ctx)
}

// Namespace makes a namespace, if it is missing.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	err := c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

// ApplyFile applies every object of a YAML file as the administrator.
func (c *Cluster) ApplyFile(ctx context.Context, name string) error {
	file, err := os.Open(filepath.Clean(name))
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	defer file.Close()
	return c.apply(ctx, name, file)
}

func (c *Cluster) apply(ctx context.Context, name string, from io.Reader) error {
	decoder := yaml.NewYAMLOrJSONDecoder(from, 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("apply %s: %w", name, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("admin"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s of %s: %w", object.GetName(), name, err)
		}
	}
}

// Operator is a running operator process.
type Operator struct {
	// Log is the file with what it prints.
	Log string
	// Metrics is the URL of its metrics.
	Metrics string

	command *exec.Cmd
	done    chan struct{}
	once    sync.Once
	err     error
}

// StartOperator starts the operator under its own ServiceAccount. Extra arguments come after "start", extra environment
// as NAME=value; both win over the defaults.
func (c *Cluster) StartOperator(ctx context.Context, args, environment []string) (*Operator, error) {
	return c.StartOperatorIn(ctx, OperatorNamespace, args, environment)
}

// StartOperatorIn is StartOperator in another namespace, under the ServiceAccount there.
func (c *Cluster) StartOperatorIn(ctx context.Context, namespace string, args, environment []string) (*Operator, error) {
	binary, err := Binary(c.Operator)
	if err != nil {
		return nil, err
	}
	return c.OutsidePod(ctx, binary, namespace, OperatorName, args, defaults(environment))
}

// OutsidePod starts the operator under a ServiceAccount, with the flags that a process outside a pod needs. Arguments that are
// given win over them.
func (c *Cluster) OutsidePod(ctx context.Context, binary, namespace, account string, args, environment []string) (*Operator, error) {
	kubeconfig, err := c.AccountKubeconfig(ctx, namespace, account)
	if err != nil {
		return nil, err
	}
	port, err := FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	base := []string{
		"start", "--kubeconfig", kubeconfig, "--namespace", namespace,
		"--health-probe-bind-address", "0", "--metrics-bind-address", port,
		// A look at the metrics must not cost requests that the tests count.
		"--metrics-secure=false",
	}
	operator, err := runLogged(binary, append(base, args...), environment)
	if err != nil {
		return nil, err
	}
	operator.Metrics = "http://" + port + "/metrics"
	return operator, nil
}

// LeaveOperator starts the operator so that it goes on when this process ends. Its log is in the cluster's folder.
func (c *Cluster) LeaveOperator(ctx context.Context) (*Operator, error) {
	kubeconfig, err := c.AccountKubeconfig(ctx, OperatorNamespace, OperatorName)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(c.Dir, "logs", "operator.log"))
	if err != nil {
		return nil, fmt.Errorf("log of the operator: %w", err)
	}
	defer log.Close()
	args := []string{"start", "--kubeconfig", kubeconfig, "--health-probe-bind-address", "0", "--metrics-bind-address", "0"}
	binary, err := Binary(c.Operator)
	if err != nil {
		return nil, err
	}
	return run(binary, args, defaults(nil), log, true)
}

// RunOperator starts a program of bin/ with exactly these arguments. It ends with this process at the latest.
func RunOperator(program string, args, environment []string) (*Operator, error) {
	binary, err := Binary(program)
	if err != nil {
		return nil, err
	}
	return RunFile(binary, args, environment)
}

// RunFile is RunOperator for a program in another folder.
func RunFile(binary string, args, environment []string) (*Operator, error) {
	return runLogged(binary, args, defaults(environment))
}

// RunExactly starts a program with these arguments and nothing but this environment. It ends with this process at the latest.
func RunExactly(binary string, args, environment []string) (*Operator, error) {
	if environment == nil {
		// No environment at all means this process' own.
		environment = []string{}
	}
	return runLogged(binary, args, environment)
}

// runLogged starts a program with exactly this environment. It ends with this process at the latest.
func runLogged(binary string, args, environment []string) (*Operator, error) {
	log, err := os.CreateTemp("", "operator-*.log")
	if err != nil {
		return nil, fmt.Errorf("log of the operator: %w", err)
	}
	defer log.Close()
	return run(binary, args, environment, log, false)
}

// defaults is an environment in which the operator runs and reaches no AWS, with what is given, which wins.
func defaults(environment []string) []string {
	all := append(WithoutAWS(), "OPERAND_IMAGE_VERSION=1.0.0", "OPERATOR_IMAGE_VERSION=1.0.0", "KUBECONFIG=", HaltOnRace)
	for variable, image := range Images() {
		all = append(all, variable+"="+image)
	}
	return append(all, environment...)
}

// HaltOnRace ends a program with the race detector at the first race. At its end the program waits a moment for a race that is just being
// reported, and not a second, which is the default: tests end hundreds of programs.
const HaltOnRace = "GORACE=halt_on_error=1 atexit_sleep_ms=20"

// run starts a program with exactly this environment.
func run(binary string, args, environment []string, log *os.File, outlive bool) (*Operator, error) {
	command := exec.Command(binary, args...)
	if filepath.Base(filepath.Dir(binary)) == filepath.Clean(race) {
		// Garbage collection is expensive with the race detector, and no test measures the memory of such a program.
		environment = append([]string{"GOGC=400"}, environment...)
	}
	command.Env = environment
	command.Stdout, command.Stderr = log, log
	if !outlive {
		DieWithParent(command)
	}
	operator := &Operator{Log: log.Name(), command: command, done: make(chan struct{})}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	go func() {
		operator.err = command.Wait()
		close(operator.done)
	}()
	return operator, nil
}

// PID is the number of the operator's process.
func (o *Operator) PID() int { return o.command.Process.Pid }

// Started returns an error until the operator has filled its caches and its controller works. With leader election, that
// is when it leads.
func (o *Operator) Started() error {
	for line := range strings.SplitSeq(o.Output(), "\n") {
		if strings.Contains(line, "Starting workers") && strings.Contains(line, "clustercsidriver") {
			return nil
		}
	}
	return errors.New("the operator has not started its workers")
}

// Done is closed when the operator has ended.
func (o *Operator) Done() <-chan struct{} { return o.done }

// Output is all that the operator has printed.
func (o *Operator) Output() string {
	output, err := os.ReadFile(o.Log)
	if err != nil {
		return err.Error()
	}
	return string(output)
}

// LastLines are the most useful ones of a log: its end, without the lines of a start that went well.
func LastLines(log string) string {
	started := strings.Contains(log, `"Starting workers"`)
	lines := slices.DeleteFunc(strings.Split(log, "\n"), func(line string) bool {
		return started && (strings.Contains(line, `"Starting EventSource"`) || strings.Contains(line, `"Caches populated"`))
	})
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// Stop ends the operator as a kubelet does and returns an error if it does not end cleanly.
func (o *Operator) Stop() error { return o.end(syscall.SIGTERM) }

// StopAtEnd ends the operator with the test, and shows what it has printed if the test fails.
func StopAtEnd(t *testing.T, operator *Operator) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the operator printed:\n%s", LastLines(operator.Output()))
		}
		if err := operator.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// Kill ends the operator without notice.
func (o *Operator) Kill() { _ = o.end(syscall.SIGKILL) }

func (o *Operator) end(signal syscall.Signal) error {
	var err error
	o.once.Do(func() {
		// It may have ended by itself.
		_ = o.command.Process.Signal(signal)
		select {
		case <-o.done:
		case <-time.After(Patience):
			_ = o.command.Process.Kill()
			<-o.done
		}
		if strings.Contains(o.Output(), "DATA RACE") {
			err = errors.New("data race in the operator:\n" + o.Output())
		} else if o.err != nil && (signal != syscall.SIGTERM || o.Output() != "") {
			// One that has said nothing was ended before it could listen for signals.
			err = fmt.Errorf("the operator ended with: %w\n%s", o.err, o.Output())
		}
		_ = os.Remove(o.Log)
	})
	return err
}

// AccountKubeconfig writes a kubeconfig with a token of a ServiceAccount.
func (c *Cluster) AccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	token, err := c.Token(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	admin, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		return "", fmt.Errorf("administrator's kubeconfig: %w", err)
	}
	for user := range admin.AuthInfos {
		admin.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	}
	file := filepath.Join(c.Dir, namespace+"-"+name+".kubeconfig")
	// Another operator of the same account may be reading it.
	err = clientcmd.WriteToFile(*admin, file+".new")
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return "", fmt.Errorf("kubeconfig of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return file, nil
}
