package olm

import (
	"strings"
	"testing"
)

func TestNamesOfRedHatsOperatorsAreKnown(t *testing.T) {
	for names, want := range map[string]string{
		"smb-csi-driver-operator smb.csi.k8s.io":                "is also named smb-csi-driver-operator",
		"example-smb-csi-driver-operator smb.csi.k8s.io":        "A cluster can have only one of the two",
		"secrets-store-csi-driver-operator another.example.com": "is also named secrets-store-csi-driver-operator",
		"example-csi-driver-operator csi.example.com":           "",
	} {
		operator, driver, _ := strings.Cut(names, " ")
		if got := Clash(operator, driver); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", names, got, want)
		}
	}
}
