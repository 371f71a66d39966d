package main

import (
	"context"
	"errors"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeGetInfo says which node this is.
func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node, AccessibleTopology: d.nodeTopology}, nil
}

// NodeGetCapabilities says that the node service does no more than it must, unless volumes are disks: these are attached once for all pods of a node,
// and their file systems grow there.
func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	answer := &csi.NodeGetCapabilitiesResponse{}
	if d.storage == nil || !d.storage.disks {
		return answer, nil
	}
	capabilities := []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	if d.can(csi.ControllerServiceCapability_RPC_EXPAND_VOLUME) == nil {
		capabilities = append(capabilities, csi.NodeServiceCapability_RPC_EXPAND_VOLUME)
	}
	for _, capability := range capabilities {
		answer.Capabilities = append(answer.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: capability}},
		})
	}
	return answer, nil
}

// NodeStageVolume attaches a disk, and mounts its file system unless the volume is a device.
func (d *driver) NodeStageVolume(_ context.Context, in *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if err := required("volume ID", in.VolumeId, "staging target path", in.StagingTargetPath); err != nil {
		return nil, err
	}
	if in.VolumeCapability == nil {
		return nil, invalid("volume capability")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.kept(in.VolumeId); err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, internal(d.storage.stage(in.VolumeId, in.StagingTargetPath, in.VolumeCapability))
}

// NodeUnstageVolume undoes NodeStageVolume.
func (d *driver) NodeUnstageVolume(_ context.Context, in *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if err := required("volume ID", in.VolumeId, "staging target path", in.StagingTargetPath); err != nil {
		return nil, err
	}
	if d.storage == nil {
		return &csi.NodeUnstageVolumeResponse{}, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := unmountVolume(in.StagingTargetPath); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, internal(d.storage.detach(in.VolumeId))
}

// NodeExpandVolume makes an attached disk as large as its file, and then the file system.
func (d *driver) NodeExpandVolume(_ context.Context, in *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if err := required("volume ID", in.VolumeId, "volume path", in.VolumePath); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.kept(in.VolumeId); err != nil {
		return nil, err
	}
	size, err := d.storage.expand(in.VolumeId, in.VolumePath)
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, internal(err)
}

// kept returns an error if there is no volume whose content is kept.
func (d *driver) kept(id string) error {
	if d.storage == nil {
		return status.Error(codes.Unimplemented, "this driver keeps nothing: it has no --storage")
	}
	if _, err := os.Stat(d.storage.path(id)); err != nil {
		return status.Errorf(codes.NotFound, "there is no volume %s: %v", id, err)
	}
	return nil
}

// internal is the specification's code for errors of the system.
func internal(err error) error {
	if err == nil || status.Code(err) != codes.Unknown {
		return err
	}
	return status.Error(codes.Internal, err.Error())
}

// NodePublishVolume makes the folder. In a pod it mounts a file system there: what the volume holds, or an empty one without --storage.
func (d *driver) NodePublishVolume(_ context.Context, in *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := required("volume ID", in.VolumeId, "target path", in.TargetPath); err != nil {
		return nil, err
	}
	if in.VolumeCapability == nil {
		return nil, invalid("volume capability")
	}
	if d.storage != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if err := d.storage.open(in.VolumeId); err != nil {
			return nil, internal(err)
		}
		if err := d.kept(in.VolumeId); err != nil {
			return nil, err
		}
		return &csi.NodePublishVolumeResponse{}, internal(d.storage.publish(in))
	}
	if err := os.Mkdir(in.TargetPath, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if d.recorded {
		if err := mountVolume(in.TargetPath, in.Readonly); err != nil {
			return nil, err
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume unmounts what NodePublishVolume has mounted, and removes the empty folder or file.
func (d *driver) NodeUnpublishVolume(_ context.Context, in *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := required("volume ID", in.VolumeId, "target path", in.TargetPath); err != nil {
		return nil, err
	}
	if d.recorded || d.storage != nil {
		if err := unmountVolume(in.TargetPath); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(in.TargetPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
