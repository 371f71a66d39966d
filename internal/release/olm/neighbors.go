package olm

import "fmt"

// neighbors returns operators of other repositories that OLM installs into the drivers' namespace. Each key is the name of an operator's package and
// Deployment. Each value is the CSI name of the operator's driver. Sources: openshift/csi-operator f7f9dc59, config/samba/manifests;
// openshift/gcp-filestore-csi-driver-operator 9c951b92 and openshift/secrets-store-csi-driver-operator c32fe905, config/manifests/stable.
func neighbors() map[string]string {
	return map[string]string{
		"smb-csi-driver-operator":           "smb.csi.k8s.io",
		"gcp-filestore-csi-driver-operator": "filestore.csi.storage.gke.io",
		"secrets-store-csi-driver-operator": "secrets-store.csi.k8s.io",
	}
}

// Clash returns a text about the conflict with an operator of Red Hat in the same namespace. Such a conflict exists if the operators, or their
// drivers, have the same name. If there is no conflict, the text is empty.
func Clash(operator, driver string) string {
	for name, operated := range neighbors() {
		switch {
		case operator == name:
			return fmt.Sprintf("Red Hat's operator is also named %s, and its objects have the same names as yours. Where both are installed, each "+
				"operator overwrites the objects of the other. Choose another --prefix and --short-prefix", name)
		case driver == operated:
			return fmt.Sprintf("Red Hat's operator %s installs a driver of the same name, %s. A cluster can have only one of the two: say so in the "+
				"description", name, driver)
		}
	}
	return ""
}
