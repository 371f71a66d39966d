package manila

import (
	"testing"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

func withTypes(names ...string) func(*driver.Config) {
	return func(cfg *driver.Config) {
		cfg.Cloud = driver.CloudFacts{Known: true, Repeated: true, ShareTypes: names}
	}
}

func TestRenderMatchesReviewedFiles(t *testing.T) {
	variants.CompareAll(t, Driver(), map[string]func(*driver.Config){
		"share-types": withTypes("Default_NFS", "default"),
		"fs-group-policy": func(cfg *driver.Config) {
			cfg.Settings[fsGroupPolicy] = "File"
		},
		"derived": func(cfg *driver.Config) {
			cfg.DependencyHashes = map[driver.Workload]map[string]string{}
			for _, workload := range Driver().Derived.Workloads {
				cfg.DependencyHashes[workload] = map[string]string{Driver().Derived.Name: "9abc"}
			}
		},
	})
}
