package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// gibibyte is the size of a volume for which none is asked.
const gibibyte = 1 << 30

// attributes are the parameters that a VolumeAttributesClass can change: those of the classes in test/e2e/storage.
func attributes() []string {
	return []string{"iops", "throughput", "DiskIOPSReadWrite", "DiskMBpsReadWrite"}
}

// ControllerGetCapabilities says what the flag says.
func (d *driver) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, capability := range d.capabilities {
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: capability}},
		})
	}
	return answer, nil
}

// CreateVolume makes a volume, or finds the one that a request with this name has made.
func (d *driver) CreateVolume(_ context.Context, in *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := d.can(csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME); err != nil {
		return nil, err
	}
	if err := required("name", in.Name); err != nil {
		return nil, err
	}
	if len(in.VolumeCapabilities) == 0 {
		return nil, invalid("volume capabilities")
	}
	if err := d.storage.refuse(in.VolumeCapabilities); err != nil {
		return nil, err
	}
	if err := d.mutable(in.MutableParameters); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.checkSource(in.VolumeContentSource); err != nil {
		return nil, err
	}
	size := max(in.GetCapacityRange().GetRequiredBytes(), gibibyte)
	if id, known := d.names["volume "+in.Name]; known {
		found := d.volumes[id]
		if found.CapacityBytes < size || !proto.Equal(found.ContentSource, in.VolumeContentSource) {
			return nil, status.Errorf(codes.AlreadyExists, "volume %s is another one", in.Name)
		}
		return &csi.CreateVolumeResponse{Volume: found.Volume}, nil
	}
	made := &csi.Volume{VolumeId: d.volumeID(), CapacityBytes: size, ContentSource: in.VolumeContentSource}
	if d.topology != nil {
		if !d.reachable(in.AccessibilityRequirements) {
			return nil, status.Errorf(codes.ResourceExhausted, "volumes can only be in %s", d.topology.Segments)
		}
		made.AccessibleTopology = []*csi.Topology{d.topology}
	}
	if err := d.storage.create(made.VolumeId, in.VolumeContentSource, size); err != nil {
		return nil, internal(err)
	}
	d.volumes[made.VolumeId], d.names["volume "+in.Name] = &volume{Volume: made, attributes: in.MutableParameters}, made.VolumeId
	// kubernetes-sigs/vsphere-csi-driver bf8090256, pkg/csi/service/vanilla/controller.go:999: the path, for CSI migration only.
	if d.path != "" && in.Parameters["csimigration"] == "true" {
		path := strings.Replace(d.path, "%s", made.VolumeId, 1)
		d.volumes[made.VolumeId].path, made.VolumeContext = path, map[string]string{"initialvolumefilepath": path}
	}
	return &csi.CreateVolumeResponse{Volume: made}, nil
}

// mutable refuses parameters that can't be changed.
func (d *driver) mutable(parameters map[string]string) error {
	if len(parameters) == 0 {
		return nil
	}
	if err := d.can(csi.ControllerServiceCapability_RPC_MODIFY_VOLUME); err != nil {
		return err
	}
	for name := range parameters {
		if !slices.Contains(attributes(), name) {
			return status.Errorf(codes.InvalidArgument, "parameter %s can't be changed", name)
		}
	}
	return nil
}

// checkSource returns an error if there is nothing to copy.
func (d *driver) checkSource(source *csi.VolumeContentSource) error {
	if id := source.GetSnapshot().GetSnapshotId(); id != "" {
		if err := d.can(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT); err != nil {
			return err
		}
		if d.snapshots[id] == nil {
			return status.Errorf(codes.NotFound, "there is no snapshot %s", id)
		}
	}
	if id := source.GetVolume().GetVolumeId(); id != "" {
		if err := d.can(csi.ControllerServiceCapability_RPC_CLONE_VOLUME); err != nil {
			return err
		}
		if _, err := d.find(id); err != nil {
			return err
		}
	}
	return nil
}

// reachable reports whether volumes of this driver can be where one is asked for.
func (d *driver) reachable(requirement *csi.TopologyRequirement) bool {
	wanted := requirement.GetRequisite()
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(topology *csi.Topology) bool {
		for key, value := range topology.Segments {
			if d.nodeTopology.Segments[key] != value {
				return false
			}
		}
		return true
	})
}

// DeleteVolume deletes a volume, if it is there.
func (d *driver) DeleteVolume(_ context.Context, in *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if err := required("volume ID", in.VolumeId); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id := d.known(in.VolumeId)
	if found := d.volumes[id]; found != nil && found.published != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached", id)
	}
	if err := d.storage.remove(id); err != nil {
		return nil, internal(err)
	}
	delete(d.volumes, id)
	d.forget(id)
	return &csi.DeleteVolumeResponse{}, nil
}

