package doctor

import (
	"regexp"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// systemPattern matches the ID of a file system.
const systemPattern = `\bfs-[0-9a-f]+`

// groupPattern matches the ID of a security group at the start of a text.
const groupPattern = `^sg-[0-9a-f]+`

// problem is a problem in AWS that the operator reports in a condition. The condition's type is the driver's prefix, followed by the kind.
type problem struct {
	kind     string
	severity Severity
	cause    string
	do       string
	page     page
	// topics names the kinds of events that the problem causes. Method finding makes an effect (see Finding) from each of these texts: "event", the text
	// and, for most texts, the ID of the file system.
	topics []string
}

func problems() []problem {
	return []problem{
		{"FileSystemMissing", Error, "AWS has no file system SYSTEM in the region and the account of the cluster.",
			"Correct the ID, or delete the objects that use it.", pageFileSystem,
			[]string{"filesystem", "target", "point", "network", "mount", "mountable", "provision"}},
		{"MountTargetMissing", Error, "File system SYSTEM has no mount target in zone ZONE, where the cluster has nodes.",
			"Create a mount target in a subnet of that zone, and allow inbound TCP port 2049.", pageTarget,
			[]string{"target", "network", "mount", "mountable"}},
		{"MountTargetClosed", Error, "A security group does not let the nodes of zone ZONE reach the mount target of file system SYSTEM.",
			"Add the inbound rule that the message names.", pageClosed, []string{"network", "mount"}},
		{"AccessPointMissing", Error, "File system SYSTEM does not have access point POINT.",
			"Create another access point with the same path, and a volume for it.", pagePoint, []string{"point", "mount", "mountable"}},
		{"PermissionMissing", Error, "The driver's AWS credentials lack a permission.",
			"Add the permission to the IAM policy or the trust policy.", pageIAM, []string{"iam"}},
		{"OneZoneStorageClass", Warning, "A StorageClass for a One Zone file system lets pods start in other zones.",
			`Create a class with parameter enforceZoneAffinity: "true".`, pageZoneClass, []string{"zone"}},
		{"AccessPointsNearLimit", Warning, "File system SYSTEM has few access points left.",
			"Delete unused access points, or ask AWS for a higher limit.", pagePoints, []string{"limit"}},
		{"CloudUnreachable", Info, "The operator cannot reach AWS, so file systems are not checked.",
			"Check the proxy, the network and the credentials of the operator.", pageAWS, nil},
		{"OptionalPermissionMissing", Info, "The operator lacks an optional permission in AWS.",
			"Add the permission that the message names, if you need the feature that uses this permission.", pageIAM, nil},
		{"AccessPointsUnused", Info, "This cluster created access points that no volume uses.",
			"Delete these access points if you no longer need their data.", pageAWS, nil},
		{"AccessPointTagsOutdated", Info, "Access points lack tags that the cluster configures.",
			"Grant the operator the permission to tag access points.", pageAWS, nil},
	}
}

// cloud finds the problems that operators report about their clouds.
func cloud(f *facts) []Finding { return slices.Concat(aws(f), hangingMounts(f), vSphere(f)) }

// aws makes one finding from each line of each condition about AWS.
func aws(f *facts) []Finding {
	d := f.driver(efs.DriverName)
	if d == nil || d.CR == nil || d.Profile == nil || !f.about(d.Name) {
		return nil
	}
	var all []Finding
	for _, one := range problems() {
		for _, condition := range d.CR.Status.Conditions {
			if condition.Type != d.Profile.Prefix+one.kind || condition.Status != operatorv1.ConditionTrue {
				continue
			}
			for text := range strings.Lines(condition.Message) {
				all = append(all, one.finding(f, strings.TrimSpace(text)))
			}
		}
	}
	return all
}

// finding makes a finding from one line of a condition.
func (p problem) finding(f *facts, text string) Finding {
	system, zone, point := first(systemPattern, text), first(`\b[a-z]{2}(?:-[a-z]+)+-\d[a-z]\b`, text), first(`\bfsap-[0-9a-f]+`, text)
	found := Finding{
		Severity: p.severity, Object: crOf(efs.DriverName), Said: clip(text), Page: string(p.page), Do: p.do, level: ofCloud,
		Cause: strings.NewReplacer("SYSTEM", system, "ZONE", zone, "POINT", point).Replace(p.cause), topic: topicOf(p.kind, system, zone, point),
		general: f.subject != nil && !f.subject.needs(f, system, zone, point),
	}
	if !found.general && zone != "" {
		found.Said += f.subject.where()
	}
	found.Command = p.command(text, system)
	if p.kind == "PermissionMissing" || p.kind == "OptionalPermissionMissing" {
		found.topic, found.general = topicOf(p.kind, text), f.subject != nil
	}
	for _, part := range p.topics {
		topic := []string{"event", part, system}
		switch {
		case part == "iam":
			topic = []string{"event", part}
		case p.kind == "MountTargetMissing" && part != "mountable", p.kind == "MountTargetClosed":
			topic = append(topic, zone)
		case part == "provision" && found.general:
			// The problem does not concern the subject. The driver can still provision volumes on other file systems, so this problem does not explain why the
			// driver fails to create the subject's volume.
			continue
		case part == "provision":
			topic = []string{"event", part, efs.DriverName}
			found.effects = append(found.effects, topicOf(part, efs.DriverName))
		}
		found.effects = append(found.effects, topicOf(topic...))
	}
	return found
}

// command returns a command that helps with the problem. If no command helps, the result is empty.
func (p problem) command(text, system string) string {
	switch p.kind {
	case "PermissionMissing", "OptionalPermissionMissing":
		return "oc storage iam policy controller"
	case "MountTargetMissing":
		return toCopy("aws efs create-mount-target --file-system-id %s --subnet-id SUBNET --security-groups GROUP", system)
	case "MountTargetClosed":
		from, to := first(groupPattern, after(text, "from security group ")), first(groupPattern, after(text, "to security group "))
		if from != "" && to != "" {
			return toCopy("aws ec2 authorize-security-group-ingress --group-id %s --protocol tcp --port 2049 --source-group %s", to, from)
		}
	case "FileSystemMissing":
		return "aws efs describe-file-systems --query 'FileSystems[].FileSystemId'"
	case "AccessPointMissing":
		return toCopy("aws efs describe-access-points --file-system-id %s", system)
	}
	return ""
}

// after returns the text after a marker, or an empty string.
func after(text, marker string) string {
	_, rest, _ := strings.Cut(text, marker)
	return rest
}

func first(pattern, text string) string { return regexp.MustCompile(pattern).FindString(text) }

// needs reports whether a subject that does not work uses the file system and, if argument "point" is set, the access point. If argument "zone" is
// set and doctor knows the subject's node, this node must also be in that zone.
func (s *subject) needs(f *facts, system, zone, point string) bool {
	if node := f.findNode(s.nodeOf()); zone != "" && node != nil && node.Labels[corev1.LabelTopologyZone] != zone {
		return false
	}
	return system != "" && !s.works() && slices.ContainsFunc(s.claims, func(one claim) bool {
		share := one.share()
		return share.FileSystem == system && (point == "" || share.AccessPoint == point)
	})
}

// share returns the file system and the access point of the claim's volume. Without a volume, it returns the file system of the claim's class.
func (c claim) share() efs.Share {
	if c.volume != nil {
		share, _ := efs.NamesOf(c.volume)
		return share
	}
	if c.class != nil {
		return efs.Share{FileSystem: c.class.Parameters["fileSystemId"]}
	}
	return efs.Share{}
}
