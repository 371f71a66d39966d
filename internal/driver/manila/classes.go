package manila

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/csi-operators/csi-operators/internal/driver"
)

const (
	// classPrefix is the beginning of the names of StorageClasses.
	classPrefix = "csi-manila-"
	// typeParameter is the parameter with the share type.
	typeParameter = "type"
	// hashLength is the length of a name's hash, in characters. With a hash of length longHash, a name has the maximum length of a label. The operator
	// uses longHash only if the share type's other candidate names are taken.
	hashLength, longHash = 10, validation.DNS1123LabelMaxLength - len(classPrefix)
)

// classes returns a StorageClass for each share type. It also keeps the StorageClass of a missing share type while PersistentVolumes use the class,
// or until two answers of the cloud lack the share type. Names and parameters come from OpenShift's operator (openshift/csi-operator f7f9dc59,
// pkg/driver/openstack-manila/openstack_manila.go).
func classes(cfg driver.Config) []*storagev1.StorageClass {
	made := map[string]*storagev1.StorageClass{}
	wanted := wantedTypes(cfg)
	for _, class := range cfg.Classes {
		if !isMade(class) {
			continue
		}
		shareType := class.Parameters[typeParameter]
		isWanted := slices.Contains(wanted, shareType)
		if isWanted || !cfg.Cloud.Known || !cfg.Cloud.Repeated || cfg.ClassesInUse[class.Name] {
			made[class.Name] = classOf(class.Name, shareType)
		}
	}
	for _, shareType := range wanted {
		if hasClass(made, shareType) {
			continue
		}
		names := candidates(shareType)
		if free := slices.IndexFunc(names, func(name string) bool { return !isTaken(cfg, made, name) }); free >= 0 {
			made[names[free]] = classOf(names[free], shareType)
		}
	}
	sorted := make([]*storagev1.StorageClass, 0, len(made))
	for _, class := range made {
		sorted = append(sorted, class)
	}
	slices.SortFunc(sorted, func(a, b *storagev1.StorageClass) int { return cmp.Compare(a.Name, b.Name) })
	return sorted
}

// wantedTypes returns the share types of the cloud. Share types whose names appear unchanged in the names of their classes come first. If two share
// types would get the same class name, the first share type gets this name.
func wantedTypes(cfg driver.Config) []string {
	if !cfg.Cloud.Known {
		return nil
	}
	types := slices.DeleteFunc(slices.Clone(cfg.Cloud.ShareTypes), func(shareType string) bool { return shareType == "" })
	slices.SortFunc(types, func(a, b string) int {
		isExact := func(shareType string) int {
			if plainName(shareType) == classPrefix+shareType {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(isExact(a), isExact(b)), cmp.Compare(a, b))
	})
	return slices.Compact(types)
}

// isMade reports whether the operator created a StorageClass for a share type. Such a class has one of our names, and names the driver's Secret.
func isMade(class driver.Class) bool {
	shareType := class.Parameters[typeParameter]
	return class.Provisioner == driverName && shareType != "" && class.Parameters[secretParameter("provisioner", "name")] == secrets &&
		slices.Contains(candidates(shareType), class.Name)
}

// candidates returns the possible class names of a share type, the best first. The last name is unique.
func candidates(shareType string) []string {
	names := []string{plainName(shareType), hashedName(shareType), withHash(shareType, longHash)}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// hasClass reports whether a share type already has a class. Such a share type keeps the name of its class.
func hasClass(made map[string]*storagev1.StorageClass, shareType string) bool {
	for _, class := range made {
		if class.Parameters[typeParameter] == shareType {
			return true
		}
	}
	return false
}

// isTaken reports whether the class name belongs to another owner, or to the class of another share type.
func isTaken(cfg driver.Config, made map[string]*storagev1.StorageClass, name string) bool {
	return made[name] != nil || slices.ContainsFunc(cfg.Classes, func(class driver.Class) bool {
		return class.Kind == "StorageClass" && class.Name == name && !isMade(class)
	})
}

// plainName returns OpenShift's class name for a share type. It returns an empty text if this name is invalid, or looks like a result of withHash
// with a long hash.
func plainName(shareType string) string {
	name := classPrefix + strings.ToLower(strings.ReplaceAll(shareType, "_", "-"))
	isLongHash := len(name) == validation.DNS1123LabelMaxLength && strings.Trim(name[len(classPrefix):], "0123456789abcdef") == ""
	if isLongHash || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ""
	}
	return name
}

// hashedName returns the fallback name of the class of a share type.
func hashedName(shareType string) string { return withHash(shareType, hashLength) }

// withHash returns a class name with the readable part of the share type and the share type's hash. Argument "length" is the length of the hash.
func withHash(shareType string, length int) string {
	readable := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, strings.ToLower(strings.ToValidUTF8(shareType, "-")))
	// Cut the readable part, so that the hash fits into a DNS label.
	readable = readable[:min(len(readable), validation.DNS1123LabelMaxLength-len(classPrefix)-min(length+1, longHash))]
	if readable = strings.Trim(readable, "-"); readable != "" {
		readable += "-"
	}
	return classPrefix + readable + fmt.Sprintf("%x", sha256.Sum256([]byte(shareType)))[:length]
}

func secretParameter(of, what string) string { return "csi.storage.k8s.io/" + of + "-secret-" + what }

func classOf(name, shareType string) *storagev1.StorageClass {
	parameters := map[string]string{typeParameter: shareType}
	for _, of := range []string{"provisioner", "node-stage", "node-publish", "controller-expand"} {
		parameters[secretParameter(of, "name")], parameters[secretParameter(of, "namespace")] = secrets, namespace
	}
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driverName, Parameters: parameters,
		ReclaimPolicy: new(corev1.PersistentVolumeReclaimDelete), VolumeBindingMode: new(storagev1.VolumeBindingImmediate),
		AllowVolumeExpansion: new(true),
	}
}
