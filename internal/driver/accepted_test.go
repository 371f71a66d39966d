package driver

import (
	"testing"
	"testing/fstest"

	configv1 "github.com/openshift/api/config/v1"
)

// An unreadable Proxy does not affect a driver whose containers get no proxy.
func TestAProxyIsAProblemOfDriversThatUseIt(t *testing.T) {
	cfg := Config{Proxy: configv1.ProxyStatus{HTTPSProxy: "http://proxy:port"}}
	asset := func(text string) fstest.MapFS { return fstest.MapFS{"assets/controller.yaml": {Data: []byte(text)}} }
	for text, want := range map[string]int{
		"annotations:\n  config.openshift.io/inject-proxy: csi-driver\n":          1,
		"annotations:\n  config.openshift.io/inject-proxy-cabundle: csi-driver\n": 0,
		"": 0,
	} {
		if got := (Driver{Assets: asset(text)}).Problems(cfg); len(got) != want {
			t.Errorf("%q: %d problems, not %d: %q", text, len(got), want, got)
		}
	}
}
