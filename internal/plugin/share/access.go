package share

import (
	"context"
	"fmt"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// rules are the objects that decide which shares a namespace without a list (annotation allowed-shares) may use.
type rules struct {
	// driver is the ClusterCSIDriver, and policy is the admission policy of SharedVolumes. A field is nil if its object does not exist. closed means
	// that the cluster also has the admission policy that refuses SharedVolumes in namespaces without a list.
	driver *operatorv1.ClusterCSIDriver
	policy *admissionv1.ValidatingAdmissionPolicy
	closed bool
	// hidden means that the user lacks permission to read the policies.
	hidden bool
}

func observeRules(ctx context.Context, c *plugin.Cluster) (rules, error) {
	var found rules
	driver, policy := &operatorv1.ClusterCSIDriver{}, &admissionv1.ValidatingAdmissionPolicy{}
	there, err := c.Find(ctx, client.ObjectKey{Name: efs.DriverName}, driver)
	if err != nil {
		return found, err
	}
	if there {
		found.driver = driver
	}
	before := len(c.Missing())
	if there, err = c.Find(ctx, client.ObjectKey{Name: efs.SharedVolumesName}, policy); err != nil {
		return found, err
	}
	if there {
		found.policy = policy
	}
	found.closed, err = c.Find(ctx, client.ObjectKey{Name: efs.UnlistedPolicy}, &admissionv1.ValidatingAdmissionPolicy{})
	found.hidden = len(c.Missing()) > before
	return found, err
}

// access says which shares a namespace may use, and why.
type access struct {
	limits efs.Limits
	// unknown is empty if the limits are known. If not, unknown names the missing permission, without which the command can't find out the limits.
	unknown string
	why     string
}

// accessOf evaluates the rules for a namespace. It is pure. Parameter namespace is nil if the user lacks permission to read the namespace.
func accessOf(name string, namespace *corev1.Namespace, r rules) access {
	found := access{limits: efs.Limits{Namespace: name}}
	if namespace == nil {
		found.unknown = "you lack permission to read Namespace " + name + ": its annotation " + efs.AllowedAnnotation + " lists the shares that it may use"
		return found
	}
	if found.limits.List, found.limits.Listed = namespace.Annotations[efs.AllowedAnnotation]; found.limits.Listed {
		found.why = fmt.Sprintf("annotation %s of the namespace allows %s", efs.AllowedAnnotation, listText(found.limits.List))
		return found
	}
	var annotations map[string]string
	if r.driver != nil {
		annotations = r.driver.Annotations
	}
	value, set := annotations[efs.UnlistedAnnotation]
	closed, known := efs.IsClosed(annotations, efs.UnlistedAllow)
	says := fmt.Sprintf("annotation %s=%s of ClusterCSIDriver %s says", efs.UnlistedAnnotation, value, efs.DriverName)
	if !known {
		says = fmt.Sprintf("annotation %s of ClusterCSIDriver %s has the unknown value %q", efs.UnlistedAnnotation, efs.DriverName, value)
	}
	switch {
	case r.hidden:
		found.unknown = "the namespace has no list, and you lack permission to read ValidatingAdmissionPolicy " + efs.UnlistedPolicy +
			", which may deny every share to such namespaces"
		return found
	case r.policy == nil:
		// The cluster has no ValidatingAdmissionPolicy for SharedVolumes, for instance because it is older than Kubernetes 1.30. So only the operator
		// decides.
		if found.limits.Closed = closed; !set {
			says = "the cluster has no policy for SharedVolumes, and annotation " + efs.UnlistedAnnotation + " is not set"
		}
	default:
		if found.limits.Closed = r.closed; !set {
			says = fmt.Sprintf("the default of this cluster is %s", r.policy.Annotations[efs.DefaultAnnotation])
		}
	}
	may := "everything"
	if found.limits.Closed {
		may = "nothing"
	}
	found.why = "the namespace has no list and may use " + may + ": " + says
	return found
}

func listText(list string) string {
	var entries []string
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			entries = append(entries, entry)
		}
	}
	if len(entries) == 0 {
		return "nothing"
	}
	return strings.Join(entries, ", ")
}

// Answers to the question whether a share is allowed.
const (
	yes     = "yes"
	no      = "no"
	unclear = "unknown"
)

// evaluate returns whether the namespace may use a share. If not, it also returns the reason.
func (a access) evaluate(share efs.Share) (allowed, why string) {
	if a.unknown != "" {
		return unclear, ""
	}
	if denied := a.limits.Denied(share); denied != "" {
		return no, denied
	}
	return yes, ""
}
