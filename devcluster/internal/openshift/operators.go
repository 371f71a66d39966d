package openshift

import (
	operatorv1 "github.com/openshift/api/operator/v1"
	securityv1 "github.com/openshift/api/security/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operators returns the configuration of operators, and the objects that operators expect.
func (p Profile) operators() []client.Object {
	return []client.Object{p.cloudCredential(), storage(), privilegedConstraints()}
}

func (p Profile) cloudCredential() *operatorv1.CloudCredential {
	mode := operatorv1.CloudCredentialsModeMint
	if p.CredentialsMode != Mint {
		// A cluster with STS is also in manual mode. The only difference is the issuer in Authentication.
		mode = operatorv1.CloudCredentialsModeManual
	}
	return &operatorv1.CloudCredential{
		ObjectMeta: metav1.ObjectMeta{Name: singleton},
		Spec: operatorv1.CloudCredentialSpec{
			OperatorSpec:    operatorv1.OperatorSpec{ManagementState: operatorv1.Managed},
			CredentialsMode: mode,
		},
	}
}

func storage() *operatorv1.Storage {
	return &operatorv1.Storage{
		ObjectMeta: metav1.ObjectMeta{Name: singleton},
		Spec: operatorv1.StorageSpec{OperatorSpec: operatorv1.OperatorSpec{
			ManagementState: operatorv1.Managed, LogLevel: operatorv1.Normal, OperatorLogLevel: operatorv1.Normal,
		}},
	}
}

// privilegedConstraints returns SecurityContextConstraints that allow everything. A devcluster does not enforce SecurityContextConstraints. This
// object exists because pods name it, and roles allow its use.
func privilegedConstraints() *securityv1.SecurityContextConstraints {
	return &securityv1.SecurityContextConstraints{
		ObjectMeta:               metav1.ObjectMeta{Name: "privileged"},
		AllowPrivilegedContainer: true,
		AllowPrivilegeEscalation: ptr.To(true),
		AllowedCapabilities:      []corev1.Capability{securityv1.AllowAllCapabilities},
		AllowHostDirVolumePlugin: true,
		AllowHostIPC:             true,
		AllowHostNetwork:         true,
		AllowHostPID:             true,
		AllowHostPorts:           true,
		AllowedUnsafeSysctls:     []string{"*"},
		Volumes:                  []securityv1.FSType{securityv1.FSTypeAll},
		SELinuxContext:           securityv1.SELinuxContextStrategyOptions{Type: securityv1.SELinuxStrategyRunAsAny},
		RunAsUser:                securityv1.RunAsUserStrategyOptions{Type: securityv1.RunAsUserStrategyRunAsAny},
		SupplementalGroups:       securityv1.SupplementalGroupsStrategyOptions{Type: securityv1.SupplementalGroupsStrategyRunAsAny},
		FSGroup:                  securityv1.FSGroupStrategyOptions{Type: securityv1.FSGroupStrategyRunAsAny},
		SeccompProfiles:          []string{"*"},
		Groups:                   []string{mastersGroup, "system:nodes"},
		Users:                    []string{"system:admin"},
	}
}

const mastersGroup = "system:masters"
