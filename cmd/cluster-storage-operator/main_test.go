package main

import (
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/catalogue"
	"github.com/csi-operators/csi-operators/internal/manager"
)

func TestTheProgramRunsInItsOwnNamespace(t *testing.T) {
	options, err := parse([]string{"start", "--leader-elect=false"})
	if err != nil || options.LockName != "cluster-storage-operator-lock" || options.LeaderElect {
		t.Errorf("options %+v, error %v", options, err)
	}
	if namespace := manager.Namespace(options.Options); namespace != catalogue.OperatorNamespace {
		t.Errorf("namespace %s", namespace)
	}
	options, err = parse([]string{"start", "--namespace=other"})
	if err != nil || manager.Namespace(options.Options) != "other" {
		t.Errorf("options %+v, error %v", options, err)
	}
}

func TestAWrongCommandLineIsRefused(t *testing.T) {
	for args, want := range map[string]string{
		"": "the first argument must be start", "stop": "the first argument must be start", "start more": `unexpected argument "more"`,
		"start --driver=a": "flag provided but not defined: -driver",
	} {
		if _, err := parse(strings.Fields(args)); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", args, err, want)
		}
	}
}

// An image that is missing concerns one driver, and is told in its condition. A missing version concerns all.
func TestTheEnvironmentNeedsAVersionAndMayLackImages(t *testing.T) {
	environment := map[string]string{"OPERATOR_IMAGE_VERSION": "4.21.0", "AWS_EBS_DRIVER_IMAGE": "registry.example/ebs:1"}
	lookup := func(variable string) string { return environment[variable] }
	controller, err := fromEnvironment(lookup)
	if err != nil || controller.Version != "4.21.0" || controller.Images["AWS_EBS_DRIVER_IMAGE"] != "registry.example/ebs:1" {
		t.Errorf("controller %+v, error %v", controller, err)
	}
	for _, entry := range controller.Catalogue {
		for _, variable := range entry.Variables() {
			if _, asked := controller.Images[variable]; !asked {
				t.Errorf("%s is not read for %s", variable, entry.Name)
			}
		}
	}
	delete(environment, "OPERATOR_IMAGE_VERSION")
	if _, err := fromEnvironment(lookup); err == nil || !strings.Contains(err.Error(), "OPERATOR_IMAGE_VERSION") {
		t.Errorf("error %v", err)
	}
}
