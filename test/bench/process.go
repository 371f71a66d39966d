package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// ticksPerSecond is the unit of CPU time in /proc, the same on every Linux that Go runs on.
const ticksPerSecond = 100

// usage is what a process has used so far. It is all zero where the system has no /proc.
type usage struct {
	residentKibibytes, peakKibibytes int
	cpuSeconds                       float64
}

// usageOf reads /proc.
func usageOf(pid int) (usage, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return usage{}, nil
	}
	if err != nil {
		return usage{}, fmt.Errorf("memory of the operator: %w", err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, fmt.Errorf("CPU time of the operator: %w", err)
	}
	return parseUsage(string(status), string(stat))
}

// parseUsage reads the contents of /proc/PID/status and /proc/PID/stat.
func parseUsage(status, stat string) (usage, error) {
	var used usage
	var err error
	if used.residentKibibytes, err = field(status, "VmRSS:"); err != nil {
		return usage{}, err
	}
	if used.peakKibibytes, err = field(status, "VmHWM:"); err != nil {
		return usage{}, err
	}
	// The second field is the program's name in parentheses, which may hold spaces and parentheses itself.
	rest := ""
	if end := strings.LastIndexByte(stat, ')'); end >= 0 {
		rest = stat[end+1:]
	}
	fields := strings.Fields(rest)
	// utime and stime are fields 14 and 15 of proc(5); the third is now the first.
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return usage{}, fmt.Errorf("CPU time of the operator: /proc/PID/stat has %d fields after the name, not %d", len(fields), stime+1)
	}
	for _, text := range []string{fields[utime], fields[stime]} {
		ticks, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("CPU time of the operator: %w", err)
		}
		used.cpuSeconds += float64(ticks) / ticksPerSecond
	}
	return used, nil
}

// field is a number of kibibytes in /proc/PID/status.
func field(status, name string) (int, error) {
	for line := range strings.Lines(status) {
		value, found := strings.CutPrefix(line, name)
		if !found {
			continue
		}
		kibibytes, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		if err != nil {
			return 0, fmt.Errorf("memory of the operator: %s %w", name, err)
		}
		return kibibytes, nil
	}
	// A process that has ended but was not waited for has no memory.
	return 0, fmt.Errorf("memory of the operator: /proc/PID/status has no %s; has the operator ended?", strings.TrimSuffix(name, ":"))
}
