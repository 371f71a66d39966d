package cluster

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

const (
	// devcluster chooses ports below the range of ephemeral ports. An outgoing connection could take an ephemeral port before the component listens on
	// the port.
	lowestPort  = 20000
	highestPort = 32000
	portTries   = 200
	// portsEach is the number of ports of one cluster. portsApart is the distance between the ports at which two clusters start their search. portsApart
	// is larger than portsEach, because other programs may use some ports in between.
	portsEach  = 3
	portsApart = 10
)

// ports are the ports on which the components of one cluster listen.
type ports struct {
	API      int `json:"api"`
	Etcd     int `json:"etcd"`
	EtcdPeer int `json:"etcdPeer"`
}

// choosePorts chooses free ports. If wanted is not 0, it becomes the port of the API server.
func choosePorts(wanted int) (ports, error) {
	// Keep all listeners open until all ports are chosen, so that no port is chosen twice.
	var open []net.Listener
	defer func() {
		for _, listener := range open {
			_ = listener.Close()
		}
	}()
	if wanted != 0 {
		listener, err := listen(wanted)
		if err != nil {
			return ports{}, fmt.Errorf("port %d on %s cannot be used: %w; stop what listens there, or choose another --port (0 takes any free one)",
				wanted, host, err)
		}
		open = append(open, listener)
	}
	// A chosen port is free again until the component listens on it, which takes some seconds. Two clusters that start at the same time must not search
	// the same ports, so the process ID determines the first port.
	const places = (highestPort - lowestPort) / portsApart
	first := os.Getpid() % places * portsApart
	for i := range portTries {
		if len(open) == portsEach {
			break
		}
		if listener, err := listen(lowestPort + (first+i)%(places*portsApart)); err == nil {
			open = append(open, listener)
		}
	}
	if len(open) < portsEach {
		return ports{}, fmt.Errorf("fewer than %d free ports found on %s between %d and %d in %d tries",
			portsEach, host, lowestPort, highestPort, portTries)
	}
	port := func(i int) int { return open[i].Addr().(*net.TCPAddr).Port }
	return ports{API: port(0), Etcd: port(1), EtcdPeer: port(2)}, nil
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}
