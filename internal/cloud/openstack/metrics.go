package openstack

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
)

// NewMetrics registers what says how the cloud answers. There are no more series than services times outcomes.
func NewMetrics(registry prometheus.Registerer, driver string) (*poll.Metrics, error) {
	return poll.NewMetrics(registry, driver, poll.Kind{
		AnsweredHelp: "When the cloud last answered everything that the driver needs to know.",
		CallsHelp:    "Requests to the cloud, by service and outcome.", CallsBy: "service", Limited: http.StatusRequestEntityTooLarge,
	})
}
