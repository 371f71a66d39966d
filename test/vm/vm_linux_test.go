// Package vm tries what needs another kernel than the one that the tests run on: a real client and a real server of NFS 4.1, in a virtual machine. Each
// server is in network namespaces of its own, and stands for a file system of EFS. Mounts reach it through a relay, which stands for efs-proxy.
//
// It is for make soak. Where QEMU or a package is missing, it says so and passes.
//
// Not tried: EFS itself, efs-proxy and TLS, a kernel of RHEL, SELinux, a kubelet in the virtual machine, more than one processor.
package vm

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/vm/machine"
)

// options are those with which efs-utils mounts, without the port of the tunnel: get_nfs_mount_options in src/efs_utils_common/mount_options.py of
// efs-utils 2.4, and in src/mount_efs/__init__.py of 1.36.
const options = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport"

// rig is a virtual machine.
type rig struct {
	*testing.T
	machine                         *machine.Machine
	folder, kernel, initramfs, disk string
}

// boot starts a virtual machine, or skips the test.
func boot(t *testing.T) *rig {
	t.Helper()
	env.OnlySoak(t)
	if missing := machine.Missing(); missing != "" {
		t.Skip("No virtual machine is started: " + missing)
	}
	folder, remove, err := env.Folder("csi-operators-vm-")
	env.Must(t, err)
	t.Cleanup(remove)
	r := &rig{T: t, folder: folder, initramfs: filepath.Join(folder, "initramfs"), disk: filepath.Join(folder, "disk")}
	r.kernel, err = machine.Kernel()
	env.Must(t, err)
	ours := map[string]string{}
	for _, name := range []string{"agent", "aws-efs-node-health"} {
		ours[name], err = env.Binary("vm/" + name)
		env.Must(t, err)
	}
	env.Must(t, machine.Initramfs(r.kernel, r.initramfs, ours))
	env.Must(t, machine.Disk(r.disk))
	r.on()
	t.Cleanup(r.off)
	return r
}

// on switches the virtual machine on. The disk has what it had.
func (r *rig) on() {
	r.Helper()
	begin := time.Now()
	var err error
	r.machine, err = machine.Boot(r.Context(), r.kernel, r.initramfs, r.disk, r.folder)
	env.Must(r.T, err)
	r.Logf("%s has booted in %s", filepath.Base(r.kernel), time.Since(begin).Round(100*time.Millisecond))
}

// off cuts its power.
func (r *rig) off() {
	if err := r.machine.CutPower(); err != nil {
		r.Error(err)
	}
}

// sh runs a script in the virtual machine, and returns what it prints. It waits for a minute at most: a script that touches a dead mount never ends.
func (r *rig) sh(script string, args ...string) string {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	output, err := r.machine.Run(ctx, append([]string{"sh", "-ec", script, "sh"}, args...)...)
	if err != nil {
		r.Fatalf("%v\n%s", err, r.machine.Messages())
	}
	return output
}

// beside starts a program in the virtual machine, and returns its process.
func (r *rig) beside(namespaces bool, args ...string) int {
	r.Helper()
	result, err := r.machine.Do(r.Context(), machine.Command{Args: args, Beside: true, Namespaces: namespaces})
	env.Must(r.T, err)
	return result.PID
}

// now is how many seconds the virtual machine runs, as the lines of the writer have it.
func (r *rig) now() float64 {
	r.Helper()
	seconds, err := strconv.ParseFloat(strings.Fields(r.sh("cat /proc/uptime"))[0], 64)
	env.Must(r.T, err)
	return seconds
}

// eventually waits until a script succeeds.
func (r *rig) eventually(what, script string, args ...string) {
	r.Helper()
	env.Eventually(r.T, what, func() error {
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
		defer cancel()
		_, err := r.machine.Run(ctx, append([]string{"sh", "-ec", script, "sh"}, args...)...)
		return err
	})
}

// share is a file system: its server, the tunnel to it, and the mount through both.
type share struct {
	*rig
	name   string
	port   int
	server int
	tunnel int
}

// share starts a server with a folder of that name on the disk as its root, and mounts it.
func (r *rig) share(name string, port int) *share {
	r.Helper()
	s := &share{rig: r, name: name, port: port}
	r.sh(`mkdir -p "/disk/$1"`, name)
	s.server = r.beside(true, "server", name, "/disk/"+name)
	r.eventually("the server of "+name, `nsenter -t "$1" -n netstat -ltn | grep -q :2049`, strconv.Itoa(s.server))
	s.open()
	s.mount("")
	return s
}

// at is where the kubelet would mount it for a pod.
func (s *share) at() string {
	return fmt.Sprintf("/var/lib/kubelet/pods/00000000-0000-4000-8000-0000000%d/volumes/kubernetes.io~csi/pvc-%s/mount", s.port, s.name)
}

// mount mounts a folder of the file system.
func (s *share) mount(folder string) {
	s.Helper()
	s.sh(`mkdir -p "$1" && timeout 50 mount.nfs4 "127.0.0.1:/$2" "$1" -o "$3"`, s.at(), folder, fmt.Sprintf("%s,port=%d", options, s.port))
}

// open starts the tunnel, under the names of efs-utils: src/efs_utils_common/proxy.py of efs-utils 3.2.0.
func (s *share) open() {
	s.Helper()
	state := fmt.Sprintf("fs-0123456789abcdef0.%s.%d", s.name, s.port)
	s.tunnel = s.beside(false, "efs-proxy", fmt.Sprintf("127.0.0.1:%d", s.port), strconv.Itoa(s.server), "127.0.0.1:2049", "/var/run/efs/stunnel-config."+state)
	s.sh(`echo "{\"pid\": $1}" > "/var/run/efs/$2"`, strconv.Itoa(s.tunnel), state)
	s.eventually("the tunnel of "+s.name, `netstat -ltn | grep -q "127.0.0.1:$1 "`, strconv.Itoa(s.port))
}

// more mounts folders of the file system, each through a tunnel of its own, as pods with access points have them.
func (s *share) more(count int) {
	s.Helper()
	s.sh(`for i in $(seq "$3"); do
		port=$(($2 + i)); at="/var/lib/kubelet/pods/00000000-0000-4000-8000-0000000$port/volumes/kubernetes.io~csi/pvc-$1-$i/mount"
		state="fs-0123456789abcdef0.$1-$i.$port"
		mkdir -p "/disk/$1/folder$i" "$at"
		efs-proxy "127.0.0.1:$port" "$4" 127.0.0.1:2049 "/var/run/efs/stunnel-config.$state" >/dev/null 2>&1 &
		echo "{\"pid\": $!}" > "/var/run/efs/$state"
		timeout 20 mount.nfs4 "127.0.0.1:/folder$i" "$at" -o "$5,port=$port"
	done`, s.name, strconv.Itoa(s.port), strconv.Itoa(count), strconv.Itoa(s.server), options)
}

// signal sends a signal to the tunnel: -KILL ends it, -STOP lets it answer nothing, as a network does that drops all packets.
func (s *share) signal(signal string) {
	s.Helper()
	s.sh(`kill "$1" "$2"`, signal, strconv.Itoa(s.tunnel))
}

// threads sets how many threads the server has. With none, it has stopped.
func (s *share) threads(count string) {
	s.Helper()
	s.sh(`nsenter -t "$1" -n -m -u rpc.nfsd -N 3 "$2"`, strconv.Itoa(s.server), count)
}
