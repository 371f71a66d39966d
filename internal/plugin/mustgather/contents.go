package mustgather

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ContentsFile is the name of the file in which "oc storage collect" lists what it has read.
const ContentsFile = "contents.json"

// Contents lists the kinds of which an archive has all objects, within the kind's Scope. If an object of such a kind is not in the archive, the
// object did not exist in the cluster.
type Contents struct {
	Time time.Time `json:"time"`
	// Namespaces are the namespaces of drivers and their operators. Kinds with Scope InNamespaces are complete only in these namespaces.
	Namespaces []string `json:"namespaces"`
	Kinds      []Kind   `json:"kinds"`
}

// Kind is a kind of which "oc storage collect" has read all objects within the Scope.
type Kind struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	Scope string `json:"scope"`
}

// The scopes of a Kind.
const (
	Everywhere   = "Everywhere"
	InNamespaces = "InNamespaces"
)

func (f *Folder) takeContents(name string, data []byte) {
	found := &Contents{}
	if path.Base(name) != ContentsFile {
		return
	}
	if err := json.Unmarshal(data, found); err != nil {
		f.skip(name, fmt.Errorf("the file can't be read: %w", err))
		return
	}
	f.contents = found
	f.dated(found.Time)
}

// Lacks reports whether the folder may lack objects of a kind in a namespace. If it may, an absent object does not prove that the object did not
// exist. An empty namespace stands for the whole cluster. Without a list of contents, the folder counts as complete for a kind if it has at least one
// object of this kind in the namespace.
func (f *Folder) Lacks(kind schema.GroupKind, namespace string) bool {
	if f.contents != nil {
		i := slices.IndexFunc(f.contents.Kinds, func(one Kind) bool { return one.Group == kind.Group && one.Kind == kind.Kind })
		return i < 0 || f.contents.Kinds[i].Scope == InNamespaces && namespace != "" && !slices.Contains(f.contents.Namespaces, namespace)
	}
	for gvk, objects := range f.objects {
		if gvk.GroupKind() != kind {
			continue
		}
		for key := range objects {
			if namespace == "" || key.Namespace == "" || key.Namespace == namespace {
				return false
			}
		}
	}
	return true
}
