package doctor

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/efs"
)

// The parameters of EFS StorageClasses that are looked at. All are those of the driver up to version 3.
const (
	paramMode, paramSystem, paramPerms = "provisioningMode", "fileSystemId", "directoryPerms"
	paramStart, paramEnd               = "gidRangeStart", "gidRangeEnd"
	modeAccessPoint, modeDirectory     = "efs-ap", "efs-dir"
)

// flaw is something wrong with the parameters of a class. A minor one keeps no volume from being made.
type flaw struct {
	text  string
	minor bool
}

// joinsOnly reports whether an EFS class has no parameters: it joins volumes and PVCs that exist, and makes none.
func joinsOnly(class *storagev1.StorageClass) bool {
	return class.Provisioner == efs.DriverName && len(class.Parameters) == 0
}

// flaws are what the EFS driver refuses or ignores of a class, sorted.
func flaws(parameters map[string]string) []flaw {
	if len(parameters) == 0 {
		return nil
	}
	all := flawsOfPlace(parameters)
	wrong := func(format string, values ...any) { all = append(all, flaw{text: fmt.Sprintf(format, values...)}) }
	perms, hasPerms := parameters[paramPerms]
	switch {
	case hasPerms && !regexp.MustCompile(`^[0-7]{3,4}$`).MatchString(perms):
		wrong("parameter %s is %q: write permissions in octal, such as \"700\"", paramPerms, perms)
	case !hasPerms:
		wrong("parameter %s is missing: write permissions in octal, such as \"700\"", paramPerms)
	}
	for _, name := range []string{"ensureUniqueDirectory", "reuseAccessPoint", "enforceZoneAffinity"} {
		if value, has := parameters[name]; has && value != "true" && value != "false" {
			wrong("parameter %s is %q: write \"true\" or \"false\"", name, value)
		}
	}
	all = append(all, flawsOfNumbers(parameters)...)
	all = append(all, unknownParameters(parameters)...)
	slices.SortStableFunc(all, func(a, b flaw) int { return strings.Compare(a.text, b.text) })
	return all
}

// flawsOfPlace are those of what is made, and in which file system.
func flawsOfPlace(parameters map[string]string) []flaw {
	var all []flaw
	wrong := func(format string, values ...any) { all = append(all, flaw{text: fmt.Sprintf(format, values...)}) }
	mode, hasMode := parameters[paramMode]
	switch {
	case !hasMode:
		wrong("parameter %s is missing: write %s", paramMode, modeAccessPoint)
	case mode != modeAccessPoint && mode != modeDirectory:
		wrong("parameter %s is %q: write %s", paramMode, mode, modeAccessPoint)
	}
	referred := parameters["fileSystemIdConfigRef"] != "" || parameters["fileSystemIdSecretRef"] != ""
	system, hasSystem := parameters[paramSystem]
	switch {
	case !hasSystem && !referred:
		wrong("parameter %s is missing: write the ID of a file system", paramSystem)
	case hasSystem && !efs.IsFileSystem(system):
		wrong("parameter %s is %q, which is no ID of a file system", paramSystem, system)
	}
	return all
}

// flawsOfNumbers are those of user and group IDs.
func flawsOfNumbers(parameters map[string]string) []flaw {
	var all []flaw
	number := func(name string, least int64) (int64, bool) {
		value, has := parameters[name]
		if !has {
			return 0, false
		}
		number, err := strconv.ParseInt(value, 10, 64)
		if err != nil || number < least {
			all = append(all, flaw{text: fmt.Sprintf("parameter %s is %q: write a whole number from %d on", name, value, least)})
		}
		return number, true
	}
	number("uid", 0)
	number("gid", 0)
	start, hasStart := number(paramStart, 1)
	end, hasEnd := number(paramEnd, 1)
	switch {
	case hasStart != hasEnd:
		all = append(all, flaw{text: fmt.Sprintf("only one of the parameters %s and %s is set: set both or none", paramStart, paramEnd)})
	case hasStart && len(all) == 0 && end <= start:
		all = append(all, flaw{text: fmt.Sprintf("parameter %s is not greater than %s", paramEnd, paramStart)})
	}
	return all
}

// unknownParameters are those that no version of the driver knows. The driver ignores them.
func unknownParameters(parameters map[string]string) []flaw {
	knows := []string{
		paramMode, paramSystem, paramPerms, paramStart, paramEnd, "uid", "gid", "basePath", "subPathPattern", "ensureUniqueDirectory",
		"reuseAccessPoint", "enforceZoneAffinity", "az", "crossaccount", "fileSystemIdConfigRef", "fileSystemIdSecretRef",
	}
	var all []flaw
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		// These are for the sidecars.
		if slices.Contains(knows, name) || strings.HasPrefix(name, "csi.storage.k8s.io/") {
			continue
		}
		text := fmt.Sprintf("the driver knows no parameter %s and ignores it", name)
		if i := slices.IndexFunc(knows, func(one string) bool { return strings.EqualFold(one, name) }); i >= 0 {
			text += ": write " + knows[i]
		}
		all = append(all, flaw{text: text, minor: true})
	}
	return all
}

// classParameters finds flaws of all EFS classes, or of those of the PVCs that the user asks about and that wait.
func classParameters(f *facts) []Finding {
	if f.subject == nil {
		var all []Finding
		for i := range f.classes.items {
			all = append(all, classFindings(&f.classes.items[i], Warning)...)
		}
		return all
	}
	var all []Finding
	for _, one := range f.subject.claims {
		if one.class != nil && one.waits() {
			all = append(all, classFindings(one.class, Error)...)
		}
	}
	return all
}

func classFindings(class *storagev1.StorageClass, severity Severity) []Finding {
	if class.Provisioner != efs.DriverName {
		return nil
	}
	var all []Finding
	for _, one := range flaws(class.Parameters) {
		found := Finding{
			Severity: severity, Object: "StorageClass " + class.Name, Page: string(pageUse), Said: one.text,
			Cause:   fmt.Sprintf("The EFS driver can make no volume with the parameters of StorageClass %s.", class.Name),
			Do:      "Make a class with the right parameters: those of a class cannot be changed.",
			Command: toCopy("oc get storageclass %s -o yaml", class.Name),
			topic:   topicOf("class", class.Name, one.text), level: ofClass,
			effects: []string{topicOf("event", "provision", efs.DriverName), topicOf("provision", efs.DriverName), "event/schedule"},
		}
		if one.minor {
			found.Severity, found.effects = Warning, nil
			found.Cause = fmt.Sprintf("StorageClass %s has a parameter that the EFS driver ignores.", class.Name)
		}
		all = append(all, found)
	}
	return all
}
