package node

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/csi-operators/csi-operators/devcluster/internal/pki"
)

//go:embed files
var files embed.FS

// values fill in the templates of the node's files.
type values struct {
	Config

	NodeIP, PodCIDR, PodsCIDR, DNS, Domain, Tools string
}

// writeFiles writes the configuration of the node's programs below the node's root. The certificates are new at each start.
func writeFiles(c Config) error {
	ca, err := os.ReadFile(c.CA)
	if err != nil {
		return fmt.Errorf("read the cluster's authority: %w", err)
	}
	key, err := os.ReadFile(c.CAKey)
	if err != nil {
		return fmt.Errorf("read the cluster's authority: %w", err)
	}
	authority, err := pki.LoadAuthority(pki.Pair{Cert: ca, Key: key})
	if err != nil {
		return err
	}
	client, err := authority.Client("system:node:"+c.Name, "system:nodes")
	if err != nil {
		return err
	}
	serving, err := authority.Serving(c.Name, c.Name, c.Plan.Node(c.Index).String(), "127.0.0.1")
	if err != nil {
		return err
	}
	kubelet, err := c.kubeconfig(ca, &clientcmdapi.AuthInfo{ClientCertificateData: client.Cert, ClientKeyData: client.Key})
	if err != nil {
		return err
	}
	proxy, err := c.proxyKubeconfig(ca)
	if err != nil {
		return err
	}
	v := values{
		Config: c, NodeIP: c.Plan.Node(c.Index).String(), PodCIDR: c.Plan.Pods(c.Index).String(), PodsCIDR: c.Plan.Block.String(),
		DNS: DNSAddress, Domain: Domain, Tools: programDir,
	}
	if err := v.write(); err != nil {
		return err
	}
	return c.writeAll(map[string][]byte{
		etcDir + "/kubelet.kubeconfig": kubelet, etcDir + "/kube-proxy.kubeconfig": proxy,
		etcDir + "/ca.crt": ca, etcDir + "/kubelet.crt": serving.Cert, etcDir + "/kubelet.key": serving.Key,
		etcDir + "/address": []byte(v.NodeIP),
		"/etc/hostname":     []byte(c.Name + "\n"),
		"/etc/hosts":        fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n", v.NodeIP, c.Name),
		// The pods and the programs of the node use the same DNS. This DNS asks no other server, so its answers are fast.
		"/etc/resolv.conf": fmt.Appendf(nil, "nameserver %s\n", c.Plan.API),
	})
}

// proxyKubeconfig returns the kubeconfig of kube-proxy, with the address at which the node reaches the API server.
func (c Config) proxyKubeconfig(ca []byte) ([]byte, error) {
	given, err := clientcmd.LoadFromFile(c.ProxyKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of kube-proxy: %w", err)
	}
	for _, user := range given.AuthInfos {
		return c.kubeconfig(ca, user)
	}
	return nil, fmt.Errorf("%s has no user", c.ProxyKubeconfig)
}

func (c Config) kubeconfig(ca []byte, user *clientcmdapi.AuthInfo) ([]byte, error) {
	const name = "devcluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.Plan.URL(), CertificateAuthorityData: ca}
	config.AuthInfos[name] = user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode a kubeconfig of the node: %w", err)
	}
	return data, nil
}

// write fills in the templates.
func (v values) write() error {
	all, err := template.ParseFS(files, "files/*")
	if err != nil {
		return fmt.Errorf("read the templates of a node's files: %w", err)
	}
	written := map[string][]byte{}
	for _, t := range all.Templates() {
		var text bytes.Buffer
		if err := t.Execute(&text, v); err != nil {
			return fmt.Errorf("write %s: %w", t.Name(), err)
		}
		path := filepath.Join(etcDir, t.Name())
		if filepath.Ext(path) == ".conflist" {
			path = filepath.Join(etcDir, "cni", t.Name())
		}
		written[path] = text.Bytes()
	}
	return v.writeAll(written)
}

// writeAll writes files of the node.
func (c Config) writeAll(all map[string][]byte) error {
	for name, data := range all {
		if err := unlink(c.root(), name); err != nil {
			return fmt.Errorf("write %s of the node: %w", name, err)
		}
		path := filepath.Join(c.root(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write %s of the node: %w", name, err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return fmt.Errorf("write %s of the node: %w", name, err)
		}
	}
	return nil
}
