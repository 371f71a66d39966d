package real

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// startProxy starts kube-rbac-proxy behind the certificate of its Service.
func (p *pod) startProxy(ctx context.Context, container corev1.Container) error {
	if err := p.servingCertificate(ctx, container); err != nil {
		return err
	}
	return p.startReleased(container, proxyName)
}

// servingCertificate writes the files of the Secret that the stand-in of service-ca makes for the rendered Service.
func (p *pod) servingCertificate(ctx context.Context, container corev1.Container) error {
	for _, volume := range p.spec.Volumes {
		if volume.Secret == nil || len(container.VolumeMounts) != 1 || container.VolumeMounts[0].Name != volume.Name {
			continue
		}
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: p.v.namespace(), Name: volume.Secret.SecretName}
		err := env.Await(ctx, "Secret of volume "+volume.Name, func() error { return suite.cluster.Client.Get(ctx, key, secret) })
		if err != nil {
			return err
		}
		folder := filepath.Join(p.folder, volume.Name)
		// The proxies of a pod share the volume: one that has started may be reading its files.
		if err := os.Mkdir(folder, 0o700); errors.Is(err, fs.ErrExist) {
			return nil
		} else if err != nil {
			return err
		}
		for name, content := range secret.Data {
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("it mounts no Secret with a serving certificate, and nothing else")
}

// serveMetrics answers at the address of the driver's own metrics until the pod ends: the proxy needs something behind it.
func (p *pod) serveMetrics(ctx context.Context, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("is another program at the pod's port? %w", err)
	}
	answer := http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		_, _ = writer.Write([]byte("# metrics of the driver\n"))
	})
	server := &http.Server{Handler: answer, ReadHeaderTimeout: 10 * time.Second}
	p.servers = append(p.servers, server)
	go func() { _ = server.Serve(listener) }()
	return nil
}
