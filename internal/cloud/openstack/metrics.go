package openstack

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
)

// NewMetrics registers metrics about the cloud's answers. The number of series is at most services times outcomes.
func NewMetrics(registry prometheus.Registerer, driver string) (*poll.Metrics, error) {
	return poll.NewMetrics(registry, driver, poll.Kind{
		AnsweredHelp: "When the operator last completed a poll of the cloud.",
		CallsHelp:    "Requests to the cloud, by service and outcome.", CallsBy: "service", Limited: http.StatusRequestEntityTooLarge,
	})
}
