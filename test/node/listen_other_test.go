//go:build !linux

package node

import (
	"errors"
	"net"
)

func listenInside(int) (net.Listener, error) { return nil, errors.New("real nodes need Linux") }
