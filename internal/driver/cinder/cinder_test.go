package cinder

import (
	"testing"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

func TestRenderMatchesReviewedFiles(t *testing.T) {
	variants.CompareAll(t, Driver(), map[string]func(*driver.Config){
		"derived": func(cfg *driver.Config) {
			cfg.DependencyHashes = map[driver.Workload]map[string]string{}
			for _, workload := range Driver().Derived.Workloads {
				cfg.DependencyHashes[workload] = map[string]string{Driver().Derived.Name: "9abc"}
			}
		},
		// The cloud's answer affects derived values, but not rendered objects.
		"zones": func(cfg *driver.Config) {
			cfg.Cloud = driver.CloudFacts{Known: true, ComputeZones: []string{"nova"}, VolumeZones: []string{"nova"}}
		},
	})
}
