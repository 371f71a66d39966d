// Program csidriver is a CSI driver whose volumes are entries of a map. It stands in for drivers of clouds, so that the real sidecars have
// somebody to talk to. The official test of CSI drivers, csi-sanity, holds it to the specification.
//
// With --record it takes the place of a driver in a pod: see record. With --storage or --share it keeps what is written to volumes: see storage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

func main() {
	d := newDriver()
	var endpoint, controller, topology string
	flag.StringVar(&endpoint, "endpoint", "", "path of the socket")
	flag.StringVar(&d.name, "name", "", "CSI name")
	flag.StringVar(&d.node, "node", "", "node ID; volumes can be attached to this node only")
	flag.StringVar(&controller, "capabilities", "", "capabilities of the controller service, as in the specification, separated by commas")
	flag.StringVar(&topology, "topology", "", "KEY=VALUE: where all volumes are, and after commas what the node says besides; without it the driver knows no topology")
	flag.IntVar(&d.stumbles, "stumbles", 0, "how often the making of each snapshot fails before it succeeds")
	flag.StringVar(&d.handle, "handle", "", "form of the IDs of volumes, with %s for what is unique")
	flag.StringVar(&d.path, "path", "", "form of the paths of volumes that CSI migration asks for, with %s for the ID, as vSphere's in-tree volumes have them")
	recorded := flag.Bool("record", false, "take any arguments after --, as a driver whose program is not at hand")
	folder := flag.String("storage", "", "folder that keeps what is written to volumes; without it nothing does")
	disks := flag.Bool("disks", false, "with --storage or --share: volumes are disks with file systems, and not folders")
	shared := flag.String("share", "", "with --record: IP:PORT of the node, where the pods of the controller and of the node meet; they keep what is written")
	metrics := flag.String("metrics", "", "with --record: addresses of metrics that no argument names, separated by commas")
	flag.Parse()
	if *recorded {
		var err error
		if endpoint, err = d.record(context.Background(), flag.Args(), strings.FieldsFunc(*metrics, isComma)); err != nil {
			exit(err)
		}
		if endpoint == "" {
			wait()
			return
		}
	}
	if err := d.configure(controller, topology); err != nil {
		exit(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(report, d.forward))
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterNodeServer(server, d)
	if *folder != "" {
		var err error
		if d.storage, err = newStorage(*folder, *disks); err != nil {
			exit(err)
		}
	}
	if *shared != "" {
		if err := d.share(context.Background(), server, *shared, endpoint, *disks); err != nil {
			exit(err)
		}
	}
	if err := serve(server, endpoint); err != nil {
		exit(err)
	}
}

func isComma(r rune) bool { return r == ',' }

// wait returns when a signal asks the process to end.
func wait() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, "csidriver:", err)
	os.Exit(1)
}

// configure checks the flags.
func (d *driver) configure(capabilities, topology string) error {
	if d.name == "" || d.node == "" {
		return errors.New("--name and --node are required")
	}
	for _, name := range strings.Split(capabilities, ",") {
		value, known := csi.ControllerServiceCapability_RPC_Type_value[name]
		if !known {
			return fmt.Errorf("--capabilities: the specification has no %q", name)
		}
		d.capabilities = append(d.capabilities, csi.ControllerServiceCapability_RPC_Type(value))
	}
	if topology == "" {
		return nil
	}
	d.nodeTopology = &csi.Topology{Segments: map[string]string{}}
	for _, segment := range strings.Split(topology, ",") {
		key, value, found := strings.Cut(segment, "=")
		if !found || key == "" || value == "" {
			return fmt.Errorf("--topology is KEY=VALUE, not %q", segment)
		}
		d.nodeTopology.Segments[key] = value
		if d.topology == nil {
			d.topology = &csi.Topology{Segments: map[string]string{key: value}}
		}
	}
	return nil
}

// serve answers calls until a signal ends the process.
func serve(server *grpc.Server, endpoint string) error {
	// One that was killed leaves its socket.
	if err := os.Remove(endpoint); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the old socket: %w", err)
	}
	listener, err := net.Listen("unix", endpoint)
	if err != nil {
		return fmt.Errorf("--endpoint: %w", err)
	}
	go func() {
		wait()
		server.Stop()
	}()
	if err := server.Serve(listener); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
