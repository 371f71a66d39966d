package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// record makes the driver a recorder, in place of a driver that no module proxy serves. It prints the arguments of its pod, accepts all of them, and
// listens where the real driver would. It attaches volumes to any node, and mounts them. A program without a CSI name is no driver, and has no
// endpoint.
func (d *driver) record(ctx context.Context, args, metrics []string) (endpoint string, err error) {
	fmt.Printf("recorded arguments %q\n", args)
	d.recorded = true
	values := map[string]string{}
	for i, argument := range args {
		name, value, found := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if !found && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			value = args[i+1]
		}
		values[name] = value
	}
	if address := cmp.Or(values["http-endpoint"], values["metrics-address"]); address != "" {
		metrics = append(metrics, address)
	}
	if os.Getenv("X_CSI_MODE") == "node" { //nolint:forbidigo // It has the settings of the driver that it stands in for.
		// The driver of vSphere has metrics in its controller only.
		metrics = nil
	}
	for _, address := range metrics {
		if err := serveMetrics(ctx, address); err != nil {
			return "", err
		}
	}
	if d.name == "" {
		return "", nil
	}
	endpoint = cmp.Or(values["endpoint"], os.Getenv("CSI_ENDPOINT")) //nolint:forbidigo // As above.
	if endpoint == "" {
		return "", errors.New("neither --endpoint nor CSI_ENDPOINT says where to listen")
	}
	if d.node == "" {
		if d.node, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("name of the node: %w", err)
		}
	}
	return strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix://"), "unix:"), nil
}

// serveMetrics answers as drivers do that have one metric.
func serveMetrics(ctx context.Context, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "# TYPE recorder_up gauge\nrecorder_up 1")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { fmt.Println("metrics:", server.Serve(listener)) }()
	return nil
}
