package vspherehealth

import (
	"cmp"
	"slices"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// terminal reports whether only a change of the configuration can solve a connection error. A missing key of the Secret is not terminal, because the
// cloud-credential-operator may be about to write the key.
func terminal(reason vsphere.Reason) bool {
	return slices.Contains([]vsphere.Reason{
		cloudconfig.InvalidConfiguration, vsphere.LoginRefused, vsphere.NotAuthorized, vsphere.UntrustedCertificate,
	}, reason)
}

// checkConnection finds vCenters that do not answer. It reports a terminal error at once, and any other error after two minutes
// (vmware-vsphere-csi-driver-operator 030ff0e3, vspherecontroller.go, loginToVCenter; vsphere-problem-detector b2f09a5b,
// pkg/operator/vsphere_check.go, connect).
func checkConnection(in input) []finding {
	var found []finding
	for _, vc := range in.snapshot.VCenters {
		if vc.Err != nil && (terminal(vc.Err.Reason) || in.now.Sub(vc.FailingSince) >= status.FailureWindow) {
			// The error message begins with "vCenter" and this name, so findingsIn can read the name from the message.
			server := cmp.Or(vc.Server, "configuration")
			found = append(found, finding{severity: degrade, server: server, message: vc.Err.Error(), objects: 1})
		}
	}
	return found
}

// checkVerified finds vCenters whose certificate the driver does not verify. Neither OpenShift's operator nor the detector has this check. With
// OpenShift's operator, the driver verifies no certificate (vmware-vsphere-csi-driver-operator 030ff0e3, assets/csi_cloud_config_vcenters.ini).
func checkVerified(in input) []finding {
	var servers []string
	for _, vc := range in.snapshot.VCenters {
		if vc.Insecure {
			servers = append(servers, vc.Server)
		}
	}
	return findingsAbout("", warn, servers, "the cloud configuration sets insecure-flag for %s: an attacker between the cluster and the vCenter can "+
		"read the password. Add the CA of the vCenter to the cluster's trusted CAs, and remove insecure-flag")
}

// checkUser finds user names that the driver rejects (vsphere-problem-detector b2f09a5b, pkg/operator/vsphere_check.go,
// isValidvCenterUsernameWithDomain).
func checkUser(in input) []finding {
	var found []finding
	for _, vc := range in.vCenters() {
		// UserProblem checks the configured login, because the login of the session always has a domain.
		if problem := cloudconfig.UserProblem(vc.Login); vc.Login != "" && problem != "" {
			found = append(found, newFinding(vc.Server, warn, []string{vc.Login}, "user %q %s; %s. Correct it in Secret kube-system/vsphere-creds",
				problem, cloudconfig.UserAdvice))
		}
	}
	return found
}

// checkVCenterVersion finds vCenters that are too old (vmware-vsphere-csi-driver-operator 030ff0e3, check_vcenter.go; vsphere-problem-detector
// b2f09a5b, pkg/operator/operator.go, checkForDeprecation).
func checkVCenterVersion(in input) []finding {
	works, upgrades, _ := oldest()
	var found []finding
	for _, vc := range in.vCenters() {
		have, known := parseVersion(vc.APIVersion)
		version := []string{vc.APIVersion}
		switch {
		case !known:
			found = append(found, newFinding(vc.Server, blockUpgrade, version, "its version %q can't be parsed, so it may be too old"))
		case have.before(works):
			found = append(found, newFinding(vc.Server, degrade, version, "its version is %s, and the driver needs %s. Upgrade the vCenter to %s or newer",
				works, upgrades))
		case have.before(upgrades):
			found = append(found, newFinding(vc.Server, blockUpgrade, version, "its version is %s. Upgrade the vCenter to %s or newer before you update "+
				"OpenShift", upgrades))
		}
	}
	return found
}

// checkExistingDriver finds another vendor's driver of the same name (vmware-vsphere-csi-driver-operator 030ff0e3, check_existing_driver.go).
func checkExistingDriver(in input) []finding {
	if in.cluster.thirdParty == "" {
		return nil
	}
	return []finding{newFinding("", blockInstall, []string{in.cluster.thirdParty}, "another vendor's vSphere driver is installed: %s. Uninstall it as "+
		"its vendor documents, or set managementState Removed in the ClusterCSIDriver")}
}

// checkSeveralVCenters finds volumes of the in-tree plugin in clusters with several vCenters. Such a volume does not name its vCenter
// (vmware-vsphere-csi-driver-operator 030ff0e3, pkg/operator/driverfeaturescontroller.go, isCSIMigrationSupported).
func checkSeveralVCenters(in input) []finding {
	if len(in.snapshot.VCenters) < 2 {
		return nil
	}
	var names []string
	for _, one := range in.cluster.volumes {
		if one.inTree {
			names = append(names, one.name)
		}
	}
	return findingsAbout("", warn, names, "PersistentVolumes %s use the in-tree plugin kubernetes.io/vsphere-volume, which the driver can't replace "+
		"in clusters with several vCenters. Copy their data to volumes of the driver")
}
