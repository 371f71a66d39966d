package operator

import (
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

// checkLog fails the liveness probe while log output blocks. A full log pipe blocks every goroutine that logs, because klog writes under one lock.
// Flush needs the same lock, so the check detects the block (klog v2.140.0, klog.go, output and lockAndFlushAll).
func checkLog(request *http.Request) error {
	ctx, cancel := context.WithTimeout(request.Context(), time.Second)
	defer cancel()
	written := make(chan struct{})
	go func() {
		klog.Flush()
		close(written)
	}()
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		return errors.New("the log can't be written: its pipe is full, because no process reads it")
	}
}
