package main

import (
	"context"
	"maps"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// CreateSnapshot makes a snapshot, or finds the one that a request with this name has made.
func (d *driver) CreateSnapshot(_ context.Context, in *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if err := d.can(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT); err != nil {
		return nil, err
	}
	if err := required("name", in.Name, "source volume ID", in.SourceVolumeId); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	source, err := d.find(in.SourceVolumeId)
	if err != nil {
		return nil, err
	}
	if id, known := d.names["snapshot "+in.Name]; known {
		found := d.snapshots[id]
		if found.SourceVolumeId != in.SourceVolumeId {
			return nil, status.Errorf(codes.AlreadyExists, "snapshot %s is of another volume", in.Name)
		}
		return &csi.CreateSnapshotResponse{Snapshot: found}, nil
	}
	if d.failed[in.Name] < d.stumbles {
		d.failed[in.Name]++
		return nil, status.Error(codes.Internal, "the cloud is busy")
	}
	made := &csi.Snapshot{
		SnapshotId: d.identity("snap"), SourceVolumeId: in.SourceVolumeId, SizeBytes: source.CapacityBytes,
		CreationTime: timestamppb.Now(), ReadyToUse: true,
	}
	if err := d.storage.copy(source.VolumeId, made.SnapshotId); err != nil {
		return nil, internal(err)
	}
	d.snapshots[made.SnapshotId], d.names["snapshot "+in.Name] = made, made.SnapshotId
	return &csi.CreateSnapshotResponse{Snapshot: made}, nil
}

// DeleteSnapshot deletes a snapshot, if it is there.
func (d *driver) DeleteSnapshot(_ context.Context, in *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if err := required("snapshot ID", in.SnapshotId); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.storage.remove(in.SnapshotId); err != nil {
		return nil, internal(err)
	}
	delete(d.snapshots, in.SnapshotId)
	d.forget(in.SnapshotId)
	return &csi.DeleteSnapshotResponse{}, nil
}

// ListSnapshots lists snapshots: all, one, or those of a volume.
func (d *driver) ListSnapshots(_ context.Context, in *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	if err := d.can(csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	all := maps.Clone(d.snapshots)
	maps.DeleteFunc(all, func(id string, snapshot *csi.Snapshot) bool {
		return in.SnapshotId != "" && id != in.SnapshotId || in.SourceVolumeId != "" && snapshot.SourceVolumeId != in.SourceVolumeId
	})
	found, next, err := page(all, in.StartingToken, in.MaxEntries)
	if err != nil {
		return nil, err
	}
	answer := &csi.ListSnapshotsResponse{NextToken: next}
	for _, snapshot := range found {
		answer.Entries = append(answer.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: snapshot})
	}
	return answer, nil
}