func (d *driver) forget(id string) {
	maps.DeleteFunc(d.names, func(_, of string) bool { return of == id })
}

// find returns a volume, or an error if there is none.
func (d *driver) find(id string) (*volume, error) {
	if found := d.volumes[d.known(id)]; found != nil {
		return found, nil
	}
	return nil, status.Errorf(codes.NotFound, "there is no volume %s", id)
}

// ValidateVolumeCapabilities says that a volume can be used in every way.
func (d *driver) ValidateVolumeCapabilities(
	_ context.Context, in *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if err := required("volume ID", in.VolumeId); err != nil {
		return nil, err
	}
	if len(in.VolumeCapabilities) == 0 {
		return nil, invalid("volume capabilities")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.find(in.VolumeId); err != nil {
		return nil, err
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeCapabilities: in.VolumeCapabilities,
	}}, nil
}

// ControllerPublishVolume attaches a volume.
func (d *driver) ControllerPublishVolume(
	_ context.Context, in *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	if err := d.can(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME); err != nil {
		return nil, err
	}
	if err := required("volume ID", in.VolumeId, "node ID", in.NodeId); err != nil {
		return nil, err
	}
	if in.VolumeCapability == nil {
		return nil, invalid("volume capability")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.find(in.VolumeId)
	if err != nil {
		return nil, err
	}
	if in.NodeId != d.node && !d.recorded {
		return nil, status.Errorf(codes.NotFound, "there is no node %s", in.NodeId)
	}
	if before := found.published; before != nil &&
		(before.Readonly != in.Readonly || !proto.Equal(before.VolumeCapability, in.VolumeCapability)) {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s is attached otherwise", in.VolumeId)
	}
	found.published = in
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"devicePath": "/dev/" + in.VolumeId}}, nil
}

// ControllerUnpublishVolume detaches a volume, if it is attached.
func (d *driver) ControllerUnpublishVolume(
	_ context.Context, in *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	if err := d.can(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME); err != nil {
		return nil, err
	}
	if err := required("volume ID", in.VolumeId); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.volumes[d.known(in.VolumeId)]; found != nil {
		found.published = nil
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// ListVolumes lists volumes, with the nodes to which they are attached.
func (d *driver) ListVolumes(_ context.Context, in *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	if err := d.can(csi.ControllerServiceCapability_RPC_LIST_VOLUMES); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found, next, err := page(d.volumes, in.StartingToken, in.MaxEntries)
	if err != nil {
		return nil, err
	}
	answer := &csi.ListVolumesResponse{NextToken: next}
	for _, volume := range found {
		entry := &csi.ListVolumesResponse_Entry{Volume: volume.Volume, Status: &csi.ListVolumesResponse_VolumeStatus{}}
		if volume.path != "" {
			// Such a volume is listed by its path: controller.go:2258 there.
			entry.Volume = &csi.Volume{VolumeId: volume.path, CapacityBytes: volume.CapacityBytes}
		}
		if volume.published != nil {
			entry.Status.PublishedNodeIds = []string{volume.published.NodeId}
		}
		answer.Entries = append(answer.Entries, entry)
	}
	return answer, nil
}

// ControllerExpandVolume makes a volume larger. Its file system needs nothing to be done on the node, unless the volume is a disk.
func (d *driver) ControllerExpandVolume(_ context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if err := d.can(csi.ControllerServiceCapability_RPC_EXPAND_VOLUME); err != nil {
		return nil, err
	}
	if err := required("volume ID", in.VolumeId); err != nil {
		return nil, err
	}
	if in.CapacityRange == nil {
		return nil, invalid("capacity range")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.find(in.VolumeId)
	if err != nil {
		return nil, err
	}
	size := max(found.CapacityBytes, in.CapacityRange.RequiredBytes)
	if err := d.storage.grow(found.VolumeId, size); err != nil {
		return nil, internal(err)
	}
	found.CapacityBytes = size
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: d.storage != nil && d.storage.disks}, nil
}

// ControllerModifyVolume changes the attributes of a volume.
func (d *driver) ControllerModifyVolume(_ context.Context, in *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	if err := required("volume ID", in.VolumeId); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.find(in.VolumeId)
	if err != nil {
		return nil, err
	}
	if err := d.mutable(in.MutableParameters); err != nil {
		return nil, err
	}
	found.attributes = in.MutableParameters
	return &csi.ControllerModifyVolumeResponse{}, nil
}
