package mounts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// longestLine is the longest line that the parsers read. The kernel limits the options of a mount to a page, but an overlay can have several paths.
const longestLine = 64 << 10

// loopback is the server's address in a mount with a tunnel, because the tunnel is a process of efs-utils that listens on the node (efs-utils v3.2.0,
// src/watchdog/__init__.py get_current_local_nfs_mounts).
const loopback = "127.0.0.1:"

// Mount is a mount of EFS for a pod.
type Mount struct {
	// Target is the path of the mount. Pod is the UID of the pod, and Volume the name of the PersistentVolume. The kubelet writes the UID and the name
	// into the path.
	Target, Pod, Volume string
	// Device is the number of the mounted file system.
	Device string
	// Port is the port of the tunnel, or 0 if the mount has no tunnel.
	Port int
}

// ParseMounts reads the mounts of EFS for pods from a mountinfo file of procfs (Linux v6.1, fs/proc_namespace.c show_mountinfo; proc(5)).
func ParseMounts(r io.Reader) ([]Mount, error) {
	var mounts []Mount
	target := targetOfPod()
	err := eachLine(r, func(line string) error {
		before, after, found := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !found || len(right) == 0 || right[0] != "nfs4" {
			return nil
		}
		if len(left) < 6 || len(right) < 3 {
			return fmt.Errorf("mountinfo: the line %q has too few fields", line)
		}
		mount := Mount{Target: unescape(left[4]), Device: left[2]}
		parts := target.FindStringSubmatch(mount.Target)
		if parts == nil {
			return nil
		}
		mount.Pod, mount.Volume = parts[1], parts[2]
		switch {
		case strings.HasPrefix(right[1], loopback):
			port, err := portOf(right[2])
			if err != nil {
				return fmt.Errorf("mountinfo: %s: %w", mount.Target, err)
			}
			mount.Port = port
		case !strings.Contains(right[1], ".efs."):
			return nil
		}
		mounts = append(mounts, mount)
		return nil
	})
	return mounts, err
}

// targetOfPod matches the path of a CSI volume of a pod (kubernetes v1.36.3, pkg/volume/csi/csi_mounter.go getTargetPath). The UID of a static pod
// has no dashes.
func targetOfPod() *regexp.Regexp {
	return regexp.MustCompile(`/pods/([0-9a-f-]{32,36})/volumes/kubernetes\.io~csi/([^/]+)/mount$`)
}

// portOf returns the port in the options of a mount. It returns 2049 without option port, because the NFS client does not print its default port.
func portOf(options string) (int, error) {
	for option := range strings.SplitSeq(options, ",") {
		if text, found := strings.CutPrefix(option, "port="); found {
			port, err := strconv.ParseUint(text, 10, 16)
			if err != nil {
				return 0, fmt.Errorf("option %q is no port", option)
			}
			return int(port), nil
		}
	}
	return 2049, nil
}

// unescape replaces the octal numbers that the kernel writes for spaces, tabs, line ends and backslashes in a path.
func unescape(path string) string {
	if !strings.Contains(path, `\`) {
		return path
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// eachLine calls function "use" with each line. It skips lines that are longer than longestLine.
func eachLine(r io.Reader, use func(line string) error) error {
	reader := bufio.NewReaderSize(r, longestLine)
	for {
		line, more, err := reader.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if !more {
			if err := use(string(line)); err != nil {
				return err
			}
			continue
		}
		for more && err == nil {
			_, more, err = reader.ReadLine()
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read: %w", err)
		}
	}
}
