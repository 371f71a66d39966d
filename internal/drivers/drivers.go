// Package drivers has the one list of the drivers of this repository.
package drivers

import (
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/driver/gcppd"
)

// All are the drivers of this repository. Those that are part of a cluster can't be removed, all others can.
func All() ([]driver.Driver, error) {
	var all []driver.Driver
	for _, read := range []func() (driver.Driver, error){
		awsebs.Driver,
		awsefs.Driver,
		gcppd.Driver,
	} {
		d, err := read()
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}
