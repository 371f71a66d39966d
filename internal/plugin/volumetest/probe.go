package volumetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

const (
	// probeBytes is the size of the file that a pod writes.
	probeBytes = 4 << 20
	// terminationLog is the file with the termination message of a container. The kubelet copies the message into the pod's status.
	terminationLog = "/dev/termination-log"
)

// measured is the result that a pod reports about its volume. Times are in milliseconds.
type measured struct {
	Write int64 `json:"write"`
	Read  int64 `json:"read"`
	// Cached means that reads of this file system can't bypass the memory of the node, so the data may come from this memory.
	Cached bool `json:"cached,omitempty"`
}

// probe runs in the pods. It writes a file to a folder, reads the file back and deletes it.
func probe(folder string, out io.Writer) error {
	said, err := tryFolder(folder, readDirect)
	text, _ := json.Marshal(said)
	if err != nil {
		text = []byte(err.Error())
	}
	_, _ = fmt.Fprintln(out, string(text))
	// Only a pod has this file.
	if _, missing := os.Stat(terminationLog); missing == nil {
		err = errors.Join(err, os.WriteFile(terminationLog, text, 0o600))
	}
	return err
}

// tryFolder writes, reads and deletes a file. Function direct reads the file, and bypasses the memory of the node. If the file system can't bypass
// this memory, direct returns errors.ErrUnsupported.
func tryFolder(folder string, direct func(name string, size int) ([]byte, error)) (said measured, failure error) {
	name := filepath.Join(filepath.Clean(folder), ".oc-storage-test")
	content := make([]byte, probeBytes)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(content)
	begin := time.Now()
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return said, fmt.Errorf("create a file: %w", err)
	}
	defer func() {
		if err := os.Remove(name); err != nil && failure == nil {
			failure = fmt.Errorf("delete the file: %w", err)
		}
	}()
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return said, fmt.Errorf("write %d bytes: %w", probeBytes, err)
	}
	said.Write = time.Since(begin).Milliseconds()
	begin = time.Now()
	back, err := direct(name, probeBytes)
	if said.Cached = errors.Is(err, errors.ErrUnsupported); said.Cached {
		begin = time.Now()
		back, err = os.ReadFile(name)
	}
	if err != nil {
		return said, fmt.Errorf("read the file: %w", err)
	}
	said.Read = time.Since(begin).Milliseconds()
	if !bytes.Equal(content, back) {
		return said, errors.New("the volume returned other data than the pod wrote")
	}
	return said, nil
}
