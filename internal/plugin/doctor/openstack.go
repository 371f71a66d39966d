package doctor

import (
	"fmt"

	"github.com/csi-operators/csi-operators/internal/kube/volume"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// The CSI names of the drivers of OpenStack.
const (
	cinderName = "cinder.csi.openstack.org"
	manilaName = "manila.csi.openstack.org"
)

// tooLargeForCinder returns the symptom for Cinder's refusal to create or expand a volume beyond the size limit (cinder/exception.py,
// VolumeSizeExceedsLimit).
func tooLargeForCinder() symptom {
	return symptom{
		drivers: []string{cinderName},
		words:   []string{"volumesizeexceedslimit", "is larger than maximum allowed limit"},
		cause:   "The size is above the limit that the cluster's project has for one volume.",
		do:      "Ask for a smaller size, or for a higher limit in OpenStack.",
		command: "openstack quota show --volume",
		page:    pageCinderTrouble, topic: "event/cloudsize/DRIVER", effects: []string{"provision", "event/resize"},
	}
}

// ofOpenStack returns symptoms for the errors of OpenStack that the drivers quote (cloud-provider-openstack c453fb7c9,
// pkg/csi/cinder/controllerserver.go and pkg/csi/manila/share.go; the texts come from cinder/exception.py, manila/exception.py and keystone).
func ofOpenStack() []symptom {
	both, cinder, manila := []string{cinderName, manilaName}, []string{cinderName}, []string{manilaName}
	return []symptom{tooLargeForCinder(), {
		drivers: both,
		words:   []string{"due to exceeded quota", "limitexceeded", "quota exceeded", "quotas exceeded", "maximum number of", "overlimit"},
		cause:   "The cluster's project in OpenStack has reached its quota.",
		do:      "Delete unused volumes or shares, or ask for a larger quota.",
		command: "openstack quota show --volume",
		page:    pageCinderTrouble, topic: "event/cloudquota/DRIVER", effects: []string{"provision"},
	}, {
		drivers: both,
		words:   []string{"failed to authenticate", "authentication failed", "the request you have made requires authentication", "invalid credentials"},
		cause:   "OpenStack refuses the credentials of driver DRIVER.",
		do:      "Recreate the Secret with the driver's credentials. If they have expired, rotate the credentials of the whole cluster.",
		command: "oc describe clustercsidriver DRIVER",
		page:    pageCinderTrouble, topic: "event/clouds/DRIVER", effects: []string{"provision", "event/mount", "event/attach"},
	}, {
		drivers: both,
		words:   []string{"x509:", "failed to verify certificate"},
		cause:   "Driver DRIVER does not trust the certificate of OpenStack.",
		do:      "Put the CA certificates of the cloud into key ca-bundle.pem of ConfigMap cloud-provider-config.",
		command: "oc -n openshift-config get configmap cloud-provider-config -o yaml",
		page:    pageCinderTrouble, topic: "event/cloudca/DRIVER", effects: []string{"provision", "event/mount", "event/attach"},
	}, {
		drivers: manila,
		words:   []string{"share type"},
		cause:   "Manila no longer has the share type of the StorageClass.",
		do:      "Use a StorageClass of a share type that exists, or create the share type again.",
		command: "openstack share type list",
		page:    pageManilaTypes, topic: "event/sharetype", effects: []string{"provision"},
	}, {
		drivers: manila,
		words:   []string{"share server", "share network", "share-network"},
		cause:   "The share type needs a share server, but Manila can't create one, or has no share network for the server.",
		do:      "Name a share network in a StorageClass of your own, or look at the share server in OpenStack.",
		command: "openstack share network list",
		page:    pageManilaTypes, topic: "event/shareserver", effects: []string{"provision", "event/mount"},
	}, {
		drivers: manila,
		words:   []string{"is in error state", "invalid share status"},
		cause:   "Manila created the share, but it is in an error state.",
		do:      "Read the messages of the share in OpenStack.",
		command: "openstack share message list",
		page:    pageManilaTrouble, topic: "event/share", effects: []string{"provision", "event/mount"},
	}, {
		drivers: both,
		words:   []string{"no valid host", "no valid backend", "no weighed backends"},
		cause:   "No OpenStack backend fits the type, the zone and the size of the volume.",
		do:      "Compare the StorageClass with the types, zones and free space of the cloud.",
		command: "openstack volume type list --long",
		page:    pageCinderTrouble, topic: "event/backend/DRIVER", effects: []string{"provision"},
	}, {
		drivers: cinder,
		words:   []string{"availability zone"},
		cause:   "Cinder has no availability zone with the name of the node's zone.",
		do:      `Set enable_topology to "false" in ConfigMap openshift-config/cinder-csi-config, or name a zone in the StorageClass.`,
		command: "openstack availability zone list --volume",
		page:    pageCinderZones, topic: "event/zones", effects: []string{"provision", "event/attach"},
	}}
}

// cloudLacks finds drivers that their operators did not install, because the cloud lacks a service or does not answer. It reports only drivers that
// the subject or a StorageClass needs. It skips vSphere, because function vSphere reports this problem.
func cloudLacks(f *facts) []Finding {
	return f.each(func(d survey.Driver) *Finding {
		disabled := d.Disabled()
		if disabled == nil || d.Name == vSphereName || (f.classOf(d.Name) == "" && f.subject == nil) {
			return nil
		}
		found := Finding{
			Severity: Error, Object: crOf(d.Name), Page: string(pageManilaTrouble), Said: clip(disabled.Message), topic: topicOf("disabled", d.Name),
			Cause: fmt.Sprintf("Driver %s is not installed, because the cloud lacks the service that it needs.", d.Name), effects: ofDriver(d.Name),
			Do: "Add the service to the cloud, or use another driver.", Command: "openstack catalog list", level: ofCloud,
		}
		if disabled.Reason != "DriverDisabled" {
			found.Cause = fmt.Sprintf("Driver %s is not installed, because the cloud does not answer its operator.", d.Name)
			found.Do, found.Command = "Do what the message says.", toCopy("oc describe clustercsidriver %s", d.Name)
		}
		return &found
	})
}

// classOf returns the name of a StorageClass of a driver. If the driver has no StorageClass, the name is empty.
func (f *facts) classOf(driver string) (class string) {
	for _, one := range f.classes.items {
		if volume.Provisioner(one.Provisioner) == driver {
			class = one.Name
		}
	}
	return class
}
