package fakevsphere

import (
	"fmt"
	"slices"
	"strings"
)

// INI is the legacy cloud configuration of a cluster in vCenters, as installers write it: the first is that of the workspace, with its first
// datacenter, datastore and folder. Ports are in their sections. A section is named by the server alone: see StartAll.
func INI(insecure bool, vcenters ...*VCenter) string {
	text := &strings.Builder{}
	line := func(key, value string) {
		fmt.Fprintf(text, "%s = \"%s\"\n", key, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value))
	}
	text.WriteString("[Global]\n")
	line("secret-name", "vsphere-creds")
	line("secret-namespace", "kube-system")
	if insecure {
		line("insecure-flag", "1")
	}
	for i, v := range vcenters {
		datacenters := v.datacenters()
		if i == 0 {
			text.WriteString("\n[Workspace]\n")
			line("server", v.Server)
			line("datacenter", datacenters[0])
			line("default-datastore", v.first("Datastore", "/datastore/"))
			line("folder", "/"+strings.Trim(datacenters[0], "/")+"/vm/"+v.first("Folder", "/vm/"))
			line("resourcepool-path", v.Paths("ResourcePool")[0])
		}
		fmt.Fprintf(text, "\n[VirtualCenter %q]\n", v.Server)
		line("port", fmt.Sprint(v.Port))
		line("datacenters", strings.Join(datacenters, ","))
	}
	text.WriteString("\n[Labels]\n")
	line("region", "openshift-region")
	line("zone", "openshift-zone")
	return text.String()
}

// YAML is the cloud configuration of a cluster with failure domains.
func YAML(insecure bool, vcenters ...*VCenter) string {
	text := &strings.Builder{}
	text.WriteString("global:\n  secretName: vsphere-creds\n  secretNamespace: kube-system\n")
	fmt.Fprintf(text, "  insecureFlag: %t\nvcenter:\n", insecure)
	for _, v := range vcenters {
		fmt.Fprintf(text, "  %q:\n    server: %q\n    port: %d\n    insecureFlag: %t\n    datacenters:\n", v.Server, v.Server, v.Port, insecure)
		for _, name := range v.datacenters() {
			fmt.Fprintf(text, "    - %q\n", name)
		}
	}
	text.WriteString("labels:\n  region: openshift-region\n  zone: openshift-zone\n")
	return text.String()
}

// SecretData is what the Secret with the credentials has: SERVER.username and SERVER.password, where SERVER is that of the configuration. They
// have no port.
func SecretData(vcenters ...*VCenter) map[string][]byte {
	data := map[string][]byte{}
	for _, v := range vcenters {
		data[v.Server+".username"], data[v.Server+".password"] = []byte(v.User), []byte(v.Password)
	}
	return data
}

// Roots are the CAs of vCenters, in PEM.
func Roots(vcenters ...*VCenter) []byte {
	var all [][]byte
	for _, v := range vcenters {
		all = append(all, v.CA)
	}
	return slices.Concat(all...)
}

// datacenters are names, and paths of those in folders.
func (v *VCenter) datacenters() []string {
	all := v.Paths("Datacenter")
	for i, path := range all {
		if strings.Count(path, "/") == 1 {
			all[i] = path[1:]
		}
	}
	return all
}

// first is the name of the first object of a type that is in a folder; empty if there is none.
func (v *VCenter) first(kind, in string) string {
	for _, path := range v.Paths(kind) {
		if _, name, within := strings.Cut(path, in); within {
			return name
		}
	}
	return ""
}
