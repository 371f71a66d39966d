package main

import (
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strconv"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// longestPrefix is the largest length of a prefix. A prefix and "-controller-metrics" become the name of a Service, which has at most 63 characters.
	longestPrefix = 44
	// longestName is the largest length of a driver's name. The name and "-csi-driver" become the default prefix.
	longestName = longestPrefix - len("-csi-driver")
	// longestCSIName is CSI's own limit.
	longestCSIName = 63
)

// The two ways in which a driver is delivered. Either a release of OpenShift contains the driver, or an administrator installs the driver.
const (
	withPayload = "payload"
	withOLM     = "olm"
)

// The two kinds of volumes that a driver can have.
const (
	kindBlock = "block"
	kindFile  = "file"
)

// The sidecars that a driver's controller can have, in the order of the controller's containers.
const (
	provisioner = "provisioner"
	attacher    = "attacher"
	resizer     = "resizer"
	snapshotter = "snapshotter"
)

func allSidecars() []string { return []string{provisioner, attacher, resizer, snapshotter} }

// names has the names and ports of a driver. The templates use these.
type names struct {
	Package, CSIName, Platform, Prefix, ShortPrefix, ConditionPrefix, Delivery string
	// Title is the driver's name that users see.
	Title string
	// Variable is the prefix of the names of some variables of the cluster-storage-operator. These variables have the driver's images.
	Variable string
	// Kind is kindBlock or kindFile.
	Kind string
	// Sidecars are the names of the controller's sidecars, separated by commas.
	Sidecars string
	// Privileged means that the controller mounts volumes itself.
	Privileged bool
	// ControllerPort, NodePort and RegistrarPort are ports for health checks. MetricsPort is the first port for metrics. Each sidecar has a metrics port
	// on loopback and an HTTPS port for metrics. The constant offered is the difference between these two ports.
	ControllerPort, NodePort, RegistrarPort, MetricsPort int
	// Unlisted means that the CRD of ClusterCSIDrivers need not allow the driver's CSI name yet.
	Unlisted bool
}

// offered is the difference between a sidecar's HTTPS port for metrics and its loopback port for metrics.
const offered = 1000

// Block reports whether the driver's volumes are disks. A disk is attached to one node.
func (n names) Block() bool { return n.Kind == kindBlock }

// Has reports whether the controller has this sidecar.
func (n names) Has(name string) bool { return slices.Contains(n.sidecarNames(), name) }

func (n names) sidecarNames() []string { return strings.Split(n.Sidecars, ",") }

// OLM reports whether administrators install and remove the driver.
func (n names) OLM() bool { return n.Delivery == withOLM }

// Operator returns the name of the driver's operator.
func (n names) Operator() string { return n.Prefix + "-operator" }

// DaemonSet returns the name of the workload on the nodes.
func (n names) DaemonSet() string { return n.Prefix + "-node" }

// Deployment returns the name of the controller.
func (n names) Deployment() string { return n.Prefix + "-controller" }

// complete fills in the defaults.
func (n names) complete() names {
	for value, standard := range map[*string]string{
		&n.CSIName: n.Package + ".csi.example.com", &n.Prefix: n.Package + "-csi-driver", &n.ShortPrefix: n.Package,
		&n.ConditionPrefix: strings.ToUpper(n.Package), &n.Delivery: withPayload, &n.Variable: strings.ToUpper(n.Package) + "_DRIVER",
		&n.Kind: kindBlock,
	} {
		if *value == "" {
			*value = standard
		}
	}
	if n.Sidecars == "" {
		n.Sidecars = strings.Join(allSidecars(), ",")
		if !n.Block() {
			n.Sidecars = provisioner + "," + resizer
		}
	}
	if n.Platform == "" && !n.OLM() {
		n.Platform = string(configv1.NonePlatformType)
	}
	if n.Title == "" {
		n.Title = n.ConditionPrefix
	}
	return n
}

// platforms returns the platforms of OpenShift. The name of a platform's Go constant is the platform followed by PlatformType, such as
// AWSPlatformType.
func platforms() []string {
	known := []configv1.PlatformType{
		configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.BareMetalPlatformType, configv1.ExternalPlatformType,
		configv1.GCPPlatformType, configv1.IBMCloudPlatformType, configv1.NonePlatformType, configv1.NutanixPlatformType,
		configv1.OpenStackPlatformType, configv1.PowerVSPlatformType, configv1.VSpherePlatformType,
	}
	texts := make([]string, 0, len(known))
	for _, platform := range known {
		texts = append(texts, string(platform))
	}
	return texts
}

