package mounts

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Stats are what the NFS client counted for one mount.
type Stats struct {
	// LeaseExpired is the number of seconds since the client's lease expired. An NFS 4.1 client renews its lease even while no program uses the mount.
	LeaseExpired uint64
	// HasLease is false on kernels that do not report the lease.
	HasLease bool
	// Connections, Sent and Replies count the connections to the server, the requests on these connections, and the replies.
	Connections, Sent, Replies uint64
	// Timeouts counts major timeouts of requests. The kernel counts a request's timeouts when the request ends, so Timeouts lacks a request that hangs.
	Timeouts uint64
}

// ParseStats reads the statistics of NFS 4 mounts from a mountstats file of procfs. The result has the path of the mount as key. The format of the
// file has version 1.1 since Linux 3.x (Linux v6.1: fs/nfs/super.c nfs_show_stats, net/sunrpc/stats.c rpc_clnt_show_stats, net/sunrpc/xprtsock.c
// xs_tcp_print_stats).
func ParseStats(r io.Reader) (map[string]Stats, error) {
	found := map[string]Stats{}
	var current Stats
	var target string
	operations := false
	err := eachLine(r, func(line string) error {
		if rest, ok := strings.CutPrefix(line, "device "); ok {
			if target != "" {
				found[target] = current
			}
			target, current, operations = targetOf(rest), Stats{}, false
			return nil
		}
		if target == "" {
			return nil
		}
		name, values, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "per-op statistics" {
			operations = true
			return nil
		}
		add := current.add
		if operations {
			add = current.addOperation
		}
		if err := add(name, values); err != nil {
			return fmt.Errorf("mountstats: %s: %w", target, err)
		}
		return nil
	})
	if target != "" {
		found[target] = current
	}
	return found, err
}

// targetOf returns the path in the first line of a mount, or "" if the mount is not NFS 4.
func targetOf(line string) string {
	_, after, found := strings.Cut(line, " mounted on ")
	path, kind, typed := strings.Cut(after, " with fstype ")
	if name, _, _ := strings.Cut(kind, " "); !found || !typed || name != "nfs4" {
		return ""
	}
	return unescape(path)
}

// addOperation reads the line of one kind of requests. It stops after the third number, which counts timeouts, because most lines of the file are
// such lines.
func (s *Stats) addOperation(name, line string) error {
	i := 0
	for value := range strings.FieldsSeq(line) {
		if i == 2 {
			return addNumber(name, value, &s.Timeouts)
		}
		i++
	}
	return nil
}

// add adds one line of a mount.
func (s *Stats) add(name, line string) error {
	switch name {
	case "xprt":
		values := strings.Fields(line)
		if len(values) < 8 || (values[0] != "tcp" && values[0] != "rdma") {
			return nil
		}
		return errors.Join(addNumber(name, values[3], &s.Connections), addNumber(name, values[6], &s.Sent), addNumber(name, values[7], &s.Replies))
	case "nfsv4":
		for option := range strings.SplitSeq(line, ",") {
			if text, ok := strings.CutPrefix(option, "lease_expired="); ok {
				s.HasLease = true
				return addNumber("lease_expired", text, &s.LeaseExpired)
			}
		}
	}
	return nil
}

func addNumber(name, text string, sum *uint64) error {
	number, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return fmt.Errorf("%s: %q is no number", name, text)
	}
	*sum += number
	return nil
}
