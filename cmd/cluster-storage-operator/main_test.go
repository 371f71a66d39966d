package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/operator/manager"
)

func TestTheProgramRunsInItsOwnNamespace(t *testing.T) {
	inPod := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(inPod, []byte("of-the-pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		file string
		want string
	}{
		"outside of a pod":  {file: inPod + "-missing", want: catalogue.OperatorNamespace},
		"in a pod":          {file: inPod, want: "of-the-pod"},
		"the flag wins":     {args: []string{"--namespace=other"}, file: inPod, want: "other"},
		"the flag, outside": {args: []string{"--namespace=other"}, file: inPod + "-missing", want: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			options, err := parse(append([]string{"start", "--leader-elect=false"}, tc.args...))
			if err != nil || options.LockName != "cluster-storage-operator-lock" || options.LeaderElect {
				t.Errorf("options %+v, error %v", options, err)
			}
			// What the machine of the test has is nothing to go by.
			options.NamespaceFile = tc.file
			if namespace := manager.Namespace(options.Options); namespace != tc.want {
				t.Errorf("namespace %s, want %s", namespace, tc.want)
			}
		})
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
