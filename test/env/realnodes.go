package env

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// LoadImages gives all real nodes the images of an OCI archive.
func (c *Cluster) LoadImages(ctx context.Context, archive string) error {
	_, err := c.run(ctx, "load-images", "--dir", c.Dir, archive)
	return err
}

// nodeProcess begins the name of a real node's first process.
const nodeProcess = "node-"

// Registries is what the real nodes of a cluster know about registries.
type Registries struct {
	// Mirrors are where a node pulls from, as HOST:PORT, by the registry that an image names.
	Mirrors map[string]string
	// CA is the certificate of the authority that signs those of the mirrors.
	CA []byte
	// Login is USER:PASSWORD for all of them.
	Login string
}

// UseRegistries tells all real nodes about registries: containerd about mirrors and their CA, and the kubelet about the pull secret. Each reads its
// own files, which OpenShift's machine-config-operator writes. The kubelet keeps a pull secret for minutes, so call this before the first pod.
func (c *Cluster) UseRegistries(registries Registries) error {
	state, err := c.state()
	if err != nil {
		return err
	}
	secret := map[string]any{}
	for host := range registries.Mirrors {
		secret[host] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(registries.Login))}
	}
	config, err := json.Marshal(map[string]any{"auths": secret})
	if err != nil {
		return err
	}
	found := false
	for _, process := range state.Processes {
		if !strings.HasPrefix(process.Name, nodeProcess) {
			continue
		}
		found = true
		root := fmt.Sprintf("/proc/%d/root", process.PID)
		if err := registries.write(filepath.Join(root, "etc/containerd/certs.d")); err != nil {
			return err
		}
		// Kubernetes v1.36.3, pkg/credentialprovider/config.go: config.json in the kubelet's folder.
		if err := os.WriteFile(filepath.Join(root, "var/lib/kubelet/config.json"), config, 0o600); err != nil {
			return fmt.Errorf("pull secret: %w", err)
		}
	}
	if !found {
		return errors.New("the cluster has no real node")
	}
	return nil
}

// write writes what containerd reads at each pull (containerd v2.2.1, internal/cri/config/config_unix.go, and docs/hosts.md).
func (r Registries) write(folder string) error {
	for host, mirror := range r.Mirrors {
		own := filepath.Join(folder, host)
		if err := os.MkdirAll(own, 0o700); err != nil {
			return fmt.Errorf("registry %s: %w", host, err)
		}
		text := fmt.Sprintf("server = \"https://%s\"\n[host.\"https://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = \"ca.pem\"\n", host, mirror)
		for name, content := range map[string][]byte{"hosts.toml": []byte(text), "ca.pem": r.CA} {
			if err := os.WriteFile(filepath.Join(own, name), content, 0o600); err != nil {
				return fmt.Errorf("registry %s: %w", host, err)
			}
		}
	}
	return nil
}

// Host is the address of this machine for real nodes.
func (c *Cluster) Host() (string, error) {
	state, err := c.state()
	if err == nil && state.Network.Host == "" {
		err = errors.New("the cluster has no address for real nodes")
	}
	return state.Network.Host, err
}

// RealNodesMissing is the sentence that says why this machine can't run real nodes; empty if it can.
func RealNodesMissing(ctx context.Context) (string, error) {
	binary, err := Binary("devcluster")
	if err != nil {
		return "", err
	}
	output, err := exec.CommandContext(ctx, binary, "real-nodes-check").CombinedOutput()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return strings.TrimSpace(string(output)), nil
	}
	return "", err
}
