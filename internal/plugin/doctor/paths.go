package doctor

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// The EFS driver refuses a directory of an access point if the path has more than mostOfPath characters or mostSlashes slashes (aws-efs-csi-driver
// v3.4.1, pkg/driver/controller.go, validatePathRequirements). uniqueSuffix is the length of a hyphen and a UUID, which the driver appends to make a
// directory unique.
const (
	mostOfPath   = 100
	mostSlashes  = 5
	uniqueSuffix = 37
	nameOfVolume = len("pvc-") + 36
)

// directory returns a path with as many characters and slashes as the path of the directory that the EFS driver would create for a claim (v3.4.1,
// pkg/driver/controller.go, CreateVolume). The provisioner names the volume "pvc-" and the UID of the claim.
func directory(parameters map[string]string, namespace, name string) string {
	volume := strings.Repeat("x", nameOfVolume)
	last := volume
	if pattern, is := parameters["subPathPattern"]; is {
		last = strings.NewReplacer("${.PVC.name}", name, "${.PVC.namespace}", namespace, "${.PV.name}", volume).Replace(pattern)
		if unique, err := strconv.ParseBool(parameters["ensureUniqueDirectory"]); unique || err != nil {
			last += strings.Repeat("x", uniqueSuffix)
		}
	}
	return path.Join("/", parameters["basePath"], last)
}

// longPaths finds EFS classes and claims for which the path of the new directory would be longer than EFS allows.
func longPaths(f *facts) []Finding {
	if f.subject == nil {
		var all []Finding
		for i := range f.classes.items {
			// "x" is as short as any name of a namespace or a claim that Kubernetes allows.
			all = append(all, longPath(&f.classes.items[i], "x", "x", "StorageClass "+f.classes.items[i].Name, Warning)...)
		}
		return all
	}
	if class := f.subject.class; class != nil {
		return longPath(class, "x", "x", f.subject.object(), Error)
	}
	return f.eachClaim(func(one claim, object, _ string) *Finding {
		if !one.provisions() {
			return nil
		}
		if found := longPath(one.class, f.subject.namespace, one.name, object, Error); len(found) > 0 {
			return &found[0]
		}
		return nil
	})
}

// longPath checks the path that the driver would create for a claim with this name and class. If the path is longer than EFS allows, longPath returns
// a finding.
func longPath(class *storagev1.StorageClass, namespace, name, object string, severity Severity) []Finding {
	text := directory(class.Parameters, namespace, name)
	base := class.Parameters["basePath"]
	fits := len(text) <= mostOfPath && strings.Count(text, "/") <= mostSlashes
	// Another check names a basePath that is too long by itself.
	if class.Provisioner != efs.DriverName || joinsOnly(class) || len(base) > mostOfPath || fits {
		return nil
	}
	found := Finding{
		Severity: severity, Object: object, Page: string(pageUse), topic: topicOf("class", class.Name, "path"), level: ofClass,
		Cause: fmt.Sprintf("The EFS driver refuses the directory of the volume: its path has %d characters, and EFS allows %d.", len(text), mostOfPath),
		Said: clip(fmt.Sprintf("basePath %q, subPathPattern %q, ensureUniqueDirectory %q", base, class.Parameters["subPathPattern"],
			class.Parameters["ensureUniqueDirectory"])),
		Do:      `Create a class with a shorter basePath or subPathPattern, or with ensureUniqueDirectory "false".`,
		Command: toCopy("oc get storageclass %s -o yaml", class.Name),
		effects: []string{topicOf("event", "provision", efs.DriverName), topicOf("provision", efs.DriverName), "event/schedule"},
	}
	if len(text) <= mostOfPath {
		found.Cause = fmt.Sprintf("The EFS driver refuses the directory of the volume: its path has %d levels, and EFS allows %d.",
			strings.Count(text, "/"), mostSlashes)
		found.Do = "Create a class with fewer directories in basePath and subPathPattern."
	}
	return []Finding{found}
}
