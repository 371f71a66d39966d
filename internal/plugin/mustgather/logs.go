package mustgather

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// logBytes is the number of bytes that a Folder keeps from the end of each log.
const logBytes = 256 << 10

// logOf identifies the log of a container.
type logOf struct{ namespace, pod, container string }

// Log returns the end of a container's log. The text is empty if the folder has no such log.
func (f *Folder) Log(namespace, pod, container string) string {
	return f.logs[logOf{namespace, pod, container}]
}

// Time returns the time of the newest file, which is about the time when the folder was gathered. A copy of the folder can have a later time.
func (f *Folder) Time() time.Time { return f.newest }

func (f *Folder) dated(at time.Time) {
	if at.After(f.newest) {
		f.newest = at
	}
}

func holdsLog(path string) bool { return strings.HasSuffix(path, ".log") }

// takeLog keeps the log of a container if it recognizes the path of the log. "oc storage collect" writes logs/NAMESPACE/POD/CONTAINER.log.
// must-gather writes namespaces/NAMESPACE/pods/POD/CONTAINER/CONTAINER/logs/current.log.
func (f *Folder) takeLog(path, text string) {
	parts := strings.Split(path, "/")
	last := len(parts) - 1
	at := slices.Index(parts, "logs")
	switch {
	case at >= 0 && at+3 == last:
		f.logs[logOf{parts[at+1], parts[at+2], strings.TrimSuffix(parts[last], ".log")}] = text
	case last >= 7 && parts[last] == "current.log" && parts[last-1] == "logs" && parts[last-5] == "pods":
		f.logs[logOf{parts[last-6], parts[last-4], parts[last-3]}] = text
	}
}

// tail returns the last logBytes of a text.
func tail(from io.Reader) (string, error) {
	var kept []byte
	for chunk := make([]byte, logBytes); ; {
		n, err := io.ReadFull(from, chunk)
		kept = append(kept, chunk[:n]...)
		if over := len(kept) - logBytes; over > 0 {
			kept = slices.Clone(kept[over:])
		}
		if err != nil {
			if n < len(chunk) && (err == io.EOF || err == io.ErrUnexpectedEOF) {
				return string(kept), nil
			}
			return "", fmt.Errorf("read a log: %w", err)
		}
	}
}

// readLog keeps the log in a file of a folder.
func (f *Folder) readLog(root *os.Root, path string, entry fs.DirEntry) {
	if !entry.Type().IsRegular() {
		return
	}
	file, err := root.Open(path)
	if err == nil {
		defer func() { _ = file.Close() }()
		var text string
		if text, err = tail(file); err == nil {
			f.takeLog(path, text)
		}
	}
	if err != nil {
		f.skip(path, err)
	}
}
