package efs

import (
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSharesOfOlderVolumesAreUnderstood(t *testing.T) {
	volume := func(driver, handle string, options ...string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			MountOptions:           options,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}},
		}}
	}
	want := Share{FileSystem: "fs-1234cdef", AccessPoint: "fsap-01234567"}
	for name, good := range map[string]*corev1.PersistentVolume{
		"today":                          volume(DriverName, "fs-1234cdef::fsap-01234567"),
		"drivers 3.0 to 3.4":             volume(DriverName, "efs:fs-1234cdef::fsap-01234567"),
		"before June 2020":               volume(DriverName, "fs-1234cdef", "tls", "accesspoint=fsap-01234567"),
		"before June 2020, one option":   volume(DriverName, "fs-1234cdef", "accesspoint=fsap-01234567"),
		"before June 2020, and an empty": volume(DriverName, "fs-1234cdef", "accesspoint=", "accesspoint=fsap-01234567"),
	} {
		if got, ok := ShareOf(good); !ok || got != want {
			t.Errorf("%s: %v %v", name, got, ok)
		}
	}
	for name, bad := range map[string]*corev1.PersistentVolume{
		"no CSI volume":         {},
		"another driver":        volume("ebs.csi.aws.com", "fs-1234cdef::fsap-01234567"),
		"a path":                volume(DriverName, "fs-1234cdef:/path:fsap-01234567"),
		"no access point":       volume(DriverName, "fs-1234cdef"),
		"two parts":             volume(DriverName, "fs-1234cdef:fsap-01234567"),
		"four parts":            volume(DriverName, "fs-1234cdef:::fsap-01234567"),
		"two access points":     volume(DriverName, "fs-1234cdef", "accesspoint=fsap-1", "accesspoint=fsap-2"),
		"an option in an ID":    volume(DriverName, "fs-1234cdef", "accesspoint=fsap-1,noresvport"),
		"a line in an ID":       volume(DriverName, "fs-1234cdef\n::fsap-01234567"),
		"capitals":              volume(DriverName, "fs-1234CDEF::fsap-01234567"),
		"the IDs are exchanged": volume(DriverName, "fsap-01234567::fs-1234cdef"),
		"nothing":               volume(DriverName, ""),
	} {
		if got, ok := ShareOf(bad); ok {
			t.Errorf("%s is taken for %v", name, got)
		}
	}
}

// A share parsed from any volume survives a round trip through its handle.
func FuzzShareOf(f *testing.F) {
	for _, handle := range []string{"fs-1::fsap-2", "efs:fs-1::fsap-2", "fs-1", "fs-1:/p:fsap-2", "::", "fs-1::fsap-2,x"} {
		f.Add(handle, "accesspoint=fsap-3")
	}
	f.Fuzz(func(t *testing.T, handle, option string) {
		volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			MountOptions:           []string{option},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: DriverName, VolumeHandle: handle}},
		}}
		found, ok := ShareOf(volume)
		if !ok {
			return
		}
		if strings.ContainsAny(found.Handle(), ",/ \n\t") || strings.Count(found.Handle(), ":") != 2 {
			t.Errorf("handle %q", found.Handle())
		}
		volume.Spec.CSI.VolumeHandle, volume.Spec.MountOptions = found.Handle(), nil
		if again, ok := ShareOf(volume); !ok || again != found {
			t.Errorf("%v became %v %v", found, again, ok)
		}
	})
}

// The schema and the controller accept the same IDs.
func FuzzIsPlain(f *testing.F) {
	for _, id := range []string{"fs-1", "fsap-1", "fs-", "fs-G", "fs-1 ", "fs-1\n", "1", "fs-fs-1", "fs-１"} {
		f.Add(id)
	}
	schema := regexp.MustCompile(`^fs-[0-9a-f]+$`)
	f.Fuzz(func(t *testing.T, id string) {
		if got, want := isPlain("fs-", id), schema.MatchString(id); got != want {
			t.Errorf("%q: %v, the schema says %v", id, got, want)
		}
	})
}

func TestAnIDHasAsManyDigitsAsAWSGivesIt(t *testing.T) {
	for id, want := range map[string]bool{
		"fs-01234567": true, "fs-0123456": false, "fs-" + strings.Repeat("a", 40): true, "fs-" + strings.Repeat("a", 41): false, "fsap-01234567": false,
	} {
		if got := IsFileSystem(id); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

func TestTheIDsOfAnyVolumeAreRead(t *testing.T) {
	for handle, want := range map[string]Share{
		"fs-01234567":                           {FileSystem: "fs-01234567"},
		"fs-01234567:/path":                     {FileSystem: "fs-01234567"},
		"efs:fs-01234567:/path:fsap-0123456789": {FileSystem: "fs-01234567", AccessPoint: "fsap-0123456789"},
		"fs-01234567::fsap-0123456789:x":        {},
		"fs-0123":                               {},
	} {
		volume := &corev1.PersistentVolume{}
		volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: DriverName, VolumeHandle: handle}
		got, known := NamesOf(volume)
		if known != (want != Share{}) || known && got != want {
			t.Errorf("%s: %+v %v, want %+v", handle, got, known, want)
		}
	}
}
