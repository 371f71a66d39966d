// Program livenessprobe stands in for kubernetes-csi/livenessprobe v2.17.0, of which no module is served: for each GET of /healthz it connects to a
// CSI driver and calls Probe. It takes the flags that the rendered pods have, and refuses all others, as the real one would.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	address := flag.String("csi-address", "/run/csi/socket", "socket of the driver")
	endpoint := flag.String("http-endpoint", "", "address for /healthz")
	timeout := flag.Duration("probe-timeout", time.Second, "how long the driver may take")
	flag.Int("v", 0, "verbosity; it changes nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, *address, *endpoint, *timeout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "livenessprobe:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, endpoint string, timeout time.Duration) error {
	if endpoint == "" {
		return errors.New("--http-endpoint is required")
	}
	// Before the driver answers for the first time, there is nothing to ask.
	if err := probe(ctx, address, grpc.WaitForReady(true)); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, request *http.Request) {
		ctx, cancel := context.WithTimeout(request.Context(), timeout)
		defer cancel()
		if err := probe(ctx, address); err != nil {
			fmt.Println(err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "ok")
	})
	server := &http.Server{Addr: endpoint, Handler: mux, ReadHeaderTimeout: time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return fmt.Errorf("--http-endpoint: %w", err)
	}
}

// probe calls Probe on a connection of its own, so that a driver which hangs with an old one is found.
func probe(ctx context.Context, address string, options ...grpc.CallOption) error {
	connection, err := grpc.NewClient("unix:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("--csi-address: %w", err)
	}
	defer connection.Close()
	answer, err := csi.NewIdentityClient(connection).Probe(ctx, &csi.ProbeRequest{}, options...)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	// A driver that does not say whether it is ready is.
	if answer.GetReady() != nil && !answer.GetReady().GetValue() {
		return errors.New("probe: the driver says that it is not ready")
	}
	return nil
}
