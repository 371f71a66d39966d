package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin/install"
)

// installed is the annotation of the Namespace of a run that installs the driver. Its value is a record, as JSON.
const installed = "csi-operators/installed"

// runLabel has the ID of the run that creates an object. So a run that was killed before it noted the UID still has a mark on what it has created. The
// next "oc storage install efs", which has the same field manager, removes the label.
const runLabel = "csi-operators/prove-run"

// record says which objects an installation has created. The clean-up deletes no other ones: others may have installed the driver since.
type record struct {
	// Run is the ID of the run.
	Run string `json:"run"`
	// Before names what was there before.
	Before []string `json:"before"`
	// Made has the UIDs of the objects that the installation has created.
	Made map[string]types.UID `json:"made"`
	// Coming is the ClusterServiceVersion that OLM was about to create when a clean-up looked.
	Coming string `json:"coming,omitempty"`
}

// recordOf reads the record of a Namespace. It is nil if the driver was not installed, or was uninstalled.
func recordOf(namespace *corev1.Namespace) (*record, error) {
	text, is := namespace.Annotations[installed]
	if !is {
		return nil, nil //nolint:nilnil // A run without an installation has no record, which is no error.
	}
	noted := &record{}
	if err := json.Unmarshal([]byte(text), noted); err != nil {
		return nil, fmt.Errorf("annotation %s of namespace %s: %w", installed, space, err)
	}
	if noted.Made == nil {
		noted.Made = map[string]types.UID{}
	}
	return noted, nil
}

// note writes the record.
func (p *proof) note(ctx context.Context, noted *record) error {
	text, err := json.Marshal(noted)
	if err != nil {
		return err
	}
	_, err = p.oc(ctx, "annotate", "--overwrite", "namespace", space, installed+"="+string(text))
	return err
}

// noteMade adds to the record what is new and has the run's label, or is of these kinds, and returns all objects that exist now. A UID that the record
// has stays: another object of that name is of others. If the Subscription is of others, OLM creates objects for them.
func (p *proof) noteMade(ctx context.Context, noted *record, is func(kind string) bool) (seen, error) {
	now, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	add := func(ours func(name string, one object) bool) {
		for name, one := range now {
			if _, known := noted.Made[name]; !known && ours(name, one) && !slices.Contains(noted.Before, name) {
				noted.Made[name] = one.uid
			}
		}
	}
	add(func(_ string, one object) bool { return noted.Run != "" && one.run == noted.Run })
	if one, there := now[subscriptionName]; !there || noted.made(subscriptionName, one) {
		add(func(name string, _ object) bool {
			kind, _, _ := strings.Cut(name, " ")
			return is(kind) || name == versionKind+" "+noted.Coming
		})
	}
	return now, p.note(ctx, noted)
}

// ofNone leaves only the objects with the run's label.
func ofNone(string) bool { return false }

// ofLeases is for the operator's Lease. Without the operator's Deployment, no other operator has one.
func ofLeases(kind string) bool { return kind == "Lease" }

// ofOLM reports whether OLM and the operator create objects of this kind. Administrators create the others.
func ofOLM(kind string) bool {
	return !slices.Contains([]string{
		"CatalogSource", "ClusterCSIDriver", "OperatorGroup", "Subscription", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	}, kind)
}

// made reports whether the installation has created this object.
func (r *record) made(name string, one object) bool { return one.uid != "" && r.Made[name] == one.uid }

// object is an object of an installation. Its path is that of its URL, and run is the value of its runLabel.
type object struct {
	uid       types.UID
	path, run string
}

func objectOf(one *unstructured.Unstructured) object {
	at := one.GroupVersionKind()
	plural, _ := meta.UnsafeGuessKindToResource(at)
	words := []string{"/apis", at.Group, at.Version}
	if at.Group == "" {
		words = []string{"/api", at.Version}
	}
	if one.GetNamespace() != "" {
		words = append(words, "namespaces", one.GetNamespace())
	}
	return object{one.GetUID(), strings.Join(append(words, plural.Resource, one.GetName()), "/"), one.GetLabels()[runLabel]}
}