// check returns what is wrong with the names of a driver. If the package name is wrong, check ignores the other names, because these contain the
// package name.
func (n names) check() error {
	if problem := checkPackage(n.Package); problem != "" {
		return fmt.Errorf("name %q: %s", n.Package, problem)
	}
	var problems []error
	refuse := func(flag, value string, reasons ...string) {
		if len(reasons) > 0 {
			problems = append(problems, fmt.Errorf("--%s %q: %s", flag, value, strings.Join(reasons, "; ")))
		}
	}
	refuse("csi-name", n.CSIName, validation.IsDNS1123Subdomain(n.CSIName)...)
	if !strings.Contains(n.CSIName, ".") {
		refuse("csi-name", n.CSIName, "it must end with a domain of yours, such as "+n.Package+".csi.example.com")
	}
	if len(n.CSIName) > longestCSIName {
		refuse("csi-name", n.CSIName, fmt.Sprintf("it has %d characters, and CSI allows %d", len(n.CSIName), longestCSIName))
	}
	refuse("prefix", n.Prefix, validation.IsDNS1035Label(n.Prefix)...)
	if len(n.Prefix) > longestPrefix {
		refuse("prefix", n.Prefix, fmt.Sprintf("it has %d characters; at most %d leave room for suffixes, such as -controller-metrics",
			len(n.Prefix), longestPrefix))
	}
	refuse("short-prefix", n.ShortPrefix, validation.IsDNS1035Label(n.ShortPrefix)...)
	if !regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`).MatchString(n.ConditionPrefix) {
		refuse("condition-prefix", n.ConditionPrefix, "it must have at most 63 letters and digits, and begin with a capital letter, such as GCPPD")
	}
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ()/-]{0,62}$`).MatchString(n.Title) {
		refuse("title", n.Title, "it must have at most 63 letters, digits, spaces and ()/-, and begin with a letter or digit, such as GCP PD")
	}
	if !regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,62}$`).MatchString(n.Variable) {
		refuse("image-variable", n.Variable, "it must have at most 63 capital letters, digits and underscores, and begin with a letter, such as "+
			"GCP_PD_DRIVER")
	}
	n.checkPorts(refuse)
	n.checkKind(refuse)
	if n.Platform != "" && !slices.Contains(platforms(), n.Platform) {
		refuse("platform", n.Platform, "it must be one of "+strings.Join(platforms(), ", "))
	}
	if n.Delivery != withPayload && n.Delivery != withOLM {
		refuse("delivery", n.Delivery, "it must be "+withPayload+" or "+withOLM)
	}
	return errors.Join(problems...)
}

// checkKind refuses kinds of volumes and sidecars that do not exist.
func (n names) checkKind(refuse func(flag, value string, reasons ...string)) {
	if n.Kind != kindBlock && n.Kind != kindFile {
		refuse("kind", n.Kind, "it must be "+kindBlock+" for disks, or "+kindFile+" for file systems in the network")
	}
	for i, name := range n.sidecarNames() {
		switch {
		case !slices.Contains(allSidecars(), name):
			refuse("sidecars", name, "the controller can have "+strings.Join(allSidecars(), ",")+"; omit the sidecars of the node pods, "+
				"which every driver has")
		case slices.Contains(n.sidecarNames()[:i], name):
			refuse("sidecars", name, "the list has this sidecar twice")
		}
	}
}

// checkPorts refuses numbers that can't be ports of a program on a node. 0 means that new-driver chooses the port.
func (n names) checkPorts(refuse func(flag, value string, reasons ...string)) {
	for flag, port := range map[string]int{"node-port": n.NodePort, "registrar-port": n.RegistrarPort} {
		if port != 0 && (port < 1024 || port > 65535) {
			refuse(flag, strconv.Itoa(port), "it must be between 1024 and 65535")
		}
	}
}

// checkPackage returns why a driver's package and folder can't have this name. If they can, the result is "".
func checkPackage(name string) string {
	switch {
	case len(name) > longestName:
		return fmt.Sprintf("it has %d characters: use at most %d, because the names of Services contain it", len(name), longestName)
	case !regexp.MustCompile(`^[a-z][a-z0-9]*$`).MatchString(name):
		return "it must be lower-case letters and digits and begin with a letter, such as gcppd: it names a Go package, and is a part of DNS names"
	case token.IsKeyword(name) || types.Universe.Lookup(name) != nil:
		return "Go reserves this word: choose another name"
	case slices.Contains([]string{"internal", "testdata", "vendor"}, name):
		return "Go treats folders of this name specially: choose another name"
	default:
		return ""
	}
}
