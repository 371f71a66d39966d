package operator

import (
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

// logs is a check for the liveness probe. A full pipe of the log stops every goroutine that logs: klog writes under its one lock, which a flush
// takes as well (klog v2.140.0, klog.go, output and lockAndFlushAll).
func logs(request *http.Request) error {
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
