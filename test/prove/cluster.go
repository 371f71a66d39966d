package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

// execute runs a program, and returns what it prints to its standard output. An interruption gives it time to end.
func (p *proof) execute(ctx context.Context, input string, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	// The program must not go on making things when this one is killed, and a Ctrl-C is not for it.
	env.OwnGroup(command)
	command.Cancel, command.WaitDelay = func() error { return command.Process.Signal(syscall.SIGTERM) }, 30*time.Second
	command.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := command.Run(); err != nil {
		said := strings.TrimSpace(stderr.String() + "\n" + stdout.String())
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, said)
	}
	return stdout.String(), nil
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
	// endpoint says that AWS_ENDPOINT_URL names another endpoint of AWS.
	endpoint bool
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
	settings, err := config.LoadDefaultConfig(ctx, config.WithRegion(f.region))
	if err != nil {
		return err
	}
	f.endpoint = settings.BaseEndpoint != nil
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

// take reads the nodes. Control planes that run no pods of users have no part in the proof.
func (f *facts) take(nodes []corev1.Node) {
	for i := range nodes {
		node := &nodes[i]
		f.kubernetes = node.Status.NodeInfo.KubeletVersion
		f.nodes = append(f.nodes, node.Labels[corev1.LabelArchStable])
		if slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }) {
			continue
		}
		// devcluster/internal/openshift/nodes.go
		f.simulated = f.simulated || node.Status.NodeInfo.OSImage == "fake node of a devcluster"
		if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" && !slices.Contains(f.zones, zone) {
			f.zones = append(f.zones, zone)
		}
	}
	slices.Sort(f.zones)
}
