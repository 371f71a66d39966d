package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

// peerAccount is the ServiceAccount of the peer, so that the audit log separates its requests from ours.
const peerAccount = "bench-peer"

// contestant is an operator to measure.
type contestant struct {
	// name is its column.
	name string
	// user is its name in the audit log.
	user string
	file string
	// asks is the resource that it asks for once it works.
	asks  string
	start func(context.Context, *env.Cluster, *cloud) (*env.Operator, error)
}

const (
	asksForDriver  = "clustercsidrivers"
	asksForVolumes = "sharedvolumes"
)

// ours is the operator of this repository, under the RBAC that is shipped.
func ours() (contestant, error) {
	file, err := env.Binary(env.OperatorName)
	return contestant{
		name: report.Ours, user: env.OperatorUser, file: file, asks: asksForDriver,
		start: func(ctx context.Context, cluster *env.Cluster, cloud *cloud) (*env.Operator, error) {
			cluster.Operator = env.OperatorName
			variables := []string{"LOOK_AT_AWS=false"}
			if cloud != nil {
				variables = fakeaws.With(cloud.proxy)
			}
			return cluster.StartOperator(ctx, []string{"--metrics-bind-address", "0"}, variables)
		},
	}, err
}

// peer is any other operator that follows the same ClusterCSIDriver. It gets all the variables that such operators
// read; what else it needs comes as arguments.
func peer(file string, args []string) contestant {
	return contestant{
		name: "peer", user: peerUser(), file: file, asks: asksForDriver,
		start: func(ctx context.Context, cluster *env.Cluster, _ *cloud) (*env.Operator, error) {
			kubeconfig, err := cluster.AccountKubeconfig(ctx, env.OperatorNamespace, peerAccount)
			if err != nil {
				return nil, err
			}
			base := []string{"start", "--kubeconfig", kubeconfig, "--namespace", env.OperatorNamespace}
			return env.RunFile(file, append(base, args...), []string{
				"TOOLS_IMAGE=registry.example/tools:1.0.0", "OPERATOR_NAME=" + env.OperatorName, "POD_NAME=" + peerAccount,
			})
		},
	}
}

// sharedPeer is any other operator that follows SharedVolumes. It is started as operators of its age are: without arguments of
// ours, and with all that they read in the environment.
func sharedPeer(file string, args []string) contestant {
	return contestant{
		name: report.SharedPeer, user: peerUser(), file: file, asks: asksForVolumes,
		start: func(ctx context.Context, cluster *env.Cluster, _ *cloud) (*env.Operator, error) {
			kubeconfig, err := cluster.AccountKubeconfig(ctx, env.OperatorNamespace, peerAccount)
			if err != nil {
				return nil, err
			}
			return env.RunFile(file, args, sharedPeerEnvironment(kubeconfig))
		},
	}
}

func sharedPeerEnvironment(kubeconfig string) []string {
	return []string{
		"KUBECONFIG=" + kubeconfig,
		// All namespaces.
		"WATCH_NAMESPACE=",
		"OPERATOR_NAME=aws-efs-operator", "OPERATOR_NAMESPACE=" + env.OperatorNamespace, "POD_NAME=" + peerAccount,
		// It does not run in a pod, so it needs no leader.
		"OPERATOR_RUN_MODE=local",
	}
}

func peerUser() string { return "system:serviceaccount:" + env.OperatorNamespace + ":" + peerAccount }

// installPeer lets the peer do everything, because nobody here knows which RBAC it needs.
func installPeer(ctx context.Context, cluster *env.Cluster) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: peerAccount}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: peerAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}
	for _, object := range []client.Object{account, binding} {
		if err := cluster.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s for the peer: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// describe says what a binary was built from. A script has to do with its hash.
func describe(c contestant) (report.Program, error) {
	content, err := os.ReadFile(c.file)
	if err != nil {
		return report.Program{}, fmt.Errorf("read the binary of %s: %w", c.name, err)
	}
	program := report.Program{
		Operator: c.name, File: filepath.Base(c.file), Go: "not Go",
		Version: fmt.Sprintf("sha256 %x", sha256.Sum256(content))[:len("sha256 ")+12],
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return program, nil //nolint:nilerr // It is no Go program.
	}
	program.Go = info.GoVersion
	changed := ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			program.Version = setting.Value[:min(12, len(setting.Value))]
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = "+changes"
		}
	}
	program.Version += changed
	return program, nil
}
