package openshift

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	ecdsa128 = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
	rsa128   = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
	rsa256   = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
)

func apiServer(spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
}

func profile(kind string) map[string]any {
	return map[string]any{"tlsSecurityProfile": map[string]any{"type": kind}}
}

func custom(version string, ciphers ...any) map[string]any {
	return map[string]any{"tlsSecurityProfile": map[string]any{
		"type": "Custom", "custom": map[string]any{"minTLSVersion": version, "ciphers": ciphers},
	}}
}

func TestProfilesAreTranslated(t *testing.T) {
	intermediate := []string{
		ecdsa128, rsa128, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", rsa256,
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	}
	old := append([]string{}, intermediate...)
	old = append(old,
		"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
		"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
		"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
		"TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_256_GCM_SHA384", "TLS_RSA_WITH_AES_128_CBC_SHA256",
		"TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_AES_256_CBC_SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA")
	cases := map[string]struct {
		spec    map[string]any
		want    ServerTLS
		problem string
		http2   bool
	}{
		"none":         {spec: map[string]any{}, want: ServerTLS{Profile: TLSProfile{"VersionTLS12", intermediate}}, http2: true},
		"Old":          {spec: profile("Old"), want: ServerTLS{Profile: TLSProfile{"VersionTLS10", old}}, http2: true},
		"Intermediate": {spec: profile("Intermediate"), want: ServerTLS{Profile: TLSProfile{"VersionTLS12", intermediate}}, http2: true},
		"Modern":       {spec: profile("Modern"), want: ServerTLS{Profile: TLSProfile{"VersionTLS13", nil}}, http2: true},
		"Custom": {
			spec: custom("VersionTLS12", "ECDHE-RSA-AES256-GCM-SHA384", "TLS_AES_128_GCM_SHA256"),
			want: ServerTLS{Profile: TLSProfile{"VersionTLS12", []string{rsa256}}},
		},
		"Custom with a cipher that Go lacks": {
			spec: custom("VersionTLS11", "DHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
			want: ServerTLS{Profile: TLSProfile{"VersionTLS11", []string{rsa128}}}, problem: "DHE-RSA-AES128-GCM-SHA256", http2: true,
		},
		"Custom without a usable cipher becomes stricter, not weaker": {
			spec: custom("VersionTLS12", "CAMELLIA"),
			want: ServerTLS{Profile: TLSProfile{"VersionTLS13", nil}}, problem: "TLS 1.3 only", http2: true,
		},
		"Custom with a version of the future becomes TLS 1.3, not weaker": {
			spec: custom("VersionTLS14", "ECDHE-RSA-AES128-GCM-SHA256"),
			want: ServerTLS{Profile: TLSProfile{"VersionTLS13", nil}}, problem: "VersionTLS14", http2: true,
		},
		"Custom without a version": {
			spec: custom("", "ECDHE-RSA-AES128-GCM-SHA256"), want: ServerTLS{Profile: TLSProfile{"VersionTLS12", []string{rsa128}}}, http2: true,
		},
		"Custom with TLS 1.3 needs no cipher": {
			spec: custom("VersionTLS13"), want: ServerTLS{Profile: TLSProfile{"VersionTLS13", nil}}, http2: true,
		},
		"Custom that is not filled in": {
			spec: profile("Custom"), want: ServerTLS{Profile: TLSProfile{"VersionTLS12", intermediate}}, problem: "is empty", http2: true,
		},
		"a profile of the future": {
			spec: profile("PostQuantum"), want: ServerTLS{Profile: TLSProfile{"VersionTLS12", intermediate}}, problem: "PostQuantum", http2: true,
		},
		"strict adherence": {
			spec: map[string]any{"tlsAdherence": "StrictAllComponents"},
			want: ServerTLS{Profile: TLSProfile{"VersionTLS12", intermediate}, Strict: true}, http2: true,
		},
		"legacy adherence": {
			spec: map[string]any{"tlsAdherence": "LegacyAdheringComponentsOnly"},
			want: ServerTLS{Profile: TLSProfile{"VersionTLS12", intermediate}}, http2: true,
		},
		"an adherence of the future is strict": {
			spec: map[string]any{"tlsAdherence": "Someday"},
			want: ServerTLS{Profile: TLSProfile{"VersionTLS12", intermediate}, Strict: true}, http2: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ServerTLSOf(apiServer(tc.spec))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got.Problem, tc.problem) || (tc.problem == "" && got.Problem != "") {
				t.Errorf("problem %q, want one with %q", got.Problem, tc.problem)
			}
			tc.want.Problem = got.Problem
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("cluster (-want +got):\n%s", diff)
			}
			if got.Profile.HTTP2() != tc.http2 {
				t.Errorf("HTTP/2 %v, want %v", got.Profile.HTTP2(), tc.http2)
			}
		})
	}
}

func TestAProfileIsAppliedToAServer(t *testing.T) {
	config := &tls.Config{CipherSuites: []uint16{tls.TLS_RSA_WITH_RC4_128_SHA}}
	TLSProfile{MinVersion: "VersionTLS12", Ciphers: []string{rsa128}}.Apply(config)
	want := []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	if diff := cmp.Diff(want, config.CipherSuites); diff != "" || config.MinVersion != tls.VersionTLS12 {
		t.Errorf("version %x, ciphers (-want +got):\n%s", config.MinVersion, diff)
	}
	TLSProfile{MinVersion: "VersionTLS13"}.Apply(config)
	if config.MinVersion != tls.VersionTLS13 || config.CipherSuites != nil {
		t.Errorf("version %x, ciphers %v", config.MinVersion, config.CipherSuites)
	}
}
