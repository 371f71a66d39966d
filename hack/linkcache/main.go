// Command linkcache caches linked programs for "go test -toolexec" and "go build -toolexec". It copies a program whose packages are unchanged from
// FOLDER, and else runs Go's linker. Go does the same for "go run" alone.
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
	// most is the size limit of the folder in bytes. A run of the tests links about 5 GB.
	most = 12_000_000_000
	// share says how large a part of the free disk a folder may hold, its own content included: a third.
	share = 3
	// spare is how many bytes a linker may use without collecting garbage, if four times as many are free.
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

// run becomes the tool, unless it is a linker that links a program.
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

// collector sets a linker's garbage collector. A link takes a third of a gigabyte, that of Kubernetes more, and is a sixth faster without collecting
// garbage. Several linkers run at a time: each begins to collect at a limit, and on a machine with little memory, or unknown memory, as usual.
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

// program returns the path for a linked program, and a hash of all inputs of the program; empty for other tools than the linker. Go hashes toolchain,
// flags, environment and packages into the build ID that it passes to the linker (cmd/go/internal/work/exec.go, linkActionID).
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
			// The build ID has what the file lists.
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

// cache keeps programs in a folder, each in a file whose name is its key. A file was last used at the time of its last modification.
type cache struct {
	folder string
	most   int64
	// free says how many bytes the disk of a folder has.
	free func(folder string) (int64, error)
}

// link writes a program, from the cache or by a linker.
func (c cache) link(key, output string, linker func() error) error {
	kept := filepath.Join(c.folder, key)
	if err := copyFile(kept, output); err == nil {
		now := time.Now()
		// Another process may have just removed it.
		_ = os.Chtimes(kept, now, now)
		return nil
	}
	if err := linker(); err != nil {
		return err
	}
	if err := c.keep(kept, output); err != nil {
		fmt.Fprintln(os.Stderr, "linkcache: the program is not kept:", err)
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

// copyFile copies a program. After an error, the target is unusable.
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
		// Otherwise, a crash of the machine could leave a renamed file without its content.
		err = target.Sync()
	}
	if err := errors.Join(err, target.Close()); err != nil {
		return fmt.Errorf("copy a program: %w", err)
	}
	return nil
}
