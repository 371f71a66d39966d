package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// kubelet is the folder of the kubelet, which node pods mount, and the pods of controllers do not.
const kubelet = "/var/lib/kubelet"

// share makes one driver of the pods of a controller and of a node. The node's pod keeps the volumes in the folder of its socket, and listens at the
// address. The controller's pod passes its calls on.
func (d *driver) share(ctx context.Context, server *grpc.Server, address, endpoint string, disks bool) error {
	if _, err := os.Stat(kubelet); err != nil {
		d.far, err = grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		return err
	}
	var err error
	if d.storage, err = newStorage(filepath.Join(filepath.Dir(endpoint), "volumes"), disks); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--share: %w", err)
	}
	go func() { fmt.Println("share:", server.Serve(listener)) }()
	return nil
}

// forward passes calls of the controller service to the driver that keeps the volumes. The driver answers ControllerGetCapabilities itself, because
// sidecars make this call before a node has a pod.
func (d *driver) forward(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	name, is := strings.CutPrefix(info.FullMethod, "/csi.v1.Controller/")
	if d.far == nil || !is || name == "ControllerGetCapabilities" {
		return handler(ctx, request)
	}
	method := csi.File_csi_proto.Services().ByName("Controller").Methods().ByName(protoreflect.Name(name))
	if method == nil {
		return nil, status.Errorf(codes.Unimplemented, "the specification has no %s", name)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	answer := kind.New().Interface()
	if err := d.far.Invoke(ctx, info.FullMethod, request, answer); err != nil {
		return nil, err
	}
	return answer, nil
}
