package rules

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/catalogue"
	"github.com/csi-operators/csi-operators/internal/driver"
)

// described is what the catalogue repeats of a driver, so that it does not have to know it.
type described struct {
	Name, Operator, Condition, Platform string
	Images                              []string
	Workloads                           []catalogue.Workload
	Secrets                             []catalogue.Secret
}

// Who starts an operator must know as much of its driver as the operator itself, and no entry may be forgotten.
func TestTheCatalogueHasTheDriversOfThisRepository(t *testing.T) {
	entries, drivers := map[string]described{}, map[string]described{}
	for _, entry := range catalogue.All() {
		if !entry.Builtin {
			continue
		}
		entries[entry.Name] = described{
			Name: entry.Name, Operator: entry.Operator, Condition: entry.Condition, Platform: string(entry.Platform),
			Workloads: entry.Workloads, Secrets: entry.Secrets,
		}
		for variable := range entry.Images {
			found := entries[entry.Name]
			found.Images = append(found.Images, variable)
			slices.Sort(found.Images)
			entries[entry.Name] = found
		}
	}
	everyDriver(t, func(d driver.Driver, objects []client.Object) {
		if d.Removable {
			// OLM installs its operator.
			return
		}
		found := described{Name: d.Name, Operator: d.Operator, Condition: d.ConditionPrefix, Platform: string(d.Platform), Images: d.Images()}
		slices.Sort(found.Images)
		for _, credentials := range d.Credentials {
			if credentials.Payload {
				found.Secrets = append(found.Secrets, catalogue.Secret{Namespace: catalogue.Namespace, Name: credentials.Secret})
			}
		}
		for _, object := range objects {
			switch workload := object.(type) {
			case *appsv1.Deployment:
				found.Workloads = append([]catalogue.Workload{{Kind: "Deployment", Namespace: workload.Namespace, Name: workload.Name}}, found.Workloads...)
			case *appsv1.DaemonSet:
				found.Workloads = append(found.Workloads, catalogue.Workload{Kind: "DaemonSet", Namespace: workload.Namespace, Name: workload.Name})
			}
		}
		drivers[d.Name] = found
	})
	if diff := cmp.Diff(drivers, entries); diff != "" {
		t.Errorf("catalogue (-internal/driver +internal/catalogue/entries.go):\n%s", diff)
	}
}
