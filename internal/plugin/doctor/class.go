package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

// Parameters of EFS StorageClasses that doctor checks individually.
const (
	paramMode, paramSystem, paramPerms = "provisioningMode", "fileSystemId", "directoryPerms"
	paramStart, paramEnd               = "gidRangeStart", "gidRangeEnd"
	modeAccessPoint                    = "efs-ap"
)

// flaw is a wrong or missing parameter of a class. If the flaw is minor, the driver can still provision volumes.
type flaw struct {
	text  string
	minor bool
}

// joinsOnly reports whether an EFS class has no parameters. A PVC of such a class can only bind to an existing PersistentVolume, because the driver
// provisions no volumes for the class.
func joinsOnly(class *storagev1.StorageClass) bool {
	return class.Provisioner == efs.DriverName && len(class.Parameters) == 0
}

// flaws returns the flaws of an EFS class, sorted. A flaw is a required parameter that is missing, or a parameter that the driver rejects or ignores.
func flaws(parameters map[string]string) []flaw {
	if len(parameters) == 0 {
		return nil
	}
	all := missingParameters(parameters)
	all = append(all, flawsOfRange(parameters)...)
	all = append(all, refusedParameters(parameters)...)
	slices.SortStableFunc(all, func(a, b flaw) int { return strings.Compare(a.text, b.text) })
	return all
}

// missingParameters finds missing required parameters, and an invalid file system ID.
func missingParameters(parameters map[string]string) []flaw {
	var all []flaw
	wrong := func(format string, values ...any) { all = append(all, flaw{text: fmt.Sprintf(format, values...)}) }
	if _, has := parameters[paramMode]; !has {
		wrong("parameter %s is missing: set it to %s", paramMode, modeAccessPoint)
	}
	if _, has := parameters[paramPerms]; !has {
		wrong("parameter %s is missing: set it to octal permissions, such as \"700\"", paramPerms)
	}
	referred := parameters["fileSystemIdConfigRef"] != "" || parameters["fileSystemIdSecretRef"] != ""
	system, hasSystem := parameters[paramSystem]
	switch {
	case !hasSystem && !referred:
		wrong("parameter %s is missing: set it to the ID of a file system", paramSystem)
	case hasSystem && !efs.IsFileSystem(system):
		wrong("parameter %s is %q, which is not the ID of a file system", paramSystem, system)
	}
	return all
}

// flawsOfRange checks the range of group IDs.
func flawsOfRange(parameters map[string]string) []flaw {
	start, hasStart := parameters[paramStart]
	end, hasEnd := parameters[paramEnd]
	first, startErr := strconv.ParseInt(start, 10, 64)
	last, endErr := strconv.ParseInt(end, 10, 64)
	switch {
	case hasStart != hasEnd:
		return []flaw{{text: fmt.Sprintf("only one of the parameters %s and %s is set: set both or none", paramStart, paramEnd)}}
	case startErr == nil && endErr == nil && first > 0 && last <= first:
		return []flaw{{text: fmt.Sprintf("parameter %s is not greater than %s", paramEnd, paramStart)}}
	default:
		return nil
	}
}

// refusedParameters finds values that the newest version of the driver rejects. It also finds parameters that no version of the driver knows. The
// driver ignores such parameters, so these flaws are minor.
func refusedParameters(parameters map[string]string) []flaw {
	takes := awsefs.Driver().Accepts
	knows, newest := takes.Names(accept.Parameter), takes.At("")
	var all []flaw
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		// The sidecars read these parameters, and the driver doesn't see them.
		if strings.HasPrefix(name, "csi.storage.k8s.io/") {
			continue
		}
		if slices.Contains(knows, name) {
			if why := newest.Refusal(accept.Parameter, name, parameters[name]); why != "" {
				all = append(all, flaw{text: fmt.Sprintf("parameter %s is %q: %s", name, parameters[name], why)})
			}
			continue
		}
		text := fmt.Sprintf("the driver ignores the unknown parameter %s", name)
		if i := slices.IndexFunc(knows, func(one string) bool { return strings.EqualFold(one, name) }); i >= 0 {
			text += ": the correct name is " + knows[i]
		}
		all = append(all, flaw{text: text, minor: true})
	}
	return all
}

// classParameters finds flaws of EFS classes. It checks the class that the user asks about or, if the user asks about another object, the classes of
// its unbound claims. If the user asks about the whole cluster, it checks all classes.
func classParameters(f *facts) []Finding {
	if f.subject != nil && f.subject.class != nil {
		return classFindings(f.subject.class, Error)
	}
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
			Cause:   fmt.Sprintf("The EFS driver can't provision a volume with the parameters of StorageClass %s.", class.Name),
			Do:      "Create a class with correct parameters: the parameters of an existing class can't be changed.",
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
