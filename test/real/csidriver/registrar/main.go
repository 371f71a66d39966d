// Program registrar stands in for kubernetes-csi/node-driver-registrar v2.15.0, of which no module is served: it registers a CSI driver with the
// kubelet, by the kubelet's own protocol. It takes the flags that the rendered pods have, and refuses all others, as the real one would.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func main() {
	address := flag.String("csi-address", "/run/csi/socket", "socket of the driver")
	endpoint := flag.String("kubelet-registration-path", "", "socket of the driver, as the kubelet sees it")
	folder := flag.String("plugin-registration-path", "/registration", "folder in which the kubelet looks for plugins")
	health := flag.String("http-endpoint", "", "address for /healthz")
	flag.Int("v", 0, "verbosity; it changes nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *address, *endpoint, *folder, *health); err != nil {
		fmt.Fprintln(os.Stderr, "registrar:", err)
		stop()
		os.Exit(1) //nolint:gocritic // What is deferred has been done.
	}
}

func run(ctx context.Context, address, endpoint, folder, health string) error {
	if endpoint == "" {
		return errors.New("--kubelet-registration-path is required")
	}
	name, err := driverName(ctx, address)
	if err != nil {
		return err
	}
	fmt.Println("driver", name)
	socket := filepath.Join(folder, name+"-reg.sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the last socket: %w", err)
	}
	// Only root may connect, who is also the kubelet.
	syscall.Umask(0o077)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("socket for the kubelet: %w", err)
	}
	r := &registrar{info: &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: name, Endpoint: endpoint, SupportedVersions: []string{"1.0.0"},
	}, refused: make(chan error, 1)}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, r)
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener) }()
	if health != "" {
		go func() { failed <- serveHealth(health, socket) }()
	}
	defer server.Stop()
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.refused:
		return err
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	}
}

// driverName asks the driver, and waits until it answers.
func driverName(ctx context.Context, address string) (string, error) {
	connection, err := grpc.NewClient("unix:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", fmt.Errorf("--csi-address: %w", err)
	}
	defer connection.Close()
	answer, err := csi.NewIdentityClient(connection).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return "", fmt.Errorf("ask the driver for its name: %w", err)
	}
	return answer.Name, nil
}

// serveHealth says that the program is well as long as the kubelet can find its socket.
func serveHealth(address, socket string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(socket); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Second}
	return server.ListenAndServe()
}

// registrar answers the kubelet.
type registrar struct {
	registration.UnimplementedRegistrationServer
	info    *registration.PluginInfo
	refused chan error
}

// GetInfo says where the driver is.
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	fmt.Println("the kubelet asks")
	return r.info, nil
}

// NotifyRegistrationStatus ends the program if the kubelet has not registered the driver: so the kubelet restarts it, and it tries again.
func (r *registrar) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	fmt.Println("registered", status.PluginRegistered, status.Error)
	if !status.PluginRegistered {
		select {
		case r.refused <- fmt.Errorf("the kubelet has not registered the driver: %s", status.Error):
		default:
		}
	}
	return &registration.RegistrationStatusResponse{}, nil
}
