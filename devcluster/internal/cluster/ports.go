package cluster

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

const (
	// Free ports come from below the ephemeral range: an outgoing connection can use a port of that range before the component listens on it.
	lowestPort  = 20000
	highestPort = 32000
	portTries   = 200
	// portsEach is the number of ports of a cluster. portsApart is the distance between the start points of two clusters, because some ports
	// in between may be in use.
	portsEach  = 3
	portsApart = 10
)

// ports are where the components of one cluster listen.
type ports struct {
	API      int `json:"api"`
	Etcd     int `json:"etcd"`
	EtcdPeer int `json:"etcdPeer"`
}

// choosePorts finds free ports. If wanted is not 0, it is the API server's.
func choosePorts(wanted int) (ports, error) {
	// All listeners stay open until all ports are chosen, so that no port is chosen twice.
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
	// Clusters that start at the same time search from different ports, by process ID. A chosen port stays free for seconds until the
	// component listens on it.
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
