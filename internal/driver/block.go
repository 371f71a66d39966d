package driver

// BlockPorts are the ports of a driver of block storage. Pods on the host network share the node's ports, including the loopback ports, with all
// drivers of the same platform. Choose health ports from 10300 on, and metrics ports from 8201 on. A test of all drivers rejects duplicates.
type BlockPorts struct {
	// Controller and Node are the health ports of the two pods. Registrar is the health port of the node-driver-registrar.
	Controller, Node, Registrar int32
	// Metrics is the loopback port of the provisioner's metrics. The next three ports are for the metrics of the attacher, the resizer and the
	// snapshotter. The HTTPS port of each sidecar is higher by 1000 than its loopback port.
	Metrics int32
}

// BlockOptions configure the sidecars for one driver.
type BlockOptions struct {
	Ports BlockPorts
	// Provisioner, Attacher, Resizer and Snapshotter are the driver's own arguments for these sidecars.
	Provisioner, Attacher, Resizer, Snapshotter []string
	// ProbeTimeout is the timeout of the liveness probes, such as "10s". If it is empty, the default of Sidecar.ProbeTimeout applies.
	ProbeTimeout string
}

// BlockSidecars returns the sidecars of a driver whose volumes are disks. The sidecars provision a disk in the pod's zone, attach the disk to the
// pod's node, resize and modify the disk, and make snapshots.
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

// FileSidecars returns the sidecars of a driver whose volumes are network file systems. All nodes can reach such a volume, so no sidecar attaches it.
// The sidecars provision, resize and modify volumes, and make snapshots.
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

// PredecessorConditions returns the types of the conditions that OpenShift's operator leaves behind. The prefix is the driver's condition prefix.
func PredecessorConditions(prefix string) []string {
	types := []string{"StorageClassControllerDegraded", "VolumeSnapshotClassControllerDegraded", prefix + "DriverStaticResourcesControllerDegraded"}
	for _, controller := range []string{"DriverCSIConfigObserverController", "CSIDriver"} {
		for _, kind := range []string{"Available", "Progressing", "Degraded", "Upgradeable"} {
			types = append(types, prefix+controller+kind)
		}
	}
	return types
}
