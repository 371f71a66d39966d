package mounts

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Stats are what the NFS client counted for one mount.
type Stats struct {
	// LeaseExpired says for how many seconds the client's lease has been expired. An NFS 4.1 client renews its lease also while nobody uses the mount.
	LeaseExpired uint64
	// HasLease is false on kernels that do not report the lease.
	HasLease bool
	// Connections counts the connections to the server, Sent the requests on them, and Replies the replies.
	Connections, Sent, Replies uint64
	// Timeouts counts major timeouts of requests. The kernel adds them when a request ends, so a request that hangs is not in here.
	Timeouts uint64
}

// ParseStats reads the statistics of NFS 4 mounts from a file mountstats of procfs, by the path of the mount. Its format has version 1.1 since Linux
// 3.x (Linux v6.1: fs/nfs/super.c nfs_show_stats, net/sunrpc/stats.c rpc_clnt_show_stats, net/sunrpc/xprtsock.c xs_tcp_print_stats).
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
		line = strings.TrimSpace(line)
		if line == "per-op statistics" {
			operations = true
			return nil
		}
		name, values, _ := strings.Cut(line, ":")
		if err := current.add(name, strings.Fields(values), operations); err != nil {
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

// add adds one line of a mount.
func (s *Stats) add(name string, values []string, operations bool) error {
	switch {
	case operations && len(values) >= 8:
		return addNumbers(name, values, map[int]*uint64{2: &s.Timeouts})
	case name == "xprt" && len(values) > 7 && (values[0] == "tcp" || values[0] == "rdma"):
		return addNumbers(name, values, map[int]*uint64{3: &s.Connections, 6: &s.Sent, 7: &s.Replies})
	case name == "nfsv4" && len(values) > 0:
		// The value of pnfs has a space in it.
		for option := range strings.SplitSeq(strings.Join(values, " "), ",") {
			if text, ok := strings.CutPrefix(option, "lease_expired="); ok {
				s.HasLease = true
				return addNumbers("lease_expired", []string{text}, map[int]*uint64{0: &s.LeaseExpired})
			}
		}
	}
	return nil
}

func addNumbers(name string, values []string, wanted map[int]*uint64) error {
	for i, sum := range wanted {
		number, err := strconv.ParseUint(values[i], 10, 64)
		if err != nil {
			return fmt.Errorf("%s: field %d is %q, which is no number", name, i+1, values[i])
		}
		*sum += number
	}
	return nil
}
