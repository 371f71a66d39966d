package images

import (
	"context"
	"crypto/tls"
	"net/url"
	"path/filepath"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

// All other tests run a program that is compiled otherwise: with the race detector, and without the cryptography of FIPS 140-3,
// which accepts less. So this one shows that what is shipped talks to an API server, leads, and serves its metrics.
func installs(t *testing.T, root, program string) {
	cluster, err := env.Start(t.Context(), "--nodes", "2")
	env.Must(t, err)
	t.Cleanup(func() { env.Must(t, cluster.Stop(context.Background())) })
	// A program of bin/ is wanted; this one is in another folder.
	cluster.Operator, err = filepath.Rel(filepath.Join(root, "bin"), program)
	env.Must(t, err)
	env.Must(t, cluster.InstallManifests(t.Context()))
	operator, err := cluster.StartOperator(t.Context(), []string{"--metrics-secure=true"}, nil)
	env.Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the operator printed:\n%s", env.LastLines(operator.Output()))
		}
		env.Must(t, operator.Stop())
	})
	env.Must(t, cluster.Client.Create(t.Context(), env.EFS(operatorv1.Managed)))
	env.Eventually(t, "driver available", func() error {
		return cluster.Condition(t.Context(), operatorv1.OperatorStatusTypeAvailable, operatorv1.ConditionTrue)
	})
	metrics, err := url.Parse(operator.Metrics)
	env.Must(t, err)
	env.Eventually(t, "metrics over TLS", func() error {
		// Nobody knows the certificate: it is invented at every start.
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
		connection, err := dialer.DialContext(t.Context(), "tcp", metrics.Host)
		if err == nil {
			err = connection.Close()
		}
		return err
	})
}
