package vsphere

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
)

// NewMetrics registers metrics about the vCenters' answers. The number of series is at most vCenters times outcomes. SOAP faults have status 500.
func NewMetrics(registry prometheus.Registerer, driver string) (*poll.Metrics, error) {
	const server = "vcenter"
	return poll.NewMetrics(registry, driver, poll.Kind{
		AnsweredHelp: "When the operator last completed a poll of the vCenter.", AnsweredBy: []string{server},
		CallsHelp: "Requests to the vCenter, by outcome.", CallsBy: server, Limited: http.StatusServiceUnavailable,
	})
}
