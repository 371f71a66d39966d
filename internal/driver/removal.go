package driver

// These are parts of the messages about what a removal waits for. By them, oc storage doctor tells the messages apart.
const (
	// RemovalHasMounts is followed by the names of the nodes. By these names, a restarted operator knows which nodes had mounts.
	RemovalHasMounts     = "nodes have mounts of the driver, although no pod uses its volumes: "
	RemovalUnknownMounts = "It is unknown whether nodes have mounts of the driver: "
	RemovalNeedsDriver   = "only the driver can "
)
