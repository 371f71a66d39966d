package storage

import (
	"net/http"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// metricsAreNotForEverybody looks at a program outside of the cluster. The API server finds out who asks, which the program needs RBAC for. That allowed
// readers get metrics is shown in test/e2e.
func metricsAreNotForEverybody(t *testing.T, s *scene) {
	t.Helper()
	k := s.outside("csi-driver-operator")
	address, err := env.FreeAddress(t.Context())
	env.Must(t, err)
	program := k.start("--metrics-bind-address", address)
	token, err := s.Token(t.Context(), "default", "default")
	env.Must(t, err)
	url := "https://" + address + "/metrics"
	s.eventually("the endpoint answers", func() error {
		_, err := env.Ask(t.Context(), url, "", env.Trusting(0))
		return err
	})
	for who, one := range map[string]struct {
		token string
		want  int
	}{
		"nobody": {"", http.StatusUnauthorized}, "a stranger": {"made-up", http.StatusUnauthorized}, "an account without a right": {token, http.StatusForbidden},
	} {
		if code, err := env.Ask(t.Context(), url, one.token, env.Trusting(0)); err != nil || code != one.want {
			t.Errorf("%s gets %d (%v), want %d", who, code, err, one.want)
		}
	}
	k.stop(program)
}
