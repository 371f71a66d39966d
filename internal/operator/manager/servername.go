package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ServerName corrects the TLS server name in the operator's ServiceMonitor. The server name contains the operator's namespace. In an OLM bundle, the
// server name has a fixed namespace. OLM can install the bundle into any namespace, and does not change the server name.
type ServerName struct {
	Client client.Client
	Live   client.Reader
	// Namespace is the operator's namespace. Monitor is the name of the ServiceMonitor, and Service the name of the Service.
	Namespace, Monitor, Service string
}

// Start corrects the name once, when the operator becomes the leader. That is enough, because a new ServiceMonitor comes with a new operator. Start
// returns no error, because the driver does not depend on the ServiceMonitor.
func (s ServerName) Start(ctx context.Context) error {
	pauses := wait.Backoff{Duration: time.Second, Factor: 4, Steps: 5}
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, pauses, func(ctx context.Context) (bool, error) {
		last = s.correct(ctx)
		return last == nil, nil
	})
	if err != nil && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(last, "Prometheus may fail to scrape the operator's metrics", "ServiceMonitor", s.Monitor)
	}
	return nil
}

func (s ServerName) correct(ctx context.Context) error {
	monitor := &unstructured.Unstructured{}
	monitor.SetGroupVersionKind(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"})
	key := client.ObjectKey{Namespace: s.Namespace, Name: s.Monitor}
	if err := s.Live.Get(ctx, key, monitor); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("read ServiceMonitor %s: %w", key, err)
	}
	endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
	if err != nil {
		return fmt.Errorf("read the endpoints of ServiceMonitor %s: %w", key, err)
	}
	changes := s.changes(endpoints)
	if len(changes) == 0 {
		return nil
	}
	patch, err := json.Marshal(changes)
	if err != nil {
		return fmt.Errorf("encode the patch of ServiceMonitor %s: %w", key, err)
	}
	if err := s.Client.Patch(ctx, monitor, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return fmt.Errorf("correct the server name of ServiceMonitor %s: %w", key, err)
	}
	return nil
}

// changes returns the operations of a JSON patch. They correct each server name that has the operator's Service and a wrong namespace.
func (s ServerName) changes(endpoints []any) []map[string]any {
	var changes []map[string]any
	want := s.Service + "." + s.Namespace + ".svc"
	for i, endpoint := range endpoints {
		fields, ok := endpoint.(map[string]any)
		if !ok {
			continue
		}
		name, _, err := unstructured.NestedString(fields, "tlsConfig", "serverName")
		if err != nil || name == want || !strings.HasPrefix(name, s.Service+".") || !strings.HasSuffix(name, ".svc") {
			continue
		}
		path := fmt.Sprintf("/spec/endpoints/%d/tlsConfig/serverName", i)
		changes = append(changes, map[string]any{"op": "test", "path": path, "value": name}, map[string]any{"op": "replace", "path": path, "value": want})
	}
	return changes
}
