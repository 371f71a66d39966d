package driver

// These are parts of the messages about what a removal waits for. By them, oc storage doctor tells the messages apart.
const (
	// RemovalHasMounts is followed by the names of the nodes. By these names, a restarted operator knows which nodes had mounts. It can also be in a
	// message about pods or objects that block the removal.
	RemovalHasMounts     = "nodes have mounts of the driver that no pod uses: "
	RemovalHasUsers      = "pods use volumes of the driver and would hang without it: "
	RemovalUnknownMounts = "It is unknown whether nodes have mounts of the driver: "
	RemovalNeedsDriver   = "only the driver can "
)
