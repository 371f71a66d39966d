package accept

import (
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// OuterBlanks matches texts of which strings.TrimSpace would drop something.
const OuterBlanks = `^[\s\v\x{85}\p{Z}]|[\s\v\x{85}\p{Z}]$`

// Name is the row for the infrastructureName: letters, digits and . _ - up to a length, which has a source.
func Name(most int, why, source string) Row {
	return Row{Of: ClusterName, Most: most, Match: `[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?`, Why: why, Source: source}
}

// AWSRegion is the row for regions of AWS, which are labels of host names for its SDK.
func AWSRegion() Row {
	return Row{Of: Region, Most: 63, Match: `[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?`, Why: "the AWS SDK takes letters, digits and hyphens only",
		Source: "aws-sdk-go-v2/service/ec2 v1.344.1 endpoints.go, isValidHostLabel of smithy-go v1.28.8 endpoints/private/rulesfn/host.go"}
}

// Named are rows for names whose values are not looked at.
func Named(of Subject, source string, names ...string) []Row {
	rows := make([]Row, 0, len(names))
	for _, name := range names {
		rows = append(rows, Row{Of: of, Name: name, Source: source})
	}
	return rows
}

// VolumeModes are rows for the modes of volumes that a driver makes and mounts.
func VolumeModes(source string, modes ...corev1.PersistentVolumeMode) []Row {
	rows := make([]Row, 0, len(modes))
	for _, mode := range modes {
		rows = append(rows, Row{Of: VolumeMode, Name: string(mode), Source: source})
	}
	return rows
}

// IsURL tells whether a program calls an address as it is written: https, a host, and nothing that it would change or drop.
func IsURL(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && IsPlain(text) && parsed.Scheme == "https" && parsed.Hostname() != "" && parsed.User == nil && parsed.RawQuery == "" &&
		!parsed.ForceQuery && parsed.Fragment == "" && !strings.HasSuffix(text, "#") && parsed.String() == text
}

// IsProxy tells whether programs in Go take a text for a proxy. They go without one if they can't read it, and say nothing (golang.org/x/net v0.52.0,
// http/httpproxy/proxy.go parseProxy, config.init), or take a part of it for the host.
func IsProxy(text string) bool {
	// With a scheme before a scheme, they would take "http" for the host.
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	parsed, err := url.Parse(text)
	return err == nil && IsPlain(text) && parsed.Hostname() != "" && slices.Contains([]string{"http", "https", "socks5", "socks5h"}, parsed.Scheme)
}

// IsNoProxy tells whether the list of hosts without a proxy is one line. Each program reads it in its own way, and skips what it does not know.
func IsNoProxy(text string) bool { return IsPlain(text) }
