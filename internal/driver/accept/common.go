package accept

import (
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// OuterBlanks matches texts that strings.TrimSpace would change.
const OuterBlanks = `^[\s\v\x{85}\p{Z}]|[\s\v\x{85}\p{Z}]$`

// Name makes the row for the infrastructureName. The row accepts letters, digits and . _ - up to a maximum length.
func Name(most int, why, source string) Row {
	return Row{Of: ClusterName, Most: most, Match: `[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?`, Why: why, Source: source}
}

// AWSRegion makes the row for regions of AWS. The AWS SDK uses a region as a label of host names.
func AWSRegion() Row {
	return Row{Of: Region, Most: 63, Match: `[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?`, Why: "the AWS SDK takes letters, digits and hyphens only",
		Source: "aws-sdk-go-v2/service/ec2 v1.344.1 endpoints.go, isValidHostLabel of smithy-go v1.28.8 endpoints/private/rulesfn/host.go"}
}

// Named makes rows that accept every value of these names.
func Named(of Subject, source string, names ...string) []Row {
	rows := make([]Row, 0, len(names))
	for _, name := range names {
		rows = append(rows, Row{Of: of, Name: name, Source: source})
	}
	return rows
}

// VolumeModes makes rows for the volume modes that a driver supports.
func VolumeModes(source string, modes ...corev1.PersistentVolumeMode) []Row {
	rows := make([]Row, 0, len(modes))
	for _, mode := range modes {
		rows = append(rows, Row{Of: VolumeMode, Name: string(mode), Source: source})
	}
	return rows
}

// OnlyBlock makes the row for an access mode that a driver accepts only with volumeMode Block. In rows for access modes, Values are volume modes.
func OnlyBlock(mode corev1.PersistentVolumeAccessMode, source string) Row {
	return Row{Of: AccessMode, Name: string(mode), Values: []string{string(corev1.PersistentVolumeBlock)}, Source: source,
		Why: "the driver accepts it with volumeMode Block only"}
}

// IsURL reports whether a text is a plain https URL. Such a URL has a host, but no user, no query and no other part that programs would change or
// drop.
func IsURL(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && IsPlain(text) && parsed.Scheme == "https" && parsed.Hostname() != "" && parsed.User == nil && parsed.RawQuery == "" &&
		!parsed.ForceQuery && parsed.Fragment == "" && !strings.HasSuffix(text, "#") && parsed.String() == text
}

// IsProxy reports whether Go programs parse a text as a proxy. With any other text, Go programs silently use no proxy (golang.org/x/net v0.52.0,
// http/httpproxy/proxy.go parseProxy, config.init), or mistake a part of the text for the host.
func IsProxy(text string) bool {
	// A text can already have a scheme. With two schemes, Go programs would mistake "http" for the host.
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	parsed, err := url.Parse(text)
	return err == nil && IsPlain(text) && parsed.Hostname() != "" && slices.Contains([]string{"http", "https", "socks5", "socks5h"}, parsed.Scheme)
}

// IsNoProxy reports whether the text of noProxy has neither line breaks nor control characters. Each program parses this list of hosts in its own
// way, and skips unknown entries.
func IsNoProxy(text string) bool { return IsPlain(text) }
