// Package all lists the drivers of this repository, for every program and test.
package all

import (
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/driver/azuredisk"
	"github.com/csi-operators/csi-operators/internal/driver/azurefile"
	"github.com/csi-operators/csi-operators/internal/driver/cinder"
	"github.com/csi-operators/csi-operators/internal/driver/gcppd"
	"github.com/csi-operators/csi-operators/internal/driver/manila"
	"github.com/csi-operators/csi-operators/internal/driver/vsphere"
)

// Drivers returns the drivers of this repository. A driver of the payload can't be removed, except for vSphere's driver. All other drivers can be
// removed.
func Drivers() []driver.Driver {
	return []driver.Driver{
		awsebs.Driver(),
		awsefs.Driver(),
		azuredisk.Driver(),
		azurefile.Driver(),
		cinder.Driver(),
		gcppd.Driver(),
		manila.Driver(),
		vsphere.Driver(),
	}
}
