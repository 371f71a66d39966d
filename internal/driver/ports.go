package driver

import (
	"regexp"
	"strconv"
)

// HostPorts maps each port of the node that the pods use to the name of the container. The map includes loopback ports. It is empty for pods on the
// pod network.
func (p Pods) HostPorts() map[int]string {
	ports := map[int]string{}
	if !p.Spec.HostNetwork {
		return ports
	}
	// An argument names the port of its own container, or of the container behind a proxy.
	address := regexp.MustCompile(`=(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0)?:(\d+)/?$`)
	for _, container := range p.Spec.Containers {
		for _, port := range container.Ports {
			ports[int(port.ContainerPort)] = container.Name
		}
		for _, argument := range container.Args {
			if found := address.FindStringSubmatch(argument); found != nil {
				if number, err := strconv.Atoi(found[1]); err == nil {
					ports[number] = container.Name
				}
			}
		}
	}
	return ports
}
