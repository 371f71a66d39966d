package operator

import (
	"errors"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"k8s.io/klog/v2"
)

// The kubelet restarts an operator whose pipe of the log is full. Another pipe replaces the standard error of this process for a while.
func TestAnOperatorThatCanNotLogIsNotAlive(t *testing.T) {
	request := httptest.NewRequestWithContext(t.Context(), "GET", "/healthz", nil)
	if err := checkLog(request); err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// Until then the pipe is filled.
	if err := writer.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = writer.Write(make([]byte, 4096))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if err := writer.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = writer
	logged := make(chan struct{})
	go func() {
		klog.Background().Info("a line for which the pipe has no room")
		close(logged)
	}()
	for checkLog(request) == nil {
	}
	go func() {
		rest := make([]byte, 4096)
		for {
			if _, err := reader.Read(rest); err != nil {
				return
			}
		}
	}()
	<-logged
	os.Stderr = before
	if err := errors.Join(checkLog(request), writer.Close(), reader.Close()); err != nil {
		t.Error(err)
	}
}
