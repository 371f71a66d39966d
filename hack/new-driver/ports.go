package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// The first host ports of drivers: one for health checks, and one for metrics on loopback.
const (
	firstHealthPort  = 10300
	firstMetricsPort = 8201
)

// reviewed is the pattern of the golden files that have all objects of a driver.
const reviewed = "internal/driver/*/testdata/base.yaml"

// notOurs returns the ports of nodes that programs outside of this repository use, with the name of each program. Sources: openshift/enhancements
// 020c465c, dev-guide/host-port-registry.md; openshift/csi-operator f7f9dc59, assets/overlays/samba/generated/standalone; for GCP,
// openshift/gcp-filestore-csi-driver-operator 9c951b92, assets.
func notOurs() map[int]string {
	const samba, filestore = "Red Hat's SMB operator", "Red Hat's Filestore operator"
	return map[int]string{
		10302: filestore, 10304: filestore, 10313: filestore, 10306: samba, 10308: samba,
		10357: "cluster-policy-controller",
	}
}

// portsTaken returns the used ports of the nodes, with the user of each port. These are the ports of the drivers in a tree, and the ports in notOurs.
func portsTaken(tree fs.FS) (map[int]string, error) {
	files, err := fs.Glob(tree, reviewed)
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no files %s (%w): run this in the folder of the repository", reviewed, err)
	}
	users := map[int][]string{}
	for port, user := range notOurs() {
		users[port] = []string{user}
	}
	for _, file := range files {
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return nil, err //nolint:wrapcheck // It names the file.
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			ports, err := portsOf(document)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			for port, container := range ports {
				users[port] = append(users[port], path.Base(path.Dir(path.Dir(file)))+" ("+container+")")
			}
		}
	}
	taken := map[int]string{}
	for port, names := range users {
		slices.Sort(names)
		taken[port] = strings.Join(names, ", ")
	}
	return taken, nil
}

// portsOf returns the host ports of the pods that an object creates.
func portsOf(document []byte) (map[int]string, error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return nil, err //nolint:wrapcheck // The caller names the file.
	}
	if kind.Kind != "DaemonSet" && kind.Kind != "Deployment" {
		return map[int]string{}, nil
	}
	// A Deployment has its template at the same place as a DaemonSet, so this type fits both.
	var workload appsv1.DaemonSet
	err := yaml.Unmarshal(document, &workload)
	return driver.Pods{Spec: &workload.Spec.Template.Spec}.HostPorts(), err
}

// printPorts lists the used ports.
func printPorts(out io.Writer, tree fs.FS) error {
	taken, err := portsTaken(tree)
	if err != nil {
		return err
	}
	for _, port := range slices.Sorted(maps.Keys(taken)) {
		if _, err := fmt.Fprintf(out, "%5d  %s\n", port, taken[port]); err != nil {
			return err //nolint:wrapcheck // Nobody reads what cannot be written.
		}
	}
	return nil
}

// choosePorts chooses ports that no driver of any platform uses. It keeps the ports that flags name. A driver that OLM installs can run beside every
// other driver, so its ports from flags must also be free. A driver of the payload may keep the ports of its predecessor in OpenShift, even if a
// driver of another platform uses these. test/rules refuses ports that two drivers of the same platform use.
func (s *scaffold) choosePorts(tree fs.FS) error {
	taken, err := portsTaken(tree)
	if err != nil {
		return err
	}
	for flag, port := range map[string]*int{"node-port": &s.names.NodePort, "registrar-port": &s.names.RegistrarPort} {
		if user := taken[*port]; user != "" && s.names.OLM() {
			return fmt.Errorf("--%s %d: %s already uses this port: omit the flag, or choose a port that -ports does not list", flag, *port, user)
		}
		if *port != 0 {
			taken[*port] = s.names.Package
		}
	}
	for _, port := range []*int{&s.names.ControllerPort, &s.names.NodePort, &s.names.RegistrarPort} {
		if *port != 0 {
			continue
		}
		*port = firstHealthPort
		for taken[*port] != "" {
			*port++
		}
		taken[*port] = s.names.Package
	}
	// Reserve a port for each possible sidecar. So a sidecar that is added later finds its port free.
	s.names.MetricsPort = firstMetricsPort
	for !free(taken, s.names.MetricsPort, len(allSidecars())) {
		s.names.MetricsPort++
	}
	return nil
}

// free reports whether a range of ports is free. For each of these ports, the HTTPS port of its kube-rbac-proxy must also be free.
func free(taken map[int]string, first, count int) bool {
	for port := first; port < first+count; port++ {
		if taken[port] != "" || taken[port+offered] != "" {
			return false
		}
	}
	return true
}

// Loopback returns the loopback port of a sidecar's metrics.
func (n names) Loopback(name string) int { return n.MetricsPort + slices.Index(allSidecars(), name) }

// Offered returns the HTTPS port of a sidecar's metrics.
func (n names) Offered(name string) int { return n.Loopback(name) + offered }
