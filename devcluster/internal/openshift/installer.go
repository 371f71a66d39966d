package openshift

import (
	"context"
	"fmt"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	securityv1 "github.com/openshift/api/security/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
)

// pollInterval is the time between two checks of a wait.
const pollInterval = 50 * time.Millisecond

// Installer creates those objects of an OpenShift cluster that a plain control plane does not have.
type Installer struct {
	client  client.Client
	profile Profile
	url     string
	// plan is the network of the nodes with a kubelet. It is nil if the cluster has no such nodes.
	plan *node.Plan
}

// NewInstaller returns an installer for the cluster at the API URL.
func NewInstaller(config *rest.Config, profile Profile, url string, plan *node.Plan) (*Installer, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	mapper, err := newMapper(scheme)
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", url, err)
	}
	return &Installer{client: c, profile: profile, url: url, plan: plan}, nil
}

// NewScheme returns a scheme with the types of Kubernetes and of those OpenShift groups that devcluster uses.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, configv1.Install, operatorv1.Install, securityv1.Install,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register API types: %w", err)
		}
	}
	return scheme, nil
}

// CRDs creates the CRDs and waits until the API server serves them.
func (i *Installer) CRDs(ctx context.Context) error {
	all, err := crds(crdFiles)
	if err != nil {
		return err
	}
	for _, crd := range all {
		if err := i.client.Create(ctx, crd); err != nil {
			return fmt.Errorf("create CustomResourceDefinition %s: %w", crd.Name, err)
		}
	}
	waiting := all
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		list := &apiextensionsv1.CustomResourceDefinitionList{}
		if err := i.client.List(ctx, list); err != nil {
			return false, fmt.Errorf("list CustomResourceDefinitions: %w", err)
		}
		waiting = nil
		for n := range list.Items {
			if !established(&list.Items[n]) {
				waiting = append(waiting, &list.Items[n])
			}
		}
		return len(waiting) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the CRDs are served; missing are %s: %w", names(waiting), err)
	}
	return nil
}

// Objects creates the namespaces, the nodes and the configuration of the cluster. The CRDs must already exist.
func (i *Installer) Objects(ctx context.Context) error {
	p := i.profile
	objects := slices.Concat(p.namespaces(), p.nodes(), p.configuration(i.url), p.operators(), realNodes(i.plan))
	for _, object := range objects {
		if err := i.create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// create creates an object, and then sets its status. If the status is a subresource, the API server ignores the status in the creation.
func (i *Installer) create(ctx context.Context, object client.Object) error {
	full := object.DeepCopyObject().(client.Object)
	kind := fmt.Sprintf("%T", object)
	if err := i.client.Create(ctx, object); err != nil {
		return fmt.Errorf("create %s %s: %w", kind, full.GetName(), err)
	}
	if !hasStatus(full) {
		return nil
	}
	full.SetResourceVersion(object.GetResourceVersion())
	if err := i.client.Status().Update(ctx, full); err != nil {
		return fmt.Errorf("set the status of %s %s: %w", kind, full.GetName(), err)
	}
	return nil
}

func hasStatus(object client.Object) bool {
	switch object.(type) {
	case *configv1.Infrastructure, *configv1.FeatureGate, *configv1.ClusterVersion, *configv1.Proxy:
		return true
	default:
		return false
	}
}

// Wait returns when clients can create pods in the operators' namespaces, and the scheduler can place these pods.
func (i *Installer) Wait(ctx context.Context) error {
	missing := ""
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		var err error
		missing, err = i.missing(ctx)
		return missing == "" && err == nil, err
	})
	if err != nil && missing != "" {
		return fmt.Errorf("%s: %w", missing, err)
	}
	return err
}

func (i *Installer) missing(ctx context.Context) (string, error) {
	nodes := &corev1.NodeList{}
	if err := i.client.List(ctx, nodes); err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	for _, node := range nodes.Items {
		if !usable(node) {
			return fmt.Sprintf("node %s is not ready", node.Name), nil
		}
	}
	registrations := &storagev1.CSINodeList{}
	if err := i.client.List(ctx, registrations); err != nil {
		return "", fmt.Errorf("list CSINodes: %w", err)
	}
	if have := len(registrations.Items); have < len(nodes.Items) {
		return fmt.Sprintf("%d of %d nodes have a CSINode", have, len(nodes.Items)), nil
	}
	for _, namespace := range operatorNamespaces() {
		account := &corev1.ServiceAccount{}
		err := i.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, account)
		if apierrors.IsNotFound(err) || err == nil && len(account.ImagePullSecrets) == 0 {
			return fmt.Sprintf("ServiceAccount %s/default has no image pull secret", namespace), nil
		}
		if err != nil {
			return "", fmt.Errorf("get ServiceAccount %s/default: %w", namespace, err)
		}
		ca := &corev1.ConfigMap{}
		err = i.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "kube-root-ca.crt"}, ca)
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("ConfigMap %s/kube-root-ca.crt is missing", namespace), nil
		}
		if err != nil {
			return "", fmt.Errorf("get ConfigMap %s/kube-root-ca.crt: %w", namespace, err)
		}
	}
	return "", nil
}

// usable reports whether the scheduler can place pods on the node. A new node keeps a taint for a moment after it has become ready.
func usable(node corev1.Node) bool {
	tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return ready && !tainted
}
