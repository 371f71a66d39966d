package fakeolm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// pod is the process that stands for the one pod of an operator's Deployment.
type pod struct {
	// name is that of the Deployment, command what its container must run, and binary the program that is run; none means ours.
	name, command, binary string
	process               *env.Operator
	// template is what the process was started by, and namespace where.
	template, namespace string
}

// follow makes the process what the Deployment in a namespace asks for. As with strategy Recreate, the old one has
// ended before a new one starts. What is in other namespaces stays.
func (p *pod) follow(ctx context.Context, cluster *env.Cluster, namespace string) error {
	deployment := &appsv1.Deployment{}
	err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.name}, deployment)
	if apierrors.IsNotFound(err) {
		if p.namespace != namespace {
			return nil
		}
		return p.stop()
	}
	if err != nil {
		return err
	}
	template, err := json.Marshal(deployment.Spec.Template)
	if err != nil {
		return fmt.Errorf("pod template: %w", err)
	}
	if p.process != nil && p.template == string(template) && p.namespace == namespace {
		return nil
	}
	if err := p.stop(); err != nil {
		return err
	}
	p.template, p.namespace = string(template), namespace
	p.process, err = startPod(ctx, cluster, namespace, *p, deployment.Spec.Template.Spec)
	return err
}

func (p *pod) stop() error {
	process := p.process
	p.process, p.template, p.namespace = nil, "", ""
	if process == nil {
		return nil
	}
	return process.Stop()
}

// startPod runs the operator's program with the arguments and the environment of a pod, and nothing else of this process'
// environment; but it reaches no AWS. A process outside a pod needs an address and a token of the API server and its namespace as flags,
// shares its ports with others, and has no volume with a certificate for the metrics, so that they are served without.
func startPod(ctx context.Context, c *env.Cluster, namespace string, wanted pod, spec corev1.PodSpec) (*env.Operator, error) {
	if len(spec.Containers) != 1 {
		return nil, fmt.Errorf("the operator's pod has %d containers", len(spec.Containers))
	}
	container := spec.Containers[0]
	if !slices.Equal(container.Command, []string{wanted.command}) || len(container.Args) == 0 || container.Args[0] != "start" {
		return nil, fmt.Errorf("command %v with arguments %v is not how the operator starts", container.Command, container.Args)
	}
	environment := append(env.NoAWS(), env.HaltOnRace)
	for _, variable := range container.Env {
		if from := variable.ValueFrom; from != nil {
			if from.FieldRef == nil || from.FieldRef.FieldPath != "metadata.uid" {
				return nil, errors.New("the stand-in has no value for " + variable.Name)
			}
			// Each start is another pod.
			variable.Value = string(uuid.NewUUID())
		}
		environment = append(environment, variable.Name+"="+variable.Value)
	}
	args := slices.DeleteFunc(slices.Clone(container.Args[1:]), func(arg string) bool { return strings.HasPrefix(arg, "--metrics-cert-dir") })
	binary := wanted.binary
	if binary == "" {
		var err error
		if binary, err = env.Binary(c.Operator); err != nil {
			return nil, err
		}
	}
	return c.OutsidePod(ctx, binary, namespace, spec.ServiceAccountName, args, environment)
}
