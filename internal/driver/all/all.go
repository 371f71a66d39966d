// Package all has the one list of the drivers of this repository, by which every program and test knows them.
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

// Drivers are the drivers of this repository. Those that are part of a cluster can't be removed but for vSphere's, all others can.
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
