package real

// driverProfile is what the real driver says to the sidecars about itself, and where the stand-in says that it runs.
type driverProfile struct {
	// capabilities are those of the controller service, with the names of the specification.
	capabilities []string
	// topologyKey is the label with the zone of a node; empty if the driver knows no zones.
	topologyKey string
	// byVariable says that the driver has no flag for where it listens, and reads variable CSI_ENDPOINT itself.
	byVariable bool
	// ports are those of metrics that no flag names.
	ports      []int
	node, zone string
}

// profiles are those of the drivers by folder, read in their sources.
func profiles() map[string]driverProfile {
	return map[string]driverProfile{
		// kubernetes-sigs/aws-efs-csi-driver v3.4.1: pkg/driver/controller.go:80, identity.go:49, node.go.
		"awsefs": {
			capabilities: []string{"CREATE_DELETE_VOLUME"},
			topologyKey:  "topology.kubernetes.io/zone",
		},
		// openshift/aws-ebs-csi-driver 8b8c4cef0 (1.48.0): pkg/driver/controller.go, driver.go:54.
		"awsebs": {
			capabilities: []string{
				"CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "CREATE_DELETE_SNAPSHOT", "LIST_SNAPSHOTS", "EXPAND_VOLUME", "MODIFY_VOLUME",
			},
			topologyKey: "topology.kubernetes.io/zone",
		},
		// kubernetes-sigs/azuredisk-csi-driver d983d613b (1.35.0): pkg/azuredisk/azuredisk.go:393, :237.
		"azuredisk": {
			capabilities: []string{
				"CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "CREATE_DELETE_SNAPSHOT", "CLONE_VOLUME", "EXPAND_VOLUME", "MODIFY_VOLUME",
				"SINGLE_NODE_MULTI_WRITER",
			},
			topologyKey: "topology.disk.csi.azure.com/zone",
		},
		// kubernetes-sigs/azurefile-csi-driver 7b5ae18e7 (1.36.0): pkg/azurefile/azurefile.go:480. It has no zones.
		"azurefile": {
			capabilities: []string{
				"CREATE_DELETE_VOLUME", "CREATE_DELETE_SNAPSHOT", "CLONE_VOLUME", "EXPAND_VOLUME", "MODIFY_VOLUME", "SINGLE_NODE_MULTI_WRITER",
			},
		},
		// kubernetes/cloud-provider-openstack c453fb7c9: pkg/csi/cinder/driver.go:99, with --with-topology.
		"cinder": {
			capabilities: []string{
				"LIST_VOLUMES", "CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "CREATE_DELETE_SNAPSHOT", "LIST_SNAPSHOTS", "EXPAND_VOLUME",
				"CLONE_VOLUME", "LIST_VOLUMES_PUBLISHED_NODES", "GET_VOLUME",
			},
			topologyKey: "topology.cinder.csi.openstack.org/zone",
		},
		// kubernetes/cloud-provider-openstack c453fb7c9: pkg/csi/manila/driver.go:160. It runs without --with-topology.
		"manila": {capabilities: []string{"CREATE_DELETE_VOLUME", "CREATE_DELETE_SNAPSHOT", "EXPAND_VOLUME"}},
		// kubernetes-sigs/vsphere-csi-driver bf8090256: pkg/csi/service/vanilla/controller.go:2343, pkg/csi/service/identity.go:67,
		// pkg/csi/types/envvars.go:37, pkg/csi/service/vanilla/controller.go, cmd/syncer/main.go.
		"vsphere": {
			capabilities: []string{
				"CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "EXPAND_VOLUME", "CREATE_DELETE_SNAPSHOT", "LIST_SNAPSHOTS", "LIST_VOLUMES",
				"LIST_VOLUMES_PUBLISHED_NODES",
			},
			topologyKey: "topology.csi.vmware.com/openshift-zone", byVariable: true, ports: []int{2112, 2113},
		},
		// openshift/gcp-pd-csi-driver 2ba11740 (1.23.3): pkg/gce-pd-csi-driver/gce-pd-driver.go, pkg/constants/constants.go:21.
		"gcppd": {
			capabilities: []string{
				"CREATE_DELETE_VOLUME", "CLONE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "CREATE_DELETE_SNAPSHOT", "LIST_SNAPSHOTS", "PUBLISH_READONLY",
				"EXPAND_VOLUME", "LIST_VOLUMES", "LIST_VOLUMES_PUBLISHED_NODES", "MODIFY_VOLUME",
			},
			topologyKey: "topology.gke.io/zone",
		},
	}
}
