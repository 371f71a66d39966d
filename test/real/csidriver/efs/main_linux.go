// Command efs stands in for what a mount of EFS needs besides the driver, so that a pod which writes to a volume notices what happens to the driver.
//
//	writer -> file system in user space -> socket -> proxy -> folder of the node
//
// On a real node, the kernel's NFS client takes the place of the second, efs-proxy that of the fourth, and AWS that of the folder. The client runs on
// the node, outside of all pods. Each request waits until a proxy has answered it, as on a hard mount. The proxy ends with the node pod. It keeps
// no state, so the proxy of the next node pod answers instead.
//
// The name of the program, or its first argument, says what it does: see main.
package main

import (
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"
)

const (
	folder      = "/var/lib/kubelet/stand-in-for-efs"
	data        = folder + "/data"
	clientPlace = folder + "/client.sock"
	proxyPlace  = folder + "/proxy.sock"
)

func main() {
	name := filepath.Base(os.Args[0])
	if len(os.Args) > 1 && (os.Args[1] == "client" || os.Args[1] == "proxy") {
		name = os.Args[1]
	}
	run := map[string]func() error{"client": runClient, "proxy": runProxy, "amazon-efs-mount-watchdog": watch, "mount": mount}[name]
	if run == nil {
		run = func() error { return fmt.Errorf("there is nothing of the name %s to stand in for", name) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// watch keeps a proxy running, as the watchdog of efs-utils does.
func watch() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	for {
		proxy := exec.Command(program, "proxy")
		proxy.Stdout, proxy.Stderr = os.Stdout, os.Stderr
		fmt.Fprintln(os.Stderr, "the proxy ended:", proxy.Run())
		<-time.After(time.Second)
	}
}

// mount takes the arguments of "mount -t efs -o OPTIONS FILESYSTEM:PATH TARGET", and leaves all others to busybox. Where no client runs, it mounts
// the folder itself.
func mount() error {
	efs := slices.Index(os.Args, "efs")
	if efs < 1 || os.Args[efs-1] != "-t" || len(os.Args) < efs+3 {
		return syscall.Exec("/bin/busybox", append([]string{"busybox", "mount"}, os.Args[1:]...), os.Environ())
	}
	source, target := os.Args[len(os.Args)-2], os.Args[len(os.Args)-1]
	// mount.efs changes nothing at a mount point, and succeeds (efs-utils v3.2.0, src/mount_efs/__init__.py).
	if is, err := isMountPoint(target); is || err != nil {
		return err
	}
	name := regexp.MustCompile(`[^a-zA-Z0-9-]`).ReplaceAllString(source, "_")
	share := filepath.Join(data, name)
	// The umask does not apply to Chmod.
	if err := errors.Join(os.MkdirAll(share, 0o777), os.Chmod(share, 0o777)); err != nil {
		return err
	}
	client, err := rpc.Dial("unix", clientPlace)
	if err != nil {
		return syscall.Mount(share, target, "", syscall.MS_BIND, "")
	}
	return client.Call("Client.Mount", Place{Share: name, Target: target}, &struct{}{})
}

// isMountPoint reports whether something is mounted at a path.
func isMountPoint(path string) (bool, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	return regexp.MustCompile(`(?m)^\S+ \S+ \S+ \S+ ` + regexp.QuoteMeta(path) + ` `).Match(text), err
}
