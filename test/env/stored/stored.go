// Package stored reads what an API server keeps in etcd: every object of every kind, in one request. From the API server that takes a list of
// each of seventy kinds. No name of a key is interpreted: an object says itself what it is.
package stored

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Where the API server keeps objects in etcd: its flag --etcd-prefix, and the first key behind it.
const (
	registry    = "/registry/"
	registryEnd = "/registry0"
)

// Store reads from an etcd. It reads nothing twice that has not changed.
type Store struct {
	// URL is where etcd listens.
	URL string

	mutex sync.Mutex
	// known are the objects of a revision.
	known    map[string]object
	revision int64
}

// object is one at a revision.
type object struct {
	revision string
	metadata *metav1.PartialObjectMetadata
}

// entry is a key of etcd in the JSON of its gateway: bytes are base64, and numbers are strings (etcd v3.6.8, api/etcdserverpb/rpc.proto).
type entry struct {
	Key, Value  []byte
	ModRevision string `json:"mod_revision"`
}

// Objects returns the metadata of every object in the cluster, with current resource versions, except for events, leases and the API server's
// internals. It reuses earlier answers. Callers must not change it.
func (s *Store) Objects(ctx context.Context) ([]*metav1.PartialObjectMetadata, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	changed, err := s.ask(ctx, map[string]any{"min_mod_revision": s.revision + 1})
	if err != nil {
		return nil, err
	}
	now := maps.Clone(s.known)
	if now == nil {
		now = map[string]object{}
	}
	for _, one := range changed.Kvs {
		metadata, err := decode(one)
		if err != nil {
			return nil, err
		}
		now[string(one.Key)] = object{revision: one.ModRevision, metadata: metadata}
	}
	// Etcd counts all keys, however few have changed. With fewer than are known, some were deleted.
	if changed.Count != len(now) {
		if err := s.dropDeleted(ctx, now, changed.Header.Revision); err != nil {
			return nil, err
		}
	}
	s.known, s.revision = now, changed.Header.Revision
	found := make([]*metav1.PartialObjectMetadata, 0, len(now))
	for _, one := range now {
		if !comesAndGoes(one.metadata) {
			found = append(found, one.metadata)
		}
	}
	return found, nil
}

// Reset lets the store read all of it anew: etcd was set back.
func (s *Store) Reset() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.known, s.revision = nil, 0
}

// dropDeleted lists the keys of a revision, and drops all others. To list them is most of what etcd does for a snapshot.
func (s *Store) dropDeleted(ctx context.Context, known map[string]object, revision int64) error {
	left, err := s.ask(ctx, map[string]any{"keys_only": true, "revision": revision})
	if err != nil {
		return err
	}
	isThere := map[string]bool{}
	for _, one := range left.Kvs {
		isThere[string(one.Key)] = true
	}
	maps.DeleteFunc(known, func(key string, _ object) bool { return !isThere[key] })
	return nil
}

// NameOf is "Kind.group namespace/name", by which snapshots know an object.
func NameOf(object client.Object) string {
	return fmt.Sprintf("%s %s/%s", object.GetObjectKind().GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName())
}

// comesAndGoes is true for what is no part of any snapshot.
func comesAndGoes(found *metav1.PartialObjectMetadata) bool {
	switch found.Kind {
	case "Event", "Lease", "RangeAllocation":
		return true
	}
	if found.Name == "" {
		// How long an address of the API server counts.
		return true
	}
	group := found.GroupVersionKind().Group
	return group == "apiserver.k8s.io" || strings.HasPrefix(group, "internal.")
}

// answer is what etcd says about a range of keys. Count is that of all keys of the range, whatever else was asked for.
type answer struct {
	Header struct {
		Revision int64 `json:",string"`
	}
	Kvs   []entry
	Count int `json:",string"`
}

// ask asks etcd for the keys of the API server.
func (s *Store) ask(ctx context.Context, options map[string]any) (answer, error) {
	var found answer
	options["key"] = base64.StdEncoding.EncodeToString([]byte(registry))
	options["range_end"] = base64.StdEncoding.EncodeToString([]byte(registryEnd))
	question, err := json.Marshal(options)
	if err != nil {
		return found, fmt.Errorf("ask etcd: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v3/kv/range", bytes.NewReader(question))
	if err != nil {
		return found, fmt.Errorf("ask etcd: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return found, fmt.Errorf("ask etcd: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return found, fmt.Errorf("ask etcd: %s %s: %w", response.Status, text, err)
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return found, fmt.Errorf("ask etcd: %w", err)
	}
	return found, nil
}

// decode reads the metadata of an object, in JSON or in protobuf. In protobuf it is the first field of every kind, behind an envelope that says
// which kind it is (k8s.io/apimachinery v0.36.3, pkg/runtime/serializer/protobuf/doc.go).
func decode(one entry) (*metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadata{}
	var err error
	if content, isProtobuf := bytes.CutPrefix(one.Value, []byte("k8s\x00")); isProtobuf {
		envelope := runtime.Unknown{}
		if err = envelope.Unmarshal(content); err == nil {
			err = found.Unmarshal(envelope.Raw)
		}
		found.TypeMeta = metav1.TypeMeta{APIVersion: envelope.APIVersion, Kind: envelope.Kind}
	} else {
		err = json.Unmarshal(one.Value, found)
	}
	if err == nil && found.Kind == "" {
		err = errors.New("it says no kind")
	}
	if found.GroupVersionKind().Group == "apiextensions.k8s.io" {
		// They are kept in a version that is not served any more.
		found.APIVersion = "apiextensions.k8s.io/v1"
	}
	if err != nil {
		return nil, fmt.Errorf("read etcd: %s: %w", one.Key, err)
	}
	found.ResourceVersion = one.ModRevision
	return found, nil
}
