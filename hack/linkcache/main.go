// Command linkcache caches linked programs for "go test -toolexec" and "go build -toolexec". If the packages of a program are unchanged, it copies
// the program from FOLDER. Otherwise, it runs Go's linker. Go itself caches only the programs of "go run".
//
//	go test -toolexec 'bin/linkcache FOLDER' ...
package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// most is the size limit of the folder, in bytes. One run of the tests links programs of about 5 GB.
	most = 12_000_000_000
	// share limits the folder to a third of the free space on its disk. The folder's own content counts as free.
	share = 3
	// spare is the number of bytes of memory that a linker can use before it collects garbage. This limit applies only if four times as much memory is
	// free.
	spare = 1 << 30
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: linkcache FOLDER TOOL [ARGUMENT...]")
		os.Exit(2)
	}
	err := run(os.Args[1], os.Args[2], os.Args[3:])
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && failed.ExitCode() >= 0 {
		os.Exit(failed.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "linkcache:", err)
		os.Exit(1)
	}
}

// run replaces this process by the tool, unless the tool is a linker that links a program. For such a linker, it uses the cache.
func run(folder, tool string, args []string) error {
	output, key := program(tool, args)
	if output == "" {
		if err := syscall.Exec(tool, append([]string{tool}, args...), os.Environ()); err != nil { //nolint:gosec // Go names its own tool.
			return fmt.Errorf("run %s: %w", tool, err)
		}
	}
	c := cache{folder: folder, most: most, free: free}
	return c.link(key, output, func() error {
		command := exec.Command(tool, args...) //nolint:gosec // Go names its own tool.
		memory, _ := os.ReadFile("/proc/meminfo")
		command.Env = append(os.Environ(), collector(string(memory))...)
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		return command.Run()
	})
}

// collector returns the variables for a linker's garbage collector. A link needs a third of a gigabyte of memory, or more for programs with
// Kubernetes. Without garbage collection, a link takes a sixth less time. Several linkers run at the same time, so each linker begins to collect at a
// limit. On a machine with little or unknown free memory, a linker collects as usual.
func collector(meminfo string) []string {
	for line := range strings.Lines(meminfo) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "MemAvailable:" {
			continue
		}
		if kilobytes, err := strconv.ParseInt(words[1], 10, 64); err == nil && kilobytes<<10 >= 4*spare {
			return []string{"GOGC=off", fmt.Sprintf("GOMEMLIMIT=%d", spare)}
		}
	}
	return nil
}

// program returns the path at which the linker writes the program, and a hash of all inputs of the program. If the tool does not link a program, both
// results are empty. Go hashes toolchain, flags, environment and packages into the build ID that it passes to the linker
// (cmd/go/internal/work/exec.go, linkActionID).
func program(tool string, args []string) (output, key string) {
	if filepath.Base(tool) != "link" {
		return "", ""
	}
	hash, hasID := sha256.New(), false
	for i := 0; i < len(args)-1; i++ {
		switch args[i] {
		case "-o":
			i++
			output = args[i]
		case "-importcfg":
			// Skip this file, because the build ID already covers what the file lists.
			i++
		default:
			hasID = hasID || strings.HasPrefix(args[i], "-buildid=") && args[i] != "-buildid="
			_, _ = fmt.Fprintf(hash, "%q\n", args[i])
		}
	}
	if !hasID || output == "" {
		return "", ""
	}
	return output, fmt.Sprintf("%x", hash.Sum(nil))
}

// cache keeps programs in a folder. Each program has a file whose name is the program's key. The modification time of a file is the time of its
// last use.
type cache struct {
	folder string
	most   int64
	// free returns the number of free bytes on the disk of a folder.
	free func(folder string) (int64, error)
}

// link writes a program. The program comes from the cache, or else from the linker.
func (c cache) link(key, output string, linker func() error) error {
	kept := filepath.Join(c.folder, key)
	if err := copyFile(kept, output); err == nil {
		now := time.Now()
		// Ignore the error, because another process may have just removed the file.
		_ = os.Chtimes(kept, now, now)
		return nil
	}
	if err := linker(); err != nil {
		return err
	}
	if err := c.keep(kept, output); err != nil {
		fmt.Fprintln(os.Stderr, "linkcache: could not keep the program in the cache:", err)
	}
	return nil
}

// keep copies a program into the cache, and removes the least recently used programs.
func (c cache) keep(kept, output string) error {
	if err := os.MkdirAll(c.folder, 0o750); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	part := fmt.Sprintf("%s.%d", kept, os.Getpid())
	err := copyFile(output, part)
	if err == nil {
		err = os.Rename(part, kept) //nolint:gosec // The folder is the user's.
	}
	if err != nil {
		return errors.Join(err, os.Remove(part)) //nolint:gosec // The folder is the user's.
	}
	return c.trim()
}

func (c cache) trim() error {
	entries, err := os.ReadDir(c.folder)
	if err != nil {
		return fmt.Errorf("list the cache: %w", err)
	}
	var files []fs.FileInfo
	for _, entry := range entries {
		if file, err := entry.Info(); err == nil {
			files = append(files, file)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return cmp.Compare(b.ModTime().UnixNano(), a.ModTime().UnixNano()) })
	held := int64(0)
	for _, file := range files {
		held += file.Size()
	}
	limit := c.most
	if free, err := c.free(c.folder); err == nil {
		limit = min(limit, (free+held)/share)
	}
	total := int64(0)
	for _, file := range files {
		if total += file.Size(); total > limit {
			if err := os.Remove(filepath.Join(c.folder, file.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("trim the cache: %w", err)
			}
		}
	}
	return nil
}

func free(folder string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(folder, &stat); err != nil {
		return 0, fmt.Errorf("look for space: %w", err)
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:gosec,unconvert // No disk is that large; the types differ from system to system.
}

// copyFile copies a program. If it returns an error, the target can't be used.
func copyFile(from, to string) error {
	source, err := os.Open(from) //nolint:gosec // The folder is the user's.
	if err != nil {
		return fmt.Errorf("copy a program: %w", err)
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o700) //nolint:gosec // It is a program.
	if err != nil {
		return fmt.Errorf("copy a program: %w", err)
	}
	_, err = io.Copy(target, source)
	if err == nil {
		// Without Sync, a crash of the machine could leave the renamed file without its content.
		err = target.Sync()
	}
	if err := errors.Join(err, target.Close()); err != nil {
		return fmt.Errorf("copy a program: %w", err)
	}
	return nil
}
