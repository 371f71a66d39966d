package openstack

import "github.com/csi-operators/csi-operators/internal/driver/accept"

// Name returns the row for the cluster's name, which both drivers write into the metadata of volumes.
func Name() accept.Row {
	return accept.Name(255, "only a name of up to 255 letters, digits and . _ - fits into the metadata of a volume or share",
		"https://docs.openstack.org/api-ref/block-storage/v3/#create-metadata-for-volume")
}
