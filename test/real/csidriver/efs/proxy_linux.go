package main

import (
	"errors"
	"io/fs"
	"net"
	"net/rpc"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// Request is what the client asks of a proxy. To repeat one changes nothing more.
type Request struct {
	Do string
	// Path begins with the share. To is where "rename" moves it.
	Path, To string
	Offset   int64
	Size     int
	Mode     uint32
	Data     []byte
}

// Answer is what a proxy answers.
type Answer struct {
	Errno syscall.Errno
	Stat  syscall.Stat_t
	Space syscall.Statfs_t
	Data  []byte
	Count int
	// Entries are names and types.
	Entries []Entry
}

// Entry is one of a folder.
type Entry struct {
	Name string
	Mode uint32
	Ino  uint64
}

// Proxy answers from the folder.
type Proxy struct{}

func runProxy() error {
	if err := os.Remove(proxyPlace); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", proxyPlace)
	if err != nil {
		return err
	}
	if err := rpc.Register(&Proxy{}); err != nil {
		return err
	}
	rpc.Accept(listener)
	return errors.New("nothing listens any more")
}

// Answer does what a request asks for.
//
//nolint:unparam // Package net/rpc only serves methods that return an error.
func (*Proxy) Answer(in Request, out *Answer) error {
	at := filepath.Join(data, path.Clean("/"+in.Path))
	do := map[string]func(string, Request, *Answer) error{
		"stat": stat, "space": space, "list": list, "read": read, "write": write, "sync": sync,
		"create": func(at string, in Request, out *Answer) error {
			file, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, os.FileMode(in.Mode&0o777))
			if err != nil {
				return err
			}
			return errors.Join(file.Close(), stat(at, in, out))
		},
		"mkdir": func(at string, in Request, out *Answer) error {
			if err := syscall.Mkdir(at, in.Mode); err != nil && !errors.Is(err, syscall.EEXIST) {
				return err
			}
			return stat(at, in, out)
		},
		"truncate": func(at string, in Request, out *Answer) error {
			return errors.Join(syscall.Truncate(at, in.Offset), stat(at, in, out))
		},
		"chmod": func(at string, in Request, out *Answer) error {
			return errors.Join(syscall.Chmod(at, in.Mode), stat(at, in, out))
		},
		"unlink": func(at string, _ Request, _ *Answer) error { return syscall.Unlink(at) },
		"rmdir":  func(at string, _ Request, _ *Answer) error { return syscall.Rmdir(at) },
		"rename": func(at string, in Request, _ *Answer) error {
			return syscall.Rename(at, filepath.Join(data, path.Clean("/"+in.To)))
		},
	}[in.Do]
	if do == nil {
		out.Errno = syscall.ENOSYS
		return nil
	}
	if err := do(at, in, out); err != nil && !errors.As(err, &out.Errno) {
		out.Errno = syscall.EIO
	}
	return nil
}

func stat(at string, _ Request, out *Answer) error { return syscall.Lstat(at, &out.Stat) }

func space(at string, _ Request, out *Answer) error { return syscall.Statfs(at, &out.Space) }

func list(at string, _ Request, out *Answer) error {
	entries, err := os.ReadDir(at)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			// It was deleted meanwhile.
			continue
		}
		if known, is := info.Sys().(*syscall.Stat_t); is {
			out.Entries = append(out.Entries, Entry{Name: entry.Name(), Mode: known.Mode & syscall.S_IFMT, Ino: known.Ino})
		}
	}
	return err
}

func read(at string, in Request, out *Answer) error {
	file, err := syscall.Open(at, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(file) }()
	out.Data = make([]byte, in.Size)
	count, err := syscall.Pread(file, out.Data, in.Offset)
	out.Data = out.Data[:max(count, 0)]
	return err
}

func write(at string, in Request, out *Answer) error {
	file, err := syscall.Open(at, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(file) }()
	out.Count, err = syscall.Pwrite(file, in.Data, in.Offset)
	return err
}

func sync(at string, _ Request, _ *Answer) error {
	file, err := syscall.Open(at, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(syscall.Fsync(file), syscall.Close(file))
}
