package awsefs

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

// Attributes of PersistentVolumes. The driver ignores the case of their names.
const (
	encryption = "encryptInTransit"
	targetIP   = "mounttargetip"
	targetIPs  = "mounttargetipmap"
	subPath    = "path"
)

// Versions in which the driver began to read a PersistentVolume in another way.
const (
	// hexadecimal is the first version that checks the digits of IDs, and that refuses the attribute "path" and the mount option "crossaccount".
	hexadecimal = "3.0.0"
	// parsesIP is the first version that checks addresses.
	parsesIP = "3.0.1"
	// parsesIPs is the first version that checks each address of a map (CVE-2026-103505).
	parsesIPs = "3.5.0"
	// encrypts is the first version that mounts with TLS unless an attribute disables it.
	encrypts = "1.0.0"
)

// ofVolumes returns the values that the driver accepts in PersistentVolumes. Most sources are a version or a commit of the driver, and a place in its
// file pkg/driver/node.go.
func ofVolumes() accept.Table {
	const place = " pkg/driver/node.go NodePublishVolume"
	return accept.Table{
		// Before 1.0.0, drivers do not know the attribute encryptInTransit.
		{Of: accept.Attribute, Name: encryption, Since: encrypts, Match: boolean, Why: wantsBoolean, Source: "v1.0.0" + place},
		{Of: accept.Attribute, Name: targetIP, Since: "1.3.0", Before: parsesIP, Source: "v1.3.0 and v3.0.0" + place},
		{Of: accept.Attribute, Name: targetIP, Since: parsesIP, Why: "must be an IP address", Source: "v3.0.1" + place,
			Accepts: func(value string) bool { return net.ParseIP(value) != nil }},
		{Of: accept.Attribute, Name: targetIPs, Since: "3.1.0", Before: parsesIPs, Why: "must be a JSON object of zones and IP addresses",
			Source:  "v3.1.0" + place,
			Accepts: func(value string) bool { return json.Unmarshal([]byte(value), &map[string]string{}) == nil }},
		{Of: accept.Attribute, Name: targetIPs, Since: parsesIPs, Why: "must be a JSON object of zones and IP addresses",
			Source: "pull request 1951, merged on 2026-09-02, and AWS security bulletin 2026-120-AWS", Accepts: areIPs},
		{Of: accept.Attribute, Name: "crossaccount", Since: "2.0.0", Match: boolean, Why: wantsBoolean, Source: "v2.0.0, absent from v1.7.7," + place},
		{Of: accept.Attribute, Name: subPath, Before: hexadecimal, Match: `(?s)/.*`, Why: "must be an absolute path",
			Source: "v2.3.1" + place + "; 92c77936 removed it before v3.0.0"},
		{Of: accept.Attribute, Name: "storage.kubernetes.io/csiProvisionerIdentity", Since: "1.2.0", Source: "v1.2.0" + place},
		{Of: accept.Handle, Before: hexadecimal, Match: `fs-[^:]*(:[^:]*(:(fsap-[^:]*)?)?)?`, Source: "v2.3.1 pkg/driver/node.go parseVolumeId",
			Why: `must have the form "fs-ID:PATH:fsap-ID"`},
		{Of: accept.Handle, Since: hexadecimal, Match: `((efs|s3files):)?fs-[0-9a-f]{8,40}(:[^:]*(:(fsap-[0-9a-f]{8,40})?)?)?`,
			Source: "v3.0.0 and v3.4.1 pkg/driver/node.go parseVolumeId",
			Why:    `must have the form "fs-ID:PATH:fsap-ID", and an ID has 8 to 40 hexadecimal digits in lower case`},
		{Of: accept.RefusedOption, Name: "crossaccount", Since: hexadecimal, Except: `^`, Why: "the driver sets it itself",
			Source: "v3.0.0 pkg/driver/node.go validateMountOptions"},
		{Of: accept.Together, Name: "tls", Since: encrypts, Source: "v1.0.0" + place,
			Why: `mount option tls beside volume attribute encryptInTransit "false"`,
			Has: func(volume *corev1.PersistentVolume) bool { return hasOption(volume, "tls") && !isEncrypted(volume) }},
		{Of: accept.Together, Name: "accesspoint", Source: "778131e" + place,
			Why: "mount option accesspoint beside another access point in the volumeHandle",
			Has: hasTwoAccessPoints},

		{Of: accept.Instead, Name: subPath, Write: withoutPath},
		{Of: accept.Instead, Name: targetIP, Write: replaced("the IP address of the mount target as mounttargetip")},
		{Of: accept.Instead, Name: encryption, Write: replaced(`encryptInTransit "true" or "false"`)},
		{Of: accept.Instead, Name: "crossaccount", Write: func(*corev1.PersistentVolume) string {
			return `volume attribute crossaccount "true" instead of a mount option of that name`
		}},
		{Of: accept.Instead, Name: "tls", Write: func(*corev1.PersistentVolume) string { return "no mount option tls" }},
		{Of: accept.Instead, Name: "accesspoint", Write: func(*corev1.PersistentVolume) string { return "no mount option accesspoint" }},
	}
}

