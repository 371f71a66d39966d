package openshift

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// TLSProfile configures TLS servers. OpenShift uses OpenSSL's names of ciphers, but Go uses IANA's names.
type TLSProfile struct {
	// MinVersion is in the form of Kubernetes' flag --tls-min-version, such as "VersionTLS12".
	MinVersion string
	// Ciphers are the IANA names of ciphers for TLS 1.2 and older; Go does not let a server choose ciphers of TLS 1.3. So Ciphers is empty if MinVersion
	// is VersionTLS13.
	Ciphers []string
}

// IntermediateTLS is OpenShift's default.
func IntermediateTLS() TLSProfile {
	profile, _ := of(*configv1.TLSProfiles[configv1.TLSProfileIntermediateType])
	return profile
}

// ServerTLS is the TLS configuration in the APIServer.
type ServerTLS struct {
	// Profile defaults to Intermediate.
	Profile TLSProfile
	// Strict means that internal servers follow the profile, too (spec.tlsAdherence).
	Strict bool
	// Problem says why servers can't follow a part of the profile. It is empty if servers can follow the whole profile.
	Problem string
}

// ServerTLSOf reads an unstructured APIServer, because the Go types lack the newer field tlsAdherence.
func ServerTLSOf(apiServer *unstructured.Unstructured) (ServerTLS, error) {
	var spec struct {
		Spec struct {
			Profile   *configv1.TLSSecurityProfile `json:"tlsSecurityProfile"`
			Adherence string                       `json:"tlsAdherence"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(apiServer.Object, &spec); err != nil {
		return ServerTLS{}, fmt.Errorf("read spec of APIServer %s: %w", apiServer.GetName(), err)
	}
	cluster := ServerTLS{}
	switch spec.Spec.Adherence {
	case "", "LegacyAdheringComponentsOnly", "LegacyExternalAPIServerComponentsOnly":
	default:
		// OpenShift's API says to treat an unknown value as strict.
		cluster.Strict = true
	}
	cluster.Profile, cluster.Problem = from(spec.Spec.Profile)
	return cluster, nil
}

// from translates a profile. It omits ciphers that Go does not support. Without these ciphers, the result is at least as strict as the profile.
func from(profile *configv1.TLSSecurityProfile) (TLSProfile, string) {
	if profile == nil || profile.Type == "" {
		return IntermediateTLS(), ""
	}
	if profile.Type != configv1.TLSProfileCustomType {
		known := configv1.TLSProfiles[profile.Type]
		if known == nil {
			return IntermediateTLS(), fmt.Sprintf("TLS security profile %q in APIServer/cluster is unknown, so Intermediate is used: upgrade the "+
				"operator, or choose Old, Intermediate, Modern or Custom", profile.Type)
		}
		// Do not report unknown ciphers here. OpenShift's profiles have ciphers that Go lacks, and all Go servers omit these ciphers.
		translated, _ := of(*known)
		return translated, ""
	}
	if profile.Custom == nil {
		return IntermediateTLS(), "TLS security profile in APIServer/cluster is Custom, but spec.tlsSecurityProfile.custom is empty: " +
			"Intermediate is used instead; add ciphers and minTLSVersion to spec.tlsSecurityProfile.custom, or choose another type"
	}
	translated, unknown := of(profile.Custom.TLSProfileSpec)
	if len(translated.Ciphers) == 0 && translated.MinVersion != tls13 {
		translated.MinVersion = tls13
		return translated, "the custom TLS security profile in APIServer/cluster has no supported cipher for TLS 1.2, so servers accept TLS 1.3 " +
			"only: add a cipher, such as ECDHE-RSA-AES128-GCM-SHA256, or set minTLSVersion to VersionTLS13"
	}
	if minimum := string(profile.Custom.MinTLSVersion); minimum != "" && versions()[minimum] == 0 {
		return translated, fmt.Sprintf("the custom TLS security profile in APIServer/cluster has minTLSVersion %q, which is unknown, so "+
			"servers accept TLS 1.3 only: upgrade the operator, or choose VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13", minimum)
	}
	if len(unknown) > 0 {
		return translated, fmt.Sprintf("the custom TLS security profile in APIServer/cluster names unsupported ciphers, which are left out: "+
			"%s", strings.Join(unknown, ", "))
	}
	return translated, ""
}

const tls13 = "VersionTLS13"

// of translates a profile. It also returns the names of the ciphers that Go lacks. OpenShift's servers use TLS 1.2 for an empty version, and do not
// start with an unknown version (github.com/openshift/library-go, pkg/crypto/crypto.go, TLSVersion). An unknown version becomes TLS 1.3 here, because
// an older operator must not weaken a newer setting.
func of(spec configv1.TLSProfileSpec) (profile TLSProfile, unknown []string) {
	profile.MinVersion = cmp.Or(string(spec.MinTLSVersion), string(configv1.VersionTLS12))
	if versions()[profile.MinVersion] == 0 {
		profile.MinVersion = tls13
	}
	suites := suites()
	for _, name := range spec.Ciphers {
		translated := iana(name)
		suite := suites[translated]
		switch {
		case suite == nil:
			unknown = append(unknown, name)
		case profile.MinVersion == tls13 || slices.Equal(suite.SupportedVersions, []uint16{tls.VersionTLS13}):
		case !slices.Contains(profile.Ciphers, translated):
			profile.Ciphers = append(profile.Ciphers, translated)
		}
	}
	return profile, unknown
}

// iana translates an OpenSSL cipher name, and keeps an IANA name.
func iana(openSSL string) string {
	if strings.HasPrefix(openSSL, "TLS_") {
		return openSSL
	}
	exchange, cipher := "RSA", openSSL
	for _, prefix := range []string{"ECDHE-ECDSA", "ECDHE-RSA", "DHE-RSA"} {
		if rest, found := strings.CutPrefix(openSSL, prefix+"-"); found {
			exchange, cipher = strings.ReplaceAll(prefix, "-", "_"), rest
		}
	}
	names := map[string]string{
		"AES128-GCM-SHA256": "AES_128_GCM_SHA256", "AES256-GCM-SHA384": "AES_256_GCM_SHA384",
		"CHACHA20-POLY1305": "CHACHA20_POLY1305_SHA256", "AES128-SHA256": "AES_128_CBC_SHA256",
		"AES256-SHA384": "AES_256_CBC_SHA384", "AES256-SHA256": "AES_256_CBC_SHA256",
		"AES128-SHA": "AES_128_CBC_SHA", "AES256-SHA": "AES_256_CBC_SHA", "DES-CBC3-SHA": "3DES_EDE_CBC_SHA",
	}
	if names[cipher] == "" {
		return openSSL
	}
	return "TLS_" + exchange + "_WITH_" + names[cipher]
}

// HTTP2 reports whether a server is allowed to speak HTTP/2. Below TLS 1.3, HTTP/2 needs at least one of two ciphers (RFC 9113, 9.2.2). With neither
// cipher, a Go server does not start with HTTP/2.
func (p TLSProfile) HTTP2() bool {
	return p.MinVersion == tls13 ||
		slices.Contains(p.Ciphers, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256") ||
		slices.Contains(p.Ciphers, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
}

// Apply sets the profile on a server's configuration.
func (p TLSProfile) Apply(config *tls.Config) {
	config.MinVersion = versions()[p.MinVersion]
	config.CipherSuites = nil
	for _, name := range p.Ciphers {
		if suite := suites()[name]; suite != nil {
			config.CipherSuites = append(config.CipherSuites, suite.ID)
		}
	}
}

func versions() map[string]uint16 {
	return map[string]uint16{
		"VersionTLS10": tls.VersionTLS10, "VersionTLS11": tls.VersionTLS11, "VersionTLS12": tls.VersionTLS12, tls13: tls.VersionTLS13,
	}
}

func suites() map[string]*tls.CipherSuite {
	all := map[string]*tls.CipherSuite{}
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		all[suite.Name] = suite
	}
	return all
}
