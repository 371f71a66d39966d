package main

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"net"
	"net/rpc"
	"os"
	"path"
	gosync "sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// again is the time between two attempts of a request that no proxy has answered.
const again = 50 * time.Millisecond

// Client mounts shares on the node.
type Client struct{ far far }

// Place is what to mount where.
type Place struct{ Share, Target string }

func runClient() error {
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	if err := os.Remove(clientPlace); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", clientPlace)
	if err != nil {
		return err
	}
	if err := rpc.Register(&Client{}); err != nil {
		return err
	}
	fmt.Println("listens")
	rpc.Accept(listener)
	return errors.New("nothing listens any more")
}

// Mount mounts a share. It returns when a process may use the mount.
func (c *Client) Mount(place Place, _ *struct{}) error {
	_, err := fs.Mount(place.Target, &node{share: place.Share, far: &c.far}, &fs.Options{MountOptions: fuse.MountOptions{
		AllowOther: true, DirectMountStrict: true, FsName: place.Share, Name: "stand-in-for-nfs", DisableXAttrs: true,
	}})
	return err
}

// far is the proxy, whichever runs.
type far struct {
	mutex gosync.Mutex
	known *rpc.Client
}

// ask repeats a request until a proxy has answered. Only the end of the process that waits ends it.
func (f *far) ask(ctx context.Context, in Request) (Answer, syscall.Errno) {
	waits := 0
	for {
		var out Answer
		client, err := f.client()
		if err == nil {
			if err = client.Call("Proxy.Answer", in, &out); err == nil {
				if waits > 0 {
					report("%s goes on", in.Do)
				}
				return out, out.Errno
			}
			f.forget(client)
		}
		// A test wants to see that a request waits, and not for a moment only.
		if waits++; waits == 10 {
			report("%s waits", in.Do)
		}
		select {
		case <-ctx.Done():
			return out, syscall.EINTR
		case <-time.After(again):
		}
	}
}

func (f *far) client() (*rpc.Client, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.known != nil {
		return f.known, nil
	}
	var err error
	f.known, err = rpc.Dial("unix", proxyPlace)
	return f.known, err
}

func (f *far) forget(client *rpc.Client) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.known == client {
		_ = client.Close()
		f.known = nil
	}
}

// report prints the time since the machine started, as the lines of the writer have it, and what happens.
func report(format string, args ...any) {
	var up float64
	text, _ := os.ReadFile("/proc/uptime")
	_, _ = fmt.Sscan(string(text), &up)
	fmt.Printf("%.2f %s\n", up, fmt.Sprintf(format, args...))
}

// node is a file or a folder of a share.
type node struct {
	fs.Inode
	share string
	far   *far
}

func (n *node) at(name string) string { return path.Join(n.share, n.Path(n.Root()), name) }

// child asks for something that has an entry of this folder as its answer.
func (n *node) child(ctx context.Context, in Request, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	answer, errno := n.far.ask(ctx, in)
	if errno != 0 {
		return nil, errno
	}
	out.FromStat(&answer.Stat)
	stable := fs.StableAttr{Mode: answer.Stat.Mode & syscall.S_IFMT, Ino: answer.Stat.Ino}
	return n.NewInode(ctx, &node{share: n.share, far: n.far}, stable), 0
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.child(ctx, Request{Do: "stat", Path: n.at(name)}, out)
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.child(ctx, Request{Do: "mkdir", Path: n.at(name), Mode: mode}, out)
}

//nolint:unparam // go-fuse's interface has the handle.
func (n *node) Create(
	ctx context.Context, name string, _ uint32, mode uint32, out *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	found, errno := n.child(ctx, Request{Do: "create", Path: n.at(name), Mode: mode}, out)
	return found, nil, fuse.FOPEN_DIRECT_IO, errno
}

func (n *node) Getattr(ctx context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	answer, errno := n.far.ask(ctx, Request{Do: "stat", Path: n.at("")})
	out.FromStat(&answer.Stat)
	return errno
}

func (n *node) Setattr(ctx context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, is := in.GetSize(); is {
		if _, errno := n.far.ask(ctx, Request{Do: "truncate", Path: n.at(""), Offset: int64(size)}); errno != 0 {
			return errno
		}
	}
	if mode, is := in.GetMode(); is {
		if _, errno := n.far.ask(ctx, Request{Do: "chmod", Path: n.at(""), Mode: mode}); errno != 0 {
			return errno
		}
	}
	return n.Getattr(ctx, nil, out)
}

// Open returns no handle: each read and write names its file. Nothing is cached, so that each of them asks the proxy.
func (n *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (n *node) Read(ctx context.Context, _ fs.FileHandle, into []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	answer, errno := n.far.ask(ctx, Request{Do: "read", Path: n.at(""), Offset: offset, Size: len(into)})
	return fuse.ReadResultData(answer.Data), errno
}

func (n *node) Write(ctx context.Context, _ fs.FileHandle, content []byte, offset int64) (uint32, syscall.Errno) {
	answer, errno := n.far.ask(ctx, Request{Do: "write", Path: n.at(""), Offset: offset, Data: content})
	return uint32(max(answer.Count, 0)), errno
}

func (n *node) Fsync(ctx context.Context, _ fs.FileHandle, _ uint32) syscall.Errno {
	_, errno := n.far.ask(ctx, Request{Do: "sync", Path: n.at("")})
	return errno
}

func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	_, errno := n.far.ask(ctx, Request{Do: "unlink", Path: n.at(name)})
	return errno
}

func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno {
	_, errno := n.far.ask(ctx, Request{Do: "rmdir", Path: n.at(name)})
	return errno
}

func (n *node) Rename(ctx context.Context, name string, to fs.InodeEmbedder, newName string, _ uint32) syscall.Errno {
	parent, is := to.(*node)
	if !is {
		return syscall.EXDEV
	}
	_, errno := n.far.ask(ctx, Request{Do: "rename", Path: n.at(name), To: parent.at(newName)})
	return errno
}

func (n *node) Readdir(ctx context.Context) (fs.DirStream, syscall.Errno) {
	answer, errno := n.far.ask(ctx, Request{Do: "list", Path: n.at("")})
	var entries []fuse.DirEntry
	for _, entry := range answer.Entries {
		entries = append(entries, fuse.DirEntry{Name: entry.Name, Mode: entry.Mode, Ino: entry.Ino})
	}
	return fs.NewListDirStream(entries), errno
}

func (n *node) Statfs(ctx context.Context, out *fuse.StatfsOut) syscall.Errno {
	answer, errno := n.far.ask(ctx, Request{Do: "space", Path: n.at("")})
	out.FromStatfsT(&answer.Space)
	return errno
}