// areIPs reports whether the value is a JSON object whose values are IP addresses.
func areIPs(value string) bool {
	var zones map[string]string
	if json.Unmarshal([]byte(value), &zones) != nil {
		return false
	}
	for _, address := range zones {
		if net.ParseIP(address) == nil {
			return false
		}
	}
	return true
}

// replaced says what a new PersistentVolume must have, because Kubernetes refuses changes of an existing volume's CSI source.
func replaced(what string) func(*corev1.PersistentVolume) string {
	return func(*corev1.PersistentVolume) string { return "a new PersistentVolume with " + what }
}

// withoutPath says how to name a directory without the attribute "path". A path in the handle always had precedence over this attribute.
func withoutPath(volume *corev1.PersistentVolume) string {
	parts := strings.Split(volume.Spec.CSI.VolumeHandle, ":")
	for len(parts) < 2 {
		parts = append(parts, "")
	}
	if parts[1] == "" {
		for name, value := range volume.Spec.CSI.VolumeAttributes {
			if strings.EqualFold(name, subPath) {
				parts[1] = value
			}
		}
	}
	return fmt.Sprintf("a new PersistentVolume with volumeHandle %q, and without attribute path", strings.Join(parts, ":"))
}

// hasOption reports whether a PersistentVolume has a mount option. The driver ignores the case.
func hasOption(volume *corev1.PersistentVolume, name string) bool {
	return slices.ContainsFunc(volume.Spec.MountOptions, func(one string) bool { return strings.EqualFold(one, name) })
}

// isEncrypted reports whether drivers from version 1.0.0 on encrypt the mount of a PersistentVolume with these attributes.
func isEncrypted(volume *corev1.PersistentVolume) bool {
	for name, value := range volume.Spec.CSI.VolumeAttributes {
		if !strings.EqualFold(name, encryption) {
			continue
		}
		if is, err := strconv.ParseBool(value); err == nil && !is {
			return false
		}
	}
	return true
}

// hasTwoAccessPoints reports whether the mount options name another access point than the handle.
func hasTwoAccessPoints(volume *corev1.PersistentVolume) bool {
	parts := strings.Split(strings.TrimPrefix(volume.Spec.CSI.VolumeHandle, "efs:"), ":")
	if len(parts) != 3 || parts[2] == "" {
		return false
	}
	return slices.ContainsFunc(volume.Spec.MountOptions, func(one string) bool {
		point, is := strings.CutPrefix(strings.ToLower(one), "accesspoint=")
		return is && point != parts[2]
	})
}

// changes returns the values that older and newer drivers accept, but treat in different ways.
func changes() []accept.Change {
	return []accept.Change{
		{Before: encrypts, What: "the new driver mounts it with TLS, the old one without", Instead: `a new PersistentVolume with volume attribute ` +
			`encryptInTransit "false", if TLS is not wanted`, Source: "778131e and v1.0.0 pkg/driver/node.go NodePublishVolume",
			Has: func(volume *corev1.PersistentVolume) bool {
				return isEncrypted(volume) && !hasOption(volume, "tls") && strings.Count(volume.Spec.CSI.VolumeHandle, ":fsap-") == 0
			}},
		{Before: parsesIP, What: "the new driver uses its mounttargetip; the old one ignored an attribute with capital letters",
			Instead: "a new PersistentVolume without this attribute, if the address in the attribute is wrong",
			Source:  "v3.0.0 and v3.0.1 pkg/driver/node.go NodePublishVolume",
			Has: func(volume *corev1.PersistentVolume) bool {
				for name := range volume.Spec.CSI.VolumeAttributes {
					if strings.EqualFold(name, targetIP) && name != targetIP {
						return true
					}
				}
				return false
			}},
		{Before: "1.4.2", What: "the new driver ignores mount option awscredsuri", Instead: "mount option iam, with a role of the node pods",
			Source: "v1.4.0 and v1.4.2 pkg/driver/node.go NodePublishVolume", Has: func(volume *corev1.PersistentVolume) bool {
				return slices.ContainsFunc(volume.Spec.MountOptions, func(one string) bool { return strings.HasPrefix(strings.ToLower(one), "awscredsuri") })
			}},
		{What: "mount option iam uses the identity of the new node pods: ServiceAccount aws-efs-csi-driver-node-sa with NODE_ROLEARN, or the node's role",
			Instead: "a file system policy that allows this identity ClientMount and ClientWrite: oc storage iam policy node",
			Source:  "aws/efs-utils v3.2.0 src/efs_utils_common/aws_credentials.py; names of ServiceAccounts in internal/driver/awsefs/assets",
			Has:     func(volume *corev1.PersistentVolume) bool { return hasOption(volume, "iam") }},
		{What: "the new driver's IAM policy lets it delete only access points that it tagged, so this PersistentVolume would stay in phase Failed",
			Instead: "persistentVolumeReclaimPolicy Retain", Source: "docs/guide/iam, condition aws:ResourceTag of DeleteAccessPoint",
			Has: func(volume *corev1.PersistentVolume) bool {
				return volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
					volume.Annotations["pv.kubernetes.io/provisioned-by"] == "" && strings.Contains(volume.Spec.CSI.VolumeHandle, ":fsap-")
			}},
	}
}
