package cloudconfig_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

const legacy = `# made by an installer
[Global]
secret-name = "vsphere-creds"
secret-namespace = "kube-system"
insecure-flag = "1"

[Workspace]
server = "vc1.example.com"
datacenter = "DC0"
default-datastore = /DC0/datastore/LocalDS_0 ; the first one
folder = "/DC0/vm/in \"quotes\" and \\"
resourcepool-path = "/DC0/host/DC0_H0/Resources"

[VirtualCenter "vc1.example.com"]
datacenters = DC0, DC1,,DC0

[Disk]
scsicontrollertype = pvscsi
`

const newer = `global:
  user: ""
  port: 0
  insecureFlag: false
  datacenters: []
  caFile: ""
  secretName: vsphere-creds
  secretNamespace: kube-system
  soapRoundtripCount: 0
vcenter:
  vc2.example.com:
    server: vc2.example.com
    port: 444
    insecureFlag: true
    thumbprint: AA:BB
    datacenters:
    - IBMCloud
    - 007
    ipFamily: []
  other:
    server: 192.0.2.7
    caFile: /etc/ca.pem
    datacenters: [true, "a b"]
labels:
  zone: openshift-zone
  region: openshift-region
`

func TestBothFormsOfTheConfigurationAreRead(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want cloudconfig.Config
	}{
		"INI": {text: legacy, want: cloudconfig.Config{
			VCenters: []cloudconfig.VCenterConfig{{Server: "vc1.example.com", Port: 443, Insecure: true, Datacenters: []string{"DC0", "DC1"}}},
			Workspace: cloudconfig.Workspace{
				Server: "vc1.example.com", Datacenter: "DC0", Datastore: "/DC0/datastore/LocalDS_0",
				Folder: `/DC0/vm/in "quotes" and \`, ResourcePool: "/DC0/host/DC0_H0/Resources",
			},
		}},
		"INI of Windows": {text: strings.ReplaceAll("[virtualcenter \"VC\"]\nInsecure-Flag=No\n", "\n", "\r\n"), want: cloudconfig.Config{
			VCenters: []cloudconfig.VCenterConfig{{Server: "VC", Port: 443}},
		}},
		"INI that inherits": {
			text: "[Global]\nserver = vc0\nport=444\nca-file=/ca\nthumbprint=AA\ndatacenters=a,b\n[VirtualCenter \"x\"]\nserver=2001:db8::1\nport = 8443\n[Labels]\nzone=z\nregion=r\n",
			want: cloudconfig.Config{ZoneCategory: "z", RegionCategory: "r", VCenters: []cloudconfig.VCenterConfig{
				{Server: "2001:db8::1", Port: 8443, CAFile: "/ca", Thumbprint: "AA", Datacenters: []string{"a", "b"}},
				{Server: "vc0", Port: 444, CAFile: "/ca", Thumbprint: "AA", Datacenters: []string{"a", "b"}},
			}},
		},
		"INI with a password of no use": {text: "[Global]\npassword = \"a\\\"#;[x]=\\\\\"\n[VirtualCenter \"vc\"]\n", want: cloudconfig.Config{
			VCenters: []cloudconfig.VCenterConfig{{Server: "vc", Port: 443}},
		}},
		"YAML": {text: newer, want: cloudconfig.Config{ZoneCategory: "openshift-zone", RegionCategory: "openshift-region", VCenters: []cloudconfig.VCenterConfig{
			{Server: "vc2.example.com", Port: 444, Insecure: true, Thumbprint: "AA:BB", Datacenters: []string{"IBMCloud", "007"}},
			{Server: "192.0.2.7", Port: 443, CAFile: "/etc/ca.pem", Datacenters: []string{"true", "a b"}},
		}}},
		"YAML with a server for all": {text: "global: {server: vc, insecureFlag: true}\nvcenter:\nlabels: null\n", want: cloudconfig.Config{
			VCenters: []cloudconfig.VCenterConfig{{Server: "vc", Port: 443, Insecure: true}},
		}},
	} {
		got, err := cloudconfig.Parse([]byte(tc.text))
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestWhatCanBeReadInTwoWaysIsRefusedByLineAndNeverQuoted(t *testing.T) {
	const secret = "s3cret-p4ss"
	begin := "[VirtualCenter \"vc\"]\n"
	yaml := "vcenter:\n  vc:\n    server: vc\n"
	for name, tc := range map[string]struct{ text, says string }{
		"nothing":                   {"", "it is empty"},
		"too long":                  {begin + strings.Repeat("#\n", 200<<10), "more than 262144 bytes"},
		"only comments":             {"# x\n", "it is neither INI nor YAML"},
		"no vCenter":                {"[Global]\npassword=s3cret-p4ss\n", "names no vCenter"},
		"no vCenter in YAML":        {"global:\n  password: s3cret-p4ss\n", "names no vCenter"},
		"17 vCenters":               {manyCenters(17), "more than 16 vCenters"},
		"section twice":             {begin + "[global]\n[Global]\n", "line 3 repeats the section of line 2"},
		"vCenter twice":             {begin + "[VirtualCenter \"VC\"]\n", "line 2 repeats the section of line 1"},
		"vCenter by two names":      {begin + "[VirtualCenter \"other\"]\nserver=VC\n", "line 2 repeats the vCenter of line 1"},
		"key twice":                 {begin + "port=1\nPort=2\n", "line 3 repeats the key of line 2"},
		"key without section":       {"# c\nkey=s3cret-p4ss\n", "line 2 is neither INI nor a YAML map"},
		"no header":                 {begin + "[Global\n", "line 2 is not a valid section header"},
		"header with a key":         {begin + "[Global] password=s3cret-p4ss\n", "line 2 is not a valid section header"},
		"two names":                 {begin + "[Global \"s3cret-p4ss\"]\n", "line 2 is a section that takes no subsection"},
		"no name":                   {"[VirtualCenter]\n", "line 1 does not name the vCenter"},
		"injected section":          {begin + "password=\"s3cret-p4ss\n[Global]\ninsecure-flag=true\"\n", "line 2 has no closing quote"},
		"escaped line break":        {begin + `password="s3cret-p4ss\n[Global]"` + "\n", `line 2 has a \`},
		"continued":                 {begin + "password=s3cret-p4ss\\\ninsecure-flag=true\n", "line 2 has a quote or a"},
		"quote within":              {begin + `password=s3cret-p4ss"x"` + "\n", "line 2 has a quote"},
		"single quotes":             {begin + "password='s3cret-p4ss'\n", "line 2 has a quote"},
		"more after the quote":      {begin + `password="s3cret-p4ss"x` + "\n", "line 2 continues"},
		"comment or value":          {begin + "password=s3cret-p4ss#x\n", "line 2 has ; or #"},
		"no value":                  {begin + "s3cret-p4ss\n", "line 2 is neither"},
		"odd key":                   {begin + "pass word=s3cret-p4ss\n", "line 2 has an invalid key"},
		"NUL":                       {begin + "password=s3cret-p4ss\x00\n", "line 2 has invisible characters"},
		"carriage return":           {begin + "password=s3cret-p4ss\rinsecure-flag=true\n", "line 2 has invisible characters"},
		"byte order mark":           {"\ufeff" + begin, "line 1 has invisible characters"},
		"right to left":             {begin + "password=s3cret-p4ss\u202e\n", "line 2 has invisible characters"},
		"no UTF-8":                  {begin + "password=s3cret-p4ss\xff\n", "line 2 is not UTF-8"},
		"tab in a value":            {begin + "password=s3cret-p4ss\tx\n", "line 2 has invisible characters"},
		"bad flag":                  {begin + "insecure-flag=s3cret-p4ss\n", "line 2 has an insecure-flag"},
		"port 0":                    {begin + "port=0\n", "line 1 has a vCenter with a port"},
		"port 65536":                {begin + "port=65536\n", "line 1 has a vCenter with a port"},
		"octal port":                {begin + "port=0443\n", "line 1 has a vCenter with a port"},
		"port of all":               {begin + "[Global]\nport=-1\n", "line 1 has a vCenter with a port"},
		"URL":                       {"[VirtualCenter \"https://u:s3cret-p4ss@vc\"]\n", "line 1 has a vCenter that is neither"},
		"host with port":            {"[VirtualCenter \"vc:443\"]\n", "line 1 has a vCenter that is neither"},
		"half an address":           {"[VirtualCenter \"10.1.1\"]\n", "line 1 has a vCenter that is neither"},
		"address with zone":         {"[VirtualCenter \"fe80::1%eth0\"]\n", "line 1 has a vCenter that is neither"},
		"no YAML":                   {"global: {s3cret-p4ss\n", "is neither INI nor YAML"},
		"no map":                    {"s3cret-p4ss\n", "line 1 is neither INI nor a YAML map"},
		"two documents":             {yaml + "---\n" + yaml, "more than one document"},
		"YAML key twice":            {yaml + "    port: 1\n    port: 2\n", "repeats the key"},
		"YAML key in two cases":     {yaml + "    port: 1\n    Port: 2\n", "line 5 repeats the key of line 4"},
		"YAML vCenter twice":        {yaml + "  other:\n    server: VC\n", "line 5 repeats the vCenter of line 3"},
		"YAML without server":       {"vcenter:\n  vc:\n    port: 443\n", "line 3 has a vCenter without server"},
		"anchor":                    {"global: &s3cret-p4ss\n  port: 1\n" + yaml, "has an anchor"},
		"alias":                     {"a: &a s3cret-p4ss\nvcenter: {vc: {server: *a}}\n", "has an anchor"},
		"merge":                     {"vcenter: {vc: {<<: {server: vc}}}\n", "has a key that is not a name"},
		"tag":                       {"vcenter: {vc: {server: !!str vc}}\n", "has a tag"},
		"port as text":              {yaml + "    port: \"443\"\n", "line 4 has a port that is not a number"},
		"hexadecimal port":          {yaml + "    port: 0x1bb\n", "has a vCenter with a port"},
		"insecure: yes":             {yaml + "    insecureFlag: yes\n", "line 4 has an insecureFlag"},
		"insecure as text":          {yaml + "    insecureFlag: \"true\"\n", "line 4 has an insecureFlag"},
		"line break in YAML":        {yaml + "    caFile: \"s3cret-p4ss\\n[Global]\"\n", "line 4 has invisible characters"},
		"comma":                     {yaml + "    datacenters: [\"a,b\"]\n", "line 4 has a comma"},
		"datacenters are no list":   {yaml + "    datacenters: s3cret-p4ss\n", "line 4 must be a list"},
		"server is a list":          {"vcenter: {vc: {server: [s3cret-p4ss]}}\n", "line 1 has a list"},
		"vcenter is a list":         {"vcenter: [s3cret-p4ss]\n", "line 1 is not a map"},
		"datacenter is a map":       {yaml + "    datacenters: [{a: b}]\n", "line 4 has a list or a map"},
		"key is a map":              {"? {a: b}\n: c\n", "line 1 has a key that is not a name"},
		"labels are of other types": {yaml + "labels: {zone: [s3cret-p4ss]}\n", "line 4 has a list"},
	} {
		config, err := cloudconfig.Parse([]byte(tc.text))
		if err == nil || reasonOf(err) != cloudconfig.InvalidConfiguration || !strings.Contains(err.Error(), tc.says) || len(config.VCenters) > 0 {
			t.Errorf("%s: %+v, error %v, want %q", name, config, err, tc.says)
		}
		if err != nil && strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
			t.Errorf("%s: a value is in the error: %v", name, err)
		}
	}
}

func manyCenters(count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, "[VirtualCenter \"vc%d\"]\n", i)
	}
	return text.String()
}

// asINI and asYAML write a complete configuration.
func asINI(config cloudconfig.Config) string {
	quote := func(text string) string {
		return `"` + strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `"`, `\"`) + `"`
	}
	text := fmt.Sprintf("[Labels]\nzone=%s\nregion=%s\n", quote(config.ZoneCategory), quote(config.RegionCategory))
	for i, one := range config.VCenters {
		text += fmt.Sprintf("[VirtualCenter \"x%d\"]\nserver=%s\nport=%d\ninsecure-flag=%t\nca-file=%s\nthumbprint=%s\ndatacenters=%s\n", i, quote(one.Server),
			one.Port, one.Insecure, quote(one.CAFile), quote(one.Thumbprint), quote(strings.Join(one.Datacenters, ",")))
	}
	place := config.Workspace
	return text + fmt.Sprintf("[Workspace]\nserver=%s\ndatacenter=%s\nfolder=%s\ndefault-datastore=%s\nresourcepool-path=%s\n", quote(place.Server),
		quote(place.Datacenter), quote(place.Folder), quote(place.Datastore), quote(place.ResourcePool))
}

func asYAML(t *testing.T, config cloudconfig.Config) string {
	centers := map[string]any{}
	for i, one := range config.VCenters {
		// The encoder sorts maps by key.
		centers["x"+strconv.Itoa(100+i)] = map[string]any{
			"server": one.Server, "port": one.Port, "insecureFlag": one.Insecure, "caFile": one.CAFile, "thumbprint": one.Thumbprint,
			"datacenters": one.Datacenters,
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	must(t, encoder.Encode(map[string]any{
		"vcenter": centers, "labels": map[string]any{"zone": config.ZoneCategory, "region": config.RegionCategory},
	}))
	return text.String()
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		legacy, newer, manyCenters(3), "[VirtualCenter \"a\"]\nserver=\"b\" # c\nport=1\n", "vcenter: {a: {server: b, port: 0}}",
		"[a]\nb=c", "{", "? a\n: b", "---\n...\n", "a: &a [*a]", "[VirtualCenter \"vc\"]\ndatacenters=\" a , \\\\,\\\"\"\n", "vcenter: {'': {server: \"\\0\"}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := cloudconfig.Parse(data)
		if err != nil {
			return
		}
		again, err := cloudconfig.Parse([]byte(asINI(config)))
		if diff := cmp.Diff(config, again); err != nil || diff != "" {
			t.Errorf("%q as INI: %v\n%s", data, err, diff)
		}
		config.Workspace = cloudconfig.Workspace{}
		again, err = cloudconfig.Parse([]byte(asYAML(t, config)))
		if diff := cmp.Diff(config, again); err != nil || diff != "" {
			t.Errorf("%q as YAML: %v\n%s", data, err, diff)
		}
	})
}
