package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/csi-operators/csi-operators/internal/controller/efshealth/mounts"
	"github.com/csi-operators/csi-operators/internal/release/image"
	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	readerName = "aws-efs-node-health"
	// recordedMounts has the mountinfo and the mountstats of a kernel with 100 mounts: see the README beside it.
	recordedMounts = "internal/controller/efshealth/mounts/testdata/recorded/hundred.gz"
	// readerWarmUp and readerReadings are how many readings are not measured, and how many are. The clock of processes counts hundredths of seconds.
	readerWarmUp, readerReadings = 3, 20
)

// parseReader reads the number of processes; nil if it is 0.
func parseReader(text string) (*report.ReaderSize, error) {
	processes, err := strconv.Atoi(text)
	if err != nil || processes < 0 {
		return nil, fmt.Errorf("-reader %q: give a number of processes, or 0", text)
	}
	if processes == 0 {
		return nil, nil
	}
	return &report.ReaderSize{Processes: processes}, nil
}

// measureReader measures what the shipped program costs on a node with 100 mounts. Its files are copies of a kernel's: the work of the kernel to
// write procfs is not in the result.
func measureReader(ctx context.Context, size report.ReaderSize) (*report.ReaderCost, error) {
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "bench-reader-")
	if err != nil {
		return nil, fmt.Errorf("folder for a node: %w", err)
	}
	defer os.RemoveAll(folder)
	if size.Mounts, err = writeNode(folder, filepath.Join(root, recordedMounts), size.Processes); err != nil {
		return nil, fmt.Errorf("files of a node: %w", err)
	}
	binary, err := image.GoProgram(ctx, root, "./cmd/"+readerName, image.Target{Architecture: runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	program := filepath.Join(folder, readerName)
	if err := os.WriteFile(program, binary, 0o700); err != nil {
		return nil, fmt.Errorf("the reader: %w", err)
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	command := exec.CommandContext(ctx, program, "start", "-interval=1s", "-listen="+address,
		"-proc="+filepath.Join(folder, "proc"), "-states="+filepath.Join(folder, "efs"), "-cgroups="+filepath.Join(folder, "cgroup"))
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the reader: %w", err)
	}
	cost, err := costOfReadings(ctx, size, command.Process.Pid, "http://"+address+"/metrics")
	stop()
	_ = command.Wait()
	return cost, err
}

func costOfReadings(ctx context.Context, size report.ReaderSize, pid int, url string) (*report.ReaderCost, error) {
	first, err := awaitReadings(ctx, url, readerWarmUp)
	if err != nil {
		return nil, err
	}
	before, err := usageOf(pid)
	if err != nil {
		return nil, err
	}
	last, err := awaitReadings(ctx, url, first+readerReadings)
	if err != nil {
		return nil, err
	}
	after, err := usageOf(pid)
	if err != nil {
		return nil, err
	}
	return &report.ReaderCost{
		ReaderSize: size, Readings: last - first, PeakKibibytes: after.peakKibibytes,
		Milliseconds: (after.cpuSeconds - before.cpuSeconds) * 1000 / float64(last-first),
	}, nil
}

// awaitReadings asks as often as Prometheus would in a few minutes, until the reader has read a number of times.
func awaitReadings(ctx context.Context, url string, want int) (int, error) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	last := errors.New("it does not answer")
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%d readings in a minute: %w", want, last)
		case <-ticker.C:
		}
		got, err := readingsOf(ctx, url)
		if got >= want {
			return got, nil
		}
		if last = err; err == nil {
			last = fmt.Errorf("there are %d", got)
		}
	}
}

func readingsOf(ctx context.Context, url string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, fmt.Errorf("metrics of the reader: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("metrics of the reader: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, fmt.Errorf("metrics of the reader: %w", err)
	}
	_, after, _ := strings.Cut(string(text), mounts.MetricReadings+`{result="read"} `)
	number, _, _ := strings.Cut(after, "\n")
	return strconv.Atoi(number)
}

func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("port for the reader: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// writeNode writes the files of a node: recorded mounts, their tunnels, and other processes. It returns the number of mounts.
func writeNode(folder, recorded string, processes int) (int, error) {
	packed, err := os.Open(recorded)
	if err != nil {
		return 0, fmt.Errorf("recorded mounts: %w", err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return 0, fmt.Errorf("recorded mounts: %w", err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		return 0, fmt.Errorf("recorded mounts: %w", err)
	}
	_, text, _ = bytes.Cut(text, []byte("\n"))
	info, stats, _ := bytes.Cut(text, []byte("\n\n"))
	info = withPorts(info)
	found, err := mounts.ParseMounts(bytes.NewReader(info))
	if err != nil {
		return 0, err
	}
	node := nodeFiles{folder: folder}
	node.write("proc/1/mountinfo", string(info)+"\n")
	node.write("proc/1/mountstats", string(stats))
	node.process(1, "systemd", "/sbin/init")
	node.write("cgroup/kubepods.slice/cgroup.events", "populated 1\n")
	for i, mount := range found {
		name := fmt.Sprintf("fs-0123456789abcdef0.mount%d.%d", i, mount.Port)
		node.write("efs/"+name, `{"pid": 17, "cmd": ["/usr/sbin/efs-proxy"], "mount_time": 1.5}`)
		node.process(5000+i, "efs-proxy", "/usr/sbin/efs-proxy\x00/var/run/efs/stunnel-config."+name)
		node.write("cgroup/kubepods.slice/kubepods-pod"+strings.ReplaceAll(mount.Pod, "-", "_")+".slice/cgroup.events", "populated 1\n")
	}
	for i := range processes {
		node.process(10000+i, "other", "/usr/bin/other")
	}
	return len(found), node.err
}

// withPorts gives each mount a tunnel of its own, as efs-utils does. Recorded mounts share tunnels.
func withPorts(info []byte) []byte {
	port := 20000
	return regexp.MustCompile(`,port=[0-9]+`).ReplaceAllFunc(info, func([]byte) []byte {
		port++
		return fmt.Appendf(nil, ",port=%d", port)
	})
}

// nodeFiles writes files below a folder. It keeps the first error.
type nodeFiles struct {
	folder string
	err    error
}

func (n *nodeFiles) write(name, text string) {
	path := filepath.Join(n.folder, name)
	n.err = errors.Join(n.err, os.MkdirAll(filepath.Dir(path), 0o750))
	if n.err == nil {
		n.err = os.WriteFile(path, []byte(text), 0o600)
	}
}

// process writes what the reader wants to know of a process (proc(5)).
func (n *nodeFiles) process(pid int, name, command string) {
	folder := fmt.Sprintf("proc/%d/", pid)
	n.write(folder+"comm", name+"\n")
	n.write(folder+"cmdline", command+"\x00")
	n.write(folder+"stat", fmt.Sprintf("%d (%s) S 2 %s 4711 0\n", pid, name, strings.Repeat("0 ", 17)))
	n.write(folder+"cgroup", "0::/system.slice/x.service\n")
}
