package sharedvolume

import (
	"testing"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

func TestIsListed(t *testing.T) {
	wanted := efs.Share{FileSystem: "fs-12345678", AccessPoint: "fsap-12345678"}
	for list, want := range map[string]bool{
		"":                                    false,
		"*":                                   true,
		"fs-12345678":                         true,
		" fs-12345678 ":                       true,
		"fs-12345678/fsap-12345678":           true,
		"fs-99999999,\n fs-12345678":          true,
		"fs-12345678/fsap-99999999":           false,
		"fs-123456789":                        false,
		"fs-1234567":                          false,
		"fsap-12345678":                       false,
		"fs-99999999/fsap-12345678":           false,
		"fs-12345678/":                        false,
		"fs-12345678/*":                       false,
		"fs-12345678 fs-99999999":             false,
		"FS-12345678":                         false,
		"fs-12345678/fsap-12345678,fs-0":      true,
		",":                                   false,
		"fs-12345678/fsap-12345678/extra":     false,
		"fs-12345678::fsap-12345678":          false,
		"**":                                  false,
		"fs-*":                                false,
		"fs-99999999/fsap-99999999 , * , fs-": true,
	} {
		if got := wanted.ListedIn(list); got != want {
			t.Errorf("%q: %v, want %v", list, got, want)
		}
	}
}
