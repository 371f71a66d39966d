package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

// ocEnding is how long oc has to end after an interruption.
const ocEnding = time.Minute

// execute runs a program, and returns what it prints to its standard output. An interruption gives it time to end. When execute returns, no process of
// the program is left.
func (p *proof) execute(ctx context.Context, input string, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	// The program must not go on making things when this one is killed, and a Ctrl-C is not for it.
	env.OwnGroup(command)
	// All processes of the tests get the signal of a Ctrl-C, once: make would send SIGTERM on.
	command.Cancel, command.WaitDelay = func() error { return env.SignalGroup(command, syscall.SIGINT) }, p.ending
	if name == "oc" {
		command.WaitDelay = min(p.ending, ocEnding)
	}
	command.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig)
	if input != "" {
		command.Stdin = strings.NewReader(input)
	}
	// A process that the program leaves in the background would keep a pipe open, and let this one wait.
	stdout, stderr, err := newOutput(), newOutput(), error(nil)
	if err = errors.Join(stdout.err, stderr.err); err == nil {
		command.Stdout, command.Stderr = stdout.file, stderr.file
		err = command.Run()
	}
	if command.Process != nil {
		_ = env.SignalGroup(command, syscall.SIGKILL)
	}
	text, problems := stdout.read(), stderr.read()
	if err != nil {
		said := env.LastLines(strings.TrimSpace(problems))
		if last := env.LastLines(strings.TrimSpace(text)); last != "" {
			said = strings.TrimPrefix(said+"; its output ends with: "+last, "; ")
		}
		return text, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, said)
	}
	return text, nil
}

// output is what a program has printed, in a file without a name.
type output struct {
	file *os.File
	err  error
}

func newOutput() output {
	file, err := os.CreateTemp("", "prove-")
	if err != nil {
		return output{nil, err}
	}
	return output{file, os.Remove(file.Name())}
}

func (o output) read() string {
	if o.file == nil {
		return ""
	}
	defer func() { _ = o.file.Close() }()
	text, err := io.ReadAll(io.NewSectionReader(o.file, 0, math.MaxInt64))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (p *proof) oc(ctx context.Context, args ...string) (string, error) {
	return p.command(ctx, "", "oc", args...)
}

// apply applies a manifest.
func (p *proof) apply(ctx context.Context, manifest string) error {
	_, err := p.command(ctx, manifest, "oc", "apply", "-f", "-")
	return err
}

// create creates an object. If one of this name exists, it is of others, and this is an error.
func (p *proof) create(ctx context.Context, manifest string) error {
	_, err := p.command(ctx, manifest, "oc", "create", "-f", "-")
	return err
}

// get reads an object, or a list, and reports whether it is there.
func (p *proof) get(ctx context.Context, into any, args ...string) (bool, error) {
	text, err := p.oc(ctx, slices.Concat([]string{"get"}, args, []string{"--ignore-not-found", "-o", "json"})...)
	if err != nil || strings.TrimSpace(text) == "" {
		return false, err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return false, fmt.Errorf("oc get %s: %w", strings.Join(args, " "), err)
	}
	return true, nil
}

// until looks at something until it is as wanted. An error of check is what lacks.
func (p *proof) until(ctx context.Context, what string, check func() error) error {
	ticks := time.NewTicker(p.poll)
	defer ticks.Stop()
	for deadline := time.Now().Add(p.patience); ; {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s, it is not so that %s: %w", p.patience, what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted while waiting until %s: %w", what, err)
		case <-ticks.C:
		}
	}
}

// facts are what the report says about the cluster. It says nothing by which one finds the account or the cluster.
type facts struct {
	infraID, region       string
	openShift, kubernetes string
	topology, credentials string
	nodes                 []string
	zones                 []string
	// hasSCC says that SecurityContextConstraints give pods their user.
	hasSCC bool
	// endpoint says that a setting of AWS, such as AWS_ENDPOINT_URL, names another endpoint.
	endpoint bool
	// devcluster says that a node is of a devcluster.
	devcluster bool
	// simulated says that the nodes are those of a devcluster that run no container.
	simulated bool
	// operator and driver are the versions that were seen last.
	operator, driver string
}

func (p *proof) observe(ctx context.Context) error {
	if p.kubeconfig == "" || p.account == "" {
		return errors.New("name the cluster with KUBECONFIG=, and its AWS account with ACCOUNT=")
	}
	infrastructure := &configv1.Infrastructure{}
	if there, err := p.get(ctx, infrastructure, "infrastructures.config.openshift.io", "cluster"); err != nil {
		return err
	} else if status := infrastructure.Status.PlatformStatus; !there || status == nil || status.AWS == nil {
		return errors.New("the cluster is not OpenShift on AWS: its Infrastructure names no region of AWS")
	}
	f := &p.facts
	f.infraID, f.region = infrastructure.Status.InfrastructureName, infrastructure.Status.PlatformStatus.AWS.Region
	f.topology = string(infrastructure.Status.ControlPlaneTopology)
	var err error
	if f.endpoint, err = hasOtherEndpoint(ctx, f.region); err != nil {
		return err
	}
	version := &configv1.ClusterVersion{}
	if _, err := p.get(ctx, version, "clusterversions.config.openshift.io", "version"); err != nil {
		return err
	}
	f.openShift = version.Status.Desired.Version
	authentication := &configv1.Authentication{}
	if _, err := p.get(ctx, authentication, "authentications.config.openshift.io", "cluster"); err != nil {
		return err
	}
	if f.credentials = "keys"; authentication.Spec.ServiceAccountIssuer != "" {
		f.credentials = "STS"
	}
	scc, err := p.oc(ctx, "get", "securitycontextconstraints", "restricted-v2", "--ignore-not-found", "-o", "name")
	f.hasSCC = err == nil && scc != ""
	nodes := &corev1.NodeList{}
	if _, err := p.get(ctx, nodes, "nodes"); err != nil {
		return err
	}
	f.take(nodes.Items)
	if p.zone == "" && len(f.zones) > 0 {
		p.zone = f.zones[0]
	}
	return nil
}

// hasOtherEndpoint reports whether requests to a service go to another endpoint than AWS's own. A setting may be for one service only.
func hasOtherEndpoint(ctx context.Context, region string) (bool, error) {
	settings, err := config.LoadDefaultConfig(ctx, config.WithRegion(region))
	if err != nil {
		return false, err
	}
	return efs.NewFromConfig(settings).Options().BaseEndpoint != nil || ec2.NewFromConfig(settings).Options().BaseEndpoint != nil ||
		sts.NewFromConfig(settings).Options().BaseEndpoint != nil, nil
}

// take reads the nodes. Control planes that run no pods of users have no part in the proof.
func (f *facts) take(nodes []corev1.Node) {
	for i := range nodes {
		node := &nodes[i]
		f.kubernetes = node.Status.NodeInfo.KubeletVersion
		f.nodes = append(f.nodes, node.Labels[corev1.LabelArchStable])
		// devcluster/internal/openshift/nodes.go
		_, isReal := node.Labels["devcluster/real"]
		fake := node.Status.NodeInfo.OSImage == "fake node of a devcluster"
		f.devcluster = f.devcluster || isReal || fake
		if slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }) {
			continue
		}
		f.simulated = f.simulated || fake
		if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" && !slices.Contains(f.zones, zone) {
			f.zones = append(f.zones, zone)
		}
	}
	slices.Sort(f.zones)
}
