package driver

// BlockPorts are the ports of a driver of block storage. Pods on the host's network share its ports with those of all drivers of the same
// platform, on loopback as well. Take health from 10300 on, and metrics from 8201 on. A test of all drivers refuses a port that another
// one has.
type BlockPorts struct {
	// Controller and Node are where the health of the two pods is asked for, Registrar where that of the node-driver-registrar is.
	Controller, Node, Registrar int32
	// Metrics is the loopback port of the provisioner's metrics. Those of the other three sidecars follow, and each is offered
	// over HTTPS on the port that is higher by 1000.
	Metrics int32
}

// BlockOptions say in what the sidecars of two drivers of block storage differ.
type BlockOptions struct {
	Ports BlockPorts
	// Provisioner, Attacher, Resizer and Snapshotter are the driver's own arguments of these sidecars.
	Provisioner, Attacher, Resizer, Snapshotter []string
	// ProbeTimeout is that of the liveness probes.
	ProbeTimeout string
}

// BlockSidecars are those of a driver whose volumes are disks: they are made in the zone of a pod, attached to its node, can grow
// and change, and snapshots are made of them.
func BlockSidecars(options BlockOptions) []Sidecar {
	metrics := func(name string, number int32) *Metrics {
		port := options.Ports.Metrics + number
		return &Metrics{Name: name, Loopback: port, Port: port + 1000}
	}
	snapshots := VolumeSnapshotClassKind()
	return []Sidecar{
		{
			Name: "provisioner", Workload: Controller, Metrics: metrics("provisioner", 0),
			Args:   append([]string{"--default-fstype=ext4"}, options.Provisioner...),
			Rights: []string{"volumeattributesclass-reader", "volumesnapshot-reader"},
		},
		{Name: "attacher", Workload: Controller, Metrics: metrics("attacher", 1), Args: options.Attacher},
		{
			Name: "resizer", Workload: Controller, Metrics: metrics("resizer", 2), Args: options.Resizer,
			Rights: []string{"storageclass-reader", "volumeattributesclass-reader"},
		},
		{
			Name: "snapshotter", Workload: Controller, Metrics: metrics("snapshotter", 3), Args: options.Snapshotter, Needs: snapshots,
		},
		{Name: livenessProbe, Workload: Controller, HealthPort: options.Ports.Controller, ProbeTimeout: options.ProbeTimeout},
		{Name: "node-driver-registrar", Workload: Node, HealthPort: options.Ports.Registrar},
		{Name: livenessProbe, Workload: Node, HealthPort: options.Ports.Node, ProbeTimeout: options.ProbeTimeout},
	}
}

// FileSidecars are those of a driver whose volumes are file systems in the network: they are attached to nothing and can be reached from
// everywhere, can grow and change, and snapshots are made of them.
func FileSidecars(options BlockOptions) []Sidecar {
	var sidecars []Sidecar
	for _, sidecar := range BlockSidecars(options) {
		switch sidecar.Name {
		case "attacher":
			continue
		case "provisioner":
			sidecar.Args = options.Provisioner
		}
		sidecars = append(sidecars, sidecar)
	}
	return sidecars
}

// PredecessorConditions are the conditions that OpenShift's operator leaves, and that nobody updates any more. The prefix is the driver's.
func PredecessorConditions(prefix string) []string {
	types := []string{"StorageClassControllerDegraded", "VolumeSnapshotClassControllerDegraded", prefix + "DriverStaticResourcesControllerDegraded"}
	for _, controller := range []string{"DriverCSIConfigObserverController", "CSIDriver"} {
		for _, kind := range []string{"Available", "Progressing", "Degraded", "Upgradeable"} {
			types = append(types, prefix+controller+kind)
		}
	}
	return types
}
