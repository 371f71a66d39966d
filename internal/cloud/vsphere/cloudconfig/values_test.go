package cloudconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAVCenterIsTheNameOfAHostOrAnAddress(t *testing.T) {
	long := strings.Repeat("a", 63)
	for name, want := range map[string]bool{
		"vc": true, "vc1.example.com": true, "VC.Example.COM": true, "my_vc": true, "v-c": true, "10.0.0.1": true, "fd00::1": true, "1a": true,
		long + ".example": true,
		"":                false, ".": false, "vc.": false, "vc..example": false, "-vc": false, "vc-": false, "10.0.0": false, "10.0.0.256": false, "1": false,
		"fe80::1%eth0": false, "vc:443": false, "https://vc": false, "u@vc": false, "vc/sdk": false, "v c": false, "vc\n": false, "[fd00::1]": false,
		long + "a.example": false, strings.Repeat("a.", 127) + "b": false,
	} {
		if isHost(name) != want {
			t.Errorf("%q: want %t", name, want)
		}
	}
}

func TestAListHasCommasAndNothingTwice(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, ",": nil, " , ,": nil, "a": {"a"}, "a,b": {"a", "b"}, " a , b ": {"a", "b"}, "a,,b,a": {"a", "b"}, "a b": {"a b"}, "/f/a,A,a": {"/f/a", "A", "a"},
	} {
		if diff := cmp.Diff(want, listOf(text)); diff != "" {
			t.Errorf("%q: -want +got:\n%s", text, diff)
		}
	}
}

func TestAValueIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]string{
		"":           "",
		"a":          "a",
		"a b":        "a b",
		"a ; b":      "a",
		"a # b":      "a",
		"# b":        "",
		`"a"`:        "a",
		`"a ; b"`:    "a ; b",
		`"a" ; b`:    "a",
		`"a" # "b"`:  "a",
		`"a\"b\\c"`:  `a"b\c`,
		`""`:         "",
		`" a "`:      " a ",
		"ä€":         "ä€",
		"/dc/vm/a-b": "/dc/vm/a-b",
	} {
		if got, why := iniValue(text); got != want || why != "" {
			t.Errorf("%s: %q, %s, want %q", text, got, why, want)
		}
	}
}

func TestAllThatIsOfAllVCentersIsInheritedUnlessOneSaysOtherwise(t *testing.T) {
	global := rawCenter{port: "8443", caFile: "/ca", thumbprint: "AA", datacenters: []string{"dc"}}
	whole := VCenterConfig{Server: "vc", Port: 8443, CAFile: "/ca", Thumbprint: "AA", Datacenters: []string{"dc"}}
	for name, tc := range map[string]struct {
		own    rawCenter
		global rawCenter
		change func(*VCenterConfig)
	}{
		"nothing of its own":     {rawCenter{}, global, func(*VCenterConfig) {}},
		"a port":                 {rawCenter{port: "443"}, global, func(c *VCenterConfig) { c.Port = 443 }},
		"a CA":                   {rawCenter{caFile: "/own"}, global, func(c *VCenterConfig) { c.CAFile = "/own" }},
		"a thumbprint":           {rawCenter{thumbprint: "BB"}, global, func(c *VCenterConfig) { c.Thumbprint = "BB" }},
		"datacenters":            {rawCenter{datacenters: []string{"x", "y"}}, global, func(c *VCenterConfig) { c.Datacenters = []string{"x", "y"} }},
		"it is insecure":         {rawCenter{insecure: true}, global, func(c *VCenterConfig) { c.Insecure = true }},
		"all are insecure":       {rawCenter{}, rawCenter{insecure: true}, func(c *VCenterConfig) { *c = VCenterConfig{Server: "vc", Port: 443, Insecure: true} }},
		"nothing of all, either": {rawCenter{}, rawCenter{}, func(c *VCenterConfig) { *c = VCenterConfig{Server: "vc", Port: 443} }},
	} {
		want := whole
		tc.change(&want)
		tc.own.server = "vc"
		got, why := tc.own.resolve(tc.global)
		if diff := cmp.Diff(want, got); diff != "" || why != "" {
			t.Errorf("%s: %s, -want +got:\n%s", name, why, diff)
		}
	}
}