// deleteExactly deletes this object, if it still has this UID. It does not wait for finalizers.
func (p *proof) deleteExactly(ctx context.Context, name string, one object) error {
	options, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &metav1.Preconditions{UID: &one.uid},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	if err != nil {
		return err
	}
	_, err = p.command(ctx, string(options), "oc", "delete", "--raw", one.path, "-f", "-")
	if err != nil && !strings.Contains(err.Error(), "(NotFound)") {
		return fmt.Errorf("delete %s with UID %s: %w", name, one.uid, err)
	}
	return nil
}

// seen has the objects of an installation by their name.
type seen map[string]object

func (s seen) names() []string { return slices.Sorted(maps.Keys(s)) }

// versions names the ClusterServiceVersions.
func (s seen) versions() []string {
	return slices.DeleteFunc(s.names(), func(name string) bool { return !strings.HasPrefix(name, versionKind+" ") })
}

// How a record names objects.
const (
	versionKind      = "ClusterServiceVersion"
	driverName       = "ClusterCSIDriver " + awsefs.Name
	subscriptionName = "Subscription " + kube.DefaultNamespace + "/" + awsefs.Operator
	catalogName      = "CatalogSource openshift-marketplace/csi-operators"
	groupName        = "OperatorGroup " + kube.DefaultNamespace + "/" + awsefs.Operator
	crdName          = "CustomResourceDefinition " + sharedVolumes
)

// read reads all objects of an installation.
func (p *proof) read(ctx context.Context) (seen, error) {
	found := seen{}
	resources := map[string][]string{kube.DefaultNamespace: {
		"clustercsidrivers.operator.openshift.io/" + awsefs.Name, subscription + "/" + awsefs.Operator,
	}}
	for _, one := range install.Leavings(kube.DefaultNamespace) {
		namespace, words := kube.DefaultNamespace, strings.Fields(one.Command)
		if words[1] == "-n" {
			namespace = words[2]
		}
		resources[namespace] = append(resources[namespace], strings.Join(words[len(words)-2:], "/"))
	}
	for namespace, names := range resources {
		if err := p.readThese(ctx, found, namespace, names); err != nil {
			return nil, err
		}
	}
	versions := &unstructured.UnstructuredList{}
	if _, err := p.get(ctx, versions, "-n", kube.DefaultNamespace, "clusterserviceversions.operators.coreos.com"); err != nil {
		return nil, err
	}
	for i := range versions.Items {
		one := &versions.Items[i]
		// OLM copies those of other namespaces (operator-framework/api, pkg/operators/v1alpha1, CopiedLabelKey).
		if _, copied := one.GetLabels()["olm.copiedFrom"]; !copied && strings.HasPrefix(one.GetName(), awsefs.Operator+".") {
			found[versionKind+" "+one.GetName()] = objectOf(one)
		}
	}
	return found, nil
}

// readThese reads objects by their resource and name, in one request if the cluster has all of their kinds.
func (p *proof) readThese(ctx context.Context, found seen, namespace string, names []string) error {
	list := &unstructured.Unstructured{}
	_, err := p.get(ctx, list, slices.Concat([]string{"-n", namespace}, names)...)
	if err != nil && strings.Contains(err.Error(), "the server doesn't have a resource type") {
		if len(names) == 1 {
			return nil
		}
		for _, name := range names {
			if err := p.readThese(ctx, found, namespace, []string{name}); err != nil {
				return err
			}
		}
		return nil
	}
	if err != nil || list.Object == nil {
		return err
	}
	// One object comes without a list.
	if !list.IsList() {
		found.add(list)
		return nil
	}
	return list.EachListItem(func(each runtime.Object) error {
		if one, is := each.(*unstructured.Unstructured); is {
			found.add(one)
		}
		return nil
	})
}

func (s seen) add(one *unstructured.Unstructured) { s[nameOf(one)] = objectOf(one) }

// nameOf names an object as the plugin does.
func nameOf(one *unstructured.Unstructured) string {
	return one.GetKind() + " " + strings.TrimPrefix(one.GetNamespace()+"/"+one.GetName(), "/")
}
