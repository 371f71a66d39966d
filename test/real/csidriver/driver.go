package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// driver implements all three services of the specification.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	name, node   string
	capabilities []csi.ControllerServiceCapability_RPC_Type
	// topology is where volumes are. That of the node may have further keys, with the same place in other words.
	topology, nodeTopology *csi.Topology
	stumbles               int
	// handle is the form of the IDs of volumes, with %s for what is unique.
	handle string
	// path is the form of the paths that in-tree volumes of vSphere have in place of an ID, with %s for the ID.
	path string
	// recorded says that it runs in a pod: it attaches volumes to any node, and mounts them.
	recorded bool
	// storage keeps what is written to volumes; nil if nothing does.
	storage *storage
	// far is the driver of the node's pod, which keeps the volumes; nil if this one does.
	far *grpc.ClientConn

	mu        sync.Mutex
	last      int
	volumes   map[string]*volume
	snapshots map[string]*csi.Snapshot
	// names are those of the requests that made volumes and snapshots, which are found again by them.
	names map[string]string
	// failed counts the snapshots that were not made, by the name of the request.
	failed map[string]int
}

type volume struct {
	*csi.Volume
	attributes map[string]string
	// path is what the PersistentVolume has in place of the ID, if CSI migration asked for the volume.
	path string
	// published is set while the volume is attached.
	published *csi.ControllerPublishVolumeRequest
}

func newDriver() *driver {
	return &driver{volumes: map[string]*volume{}, snapshots: map[string]*csi.Snapshot{}, names: map[string]string{}, failed: map[string]int{}}
}

// report prints each call with its outcome.
func report(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, request)
	fmt.Println(info.FullMethod, status.Code(err), request)
	return answer, err
}

// invalid is the error for a request that lacks something.
func invalid(what string) error {
	return status.Error(codes.InvalidArgument, "the request has no "+what)
}

// required returns an error that names the first empty value of pairs of name and value.
func required(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return invalid(pairs[i])
		}
	}
	return nil
}

// can returns an error for a call that the driver has not said it can answer.
func (d *driver) can(capability csi.ControllerServiceCapability_RPC_Type) error {
	if slices.Contains(d.capabilities, capability) {
		return nil
	}
	return status.Errorf(codes.Unimplemented, "this driver has no capability %s", capability)
}

// identity makes an ID that no volume and no snapshot has had. What a driver before this one has kept still has its ID.
func (d *driver) identity(kind string) string {
	for {
		d.last++
		id := kind + "-" + strconv.Itoa(d.last)
		if d.storage == nil || d.kept(id) != nil {
			return id
		}
	}
}

// volumeID makes the ID of a new volume.
func (d *driver) volumeID() string {
	return strings.Replace(cmp.Or(d.handle, "%s"), "%s", d.identity("vol"), 1)
}

// known returns the ID of the volume that a request means. CSI migration makes the ID of an in-tree volume anew, and not all of its parts are in
// the PersistentVolume. So real drivers look only at some parts, and this one at the unique part.
func (d *driver) known(id string) string {
	unique := regexp.MustCompile(`vol-[0-9]+`).FindString(id)
	if d.handle == "" || unique == "" {
		return id
	}
	return strings.Replace(d.handle, "%s", unique, 1)
}

// page returns the entries from a token on, as many as are asked for, and the token of the next page.
func page[T any](all map[string]T, token string, most int32) (found []T, next string, err error) {
	from := 0
	if token != "" {
		if from, err = strconv.Atoi(token); err != nil || from < 0 || from > len(all) {
			return nil, "", status.Errorf(codes.Aborted, "no page begins at %q", token)
		}
	}
	keys := slices.Sorted(maps.Keys(all))[from:]
	if most > 0 && int(most) < len(keys) {
		keys, next = keys[:most], strconv.Itoa(from+int(most))
	}
	for _, key := range keys {
		found = append(found, all[key])
	}
	return found, next, nil
}

// GetPluginInfo says the driver's name.
func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1.0.0"}, nil
}

// Probe says that the driver is well.
func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// GetPluginCapabilities says whether volumes can be reached from everywhere, and whether they can grow while they are used.
func (d *driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	services := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if d.topology != nil {
		services = append(services, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	answer := &csi.GetPluginCapabilitiesResponse{}
	for _, service := range services {
		answer.Capabilities = append(answer.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: service}},
		})
	}
	if d.can(csi.ControllerServiceCapability_RPC_EXPAND_VOLUME) == nil {
		answer.Capabilities = append(answer.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{
			VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE},
		}})
	}
	return answer, nil
}
