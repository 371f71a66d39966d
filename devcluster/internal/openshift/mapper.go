package openshift

import (
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	securityv1 "github.com/openshift/api/security/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// newMapper returns a mapper for the few kinds that the installer handles. It does not ask the API server, which learns about new kinds with a
// delay.
func newMapper(scheme *runtime.Scheme) (meta.RESTMapper, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	core, global := corev1.SchemeGroupVersion, meta.RESTScopeRoot
	scopes := map[schema.GroupVersionKind]meta.RESTScope{
		core.WithKind("Namespace"):                                              global,
		core.WithKind("Node"):                                                   global,
		core.WithKind("ServiceAccount"):                                         meta.RESTScopeNamespace,
		core.WithKind("ConfigMap"):                                              meta.RESTScopeNamespace,
		core.WithKind("Service"):                                                meta.RESTScopeNamespace,
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):                meta.RESTScopeNamespace,
		apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"): global,
		storagev1.SchemeGroupVersion.WithKind("CSINode"):                        global,
	}
	for _, kind := range []string{"APIServer", "Authentication", "ClusterVersion", "FeatureGate", "Infrastructure", "Proxy"} {
		scopes[configv1.GroupVersion.WithKind(kind)] = global
	}
	for _, kind := range []string{"CloudCredential", "Storage"} {
		scopes[operatorv1.GroupVersion.WithKind(kind)] = global
	}
	for _, kind := range []string{"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"} {
		scopes[admissionv1.SchemeGroupVersion.WithKind(kind)] = global
	}
	for kind, scope := range scopes {
		if !scheme.Recognizes(kind) {
			return nil, fmt.Errorf("register API types: %s is unknown", kind)
		}
		mapper.Add(kind, scope)
	}
	// The plural of this kind does not follow the usual rule.
	constraints := securityv1.GroupVersion.WithResource("securitycontextconstraints")
	mapper.AddSpecific(securityv1.GroupVersion.WithKind("SecurityContextConstraints"), constraints, constraints, global)
	return mapper, nil
}
