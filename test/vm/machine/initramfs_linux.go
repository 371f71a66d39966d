package machine

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// scripts are init, the first process, and server.
//
//go:embed init.sh server.sh
var scripts embed.FS

// programs of Debian's packages that the virtual machine has beside busybox: the client's and the server's.
var programs = []string{"/sbin/mount.nfs", "/usr/sbin/exportfs", "/usr/sbin/rpc.mountd", "/usr/sbin/rpc.nfsd", "/usr/sbin/nfsdcld"}

// modules of the kernel that are loaded, without those that these need.
var modules = []string{"virtio_pci", "virtio_blk", "virtio_console", "nfsd", "nfsv4"}

// Missing is a sentence about what this computer lacks for a virtual machine, or "".
func Missing() string {
	for _, program := range append([]string{"qemu-system-x86_64", "busybox", "mkfs.ext4", "ldd"}, programs...) {
		if _, err := exec.LookPath(program); err != nil {
			return "the program " + program + " is missing: install the packages that 'make soak-packages' prints"
		}
	}
	if _, err := Kernel(); err != nil {
		return err.Error()
	}
	return ""
}

// Kernel is the newest kernel of the package linux-image-cloud-amd64. Its version is the end of its name.
func Kernel() (string, error) {
	found, err := filepath.Glob("/boot/vmlinuz-*-cloud-amd64")
	if err == nil && len(found) == 0 {
		err = errors.New("no kernel of the package linux-image-cloud-amd64 is installed")
	}
	if err != nil {
		return "", err
	}
	return slices.Max(found), nil
}

// Disk makes an empty disk.
func Disk(file string) error {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(file, 64<<20); err != nil {
		return err
	}
	if output, err := exec.Command("mkfs.ext4", "-q", file).CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, output)
	}
	return nil
}

// Initramfs writes a file with the root of the virtual machine: busybox, the kernel's modules, the programs of NFS, and static programs of this repository
// by their names. One is the agent.
func Initramfs(kernel, file string, ours map[string]string) error {
	root, err := os.MkdirTemp(filepath.Dir(file), "root-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	wanted, err := moduleFiles("/lib/modules/" + strings.TrimPrefix(filepath.Base(kernel), "vmlinuz-"))
	if err != nil {
		return err
	}
	for _, program := range programs {
		libraries, err := libraries(program)
		if err != nil {
			return err
		}
		wanted = append(append(wanted, libraries...), program)
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	from := map[string]string{"/bin/busybox": busybox}
	for name, program := range ours {
		from["/bin/"+name] = program
	}
	for _, one := range wanted {
		from[one] = one
	}
	for to, source := range from {
		if err := install(source, filepath.Join(root, to)); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"init.sh": "init", "server.sh": "bin/server"} {
		content, err := scripts.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, to), content, 0o755); err != nil {
			return err
		}
	}
	script := `cd "$1"; mkdir -p proc sys dev tmp run disk srv mnt etc var/lib/nfs; bin/busybox --install -s bin
		for link in bin/*; do [ -L "$link" ] && ln -sf busybox "$link"; done
		ln -s mount.nfs sbin/mount.nfs4; ln -s agent bin/efs-proxy
		printf 'tcp 6 TCP\nudp 17 UDP\n' > etc/protocols; printf 'tcp tpi_cots_ora v inet tcp - -\n' > etc/netconfig; echo root:x:0:0::/: > etc/passwd; echo nfs 2049/tcp > etc/services; touch etc/exports
		find . | bin/busybox cpio -o -H newc | gzip -1 > "$2"`
	if output, err := exec.Command(busybox, "sh", "-ec", script, "sh", root, file).CombinedOutput(); err != nil {
		return fmt.Errorf("initramfs: %w: %s", err, output)
	}
	return nil
}

// moduleFiles are the files of the modules, of those that they need, and the list of what needs what.
func moduleFiles(folder string) ([]string, error) {
	list := filepath.Join(folder, "modules.dep")
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	files, found := []string{list}, 0
	for line := range strings.Lines(string(text)) {
		module, needs, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name := strings.TrimSuffix(filepath.Base(module), ".ko"); !slices.Contains(modules, strings.ReplaceAll(name, "-", "_")) {
			continue
		}
		found++
		for _, file := range append(strings.Fields(needs), module) {
			files = append(files, filepath.Join(folder, file))
		}
	}
	if found != len(modules) {
		return nil, fmt.Errorf("%s has %d of the modules %v", list, found, modules)
	}
	return files, nil
}

// libraries are the paths of a program's libraries.
func libraries(program string) ([]string, error) {
	output, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", program, err)
	}
	var found []string
	for _, field := range strings.Fields(string(output)) {
		if strings.HasPrefix(field, "/") {
			found = append(found, field)
		}
	}
	return found, nil
}

// install copies a file and follows links.
func install(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}
