package driver

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func settingsOf(environment map[string]string) (map[string]string, error) {
	driver := Driver{Settings: []Setting{
		{Variable: "LIMIT", Check: Memory("128Mi")},
		{Variable: "DELETE", Default: "false", Check: Boolean},
		{Variable: "WORKERS", Default: "1", Check: Number(1, 100)},
		{Variable: "TIMEOUT", Default: "5m", Check: Duration(10*time.Second, time.Hour)},
	}}
	return driver.ReadSettings(func(variable string) string { return environment[variable] })
}

func TestSettingsHaveDefaultsAndTakeValues(t *testing.T) {
	got, err := settingsOf(nil)
	if diff := cmp.Diff(map[string]string{"LIMIT": "", "DELETE": "false", "WORKERS": "1", "TIMEOUT": "5m"}, got); diff != "" || err != nil {
		t.Errorf("error %v, settings (-want +got):\n%s", err, diff)
	}
	wanted := map[string]string{"LIMIT": "2Gi", "DELETE": "true", "WORKERS": "100", "TIMEOUT": "90s"}
	got, err = settingsOf(map[string]string{"LIMIT": " 2Gi ", "DELETE": "true", "WORKERS": "100", "TIMEOUT": "90s", "OTHER": "x"})
	if diff := cmp.Diff(wanted, got); diff != "" || err != nil {
		t.Errorf("error %v, settings (-want +got):\n%s", err, diff)
	}
}

func TestAWrongSettingIsRefusedWithTheNameOfItsVariable(t *testing.T) {
	for variable, values := range map[string][]string{
		"LIMIT":   {"lots", "127Mi", "-1Gi"},
		"DELETE":  {"yes", "True", "1"},
		"WORKERS": {"0", "101", "1.5", "ten"},
		"TIMEOUT": {"5", "9s", "61m", "-1m"},
	} {
		for _, value := range values {
			_, err := settingsOf(map[string]string{variable: value})
			if err == nil || !strings.Contains(err.Error(), "environment variable "+variable+"=\""+value+"\": must be") {
				t.Errorf("%s=%s: error %v", variable, value, err)
			}
		}
	}
	_, err := settingsOf(map[string]string{"LIMIT": "x", "WORKERS": "x"})
	if err == nil || !strings.Contains(err.Error(), "LIMIT") || !strings.Contains(err.Error(), "WORKERS") {
		t.Errorf("error %v, want an error that names both", err)
	}
}

func TestASettingIsInheritedFromAPredecessorsArgument(t *testing.T) {
	setting := Setting{Variable: "DELETE", Default: "false", Check: Boolean, Argument: "delete-dir"}
	for arguments, want := range map[string]string{
		"--v=2 --delete-dir=true":                  "true",
		"-delete-dir":                              "true",
		"--delete-dir=false --delete-dir=true":     "true",
		"--delete-dir=true --delete-dir=false":     "",
		"--delete-dir=false":                       "",
		"--delete-dir=always":                      "",
		"--delete-directories=true --x=delete-dir": "",
		"": "",
	} {
		containers := []corev1.Container{
			{Name: "sidecar", Args: []string{"--delete-dir=true"}}, {Name: Container, Args: strings.Fields(arguments)},
		}
		value, found := setting.Inherited(containers)
		if found != (want != "") || found && value != want {
			t.Errorf("%q: %q, %t, want %q", arguments, value, found, want)
		}
	}
	driver := Driver{Settings: []Setting{setting, {Variable: "LIMIT", Check: Memory("1Mi")}}}
	for value, want := range map[string]int{"": 1, "false": 0, "true": 0} {
		if open := driver.Inheritable(func(string) string { return value }); len(open) != want {
			t.Errorf("%q: %d settings are open, want %d", value, len(open), want)
		}
	}
}

func TestARoleThatIsNoneIsRefusedAtTheStart(t *testing.T) {
	driver := Driver{Credentials: []Credentials{{RoleARNVariable: "ROLEARN"}, {RoleARNVariable: "NODE_ROLEARN"}, {}}}
	const role = "arn:aws:iam::123456789012:role/x"
	for value, ok := range map[string]bool{
		"": true, role: true, "arn:aws-us-gov:iam::123456789012:role/openshift/efs-csi+a=b,c.d@e_f-g": true, "arn:aws-cn:iam::123456789012:role/a": true,
		role + " ": false, " " + role: false, role + "\n": false, "arn:aws:iam::123456789012:role/": false, "arn:aws:iam::12345:role/x": false,
		"arn:aws:iam::123456789012:user/x": false, "arn:aws:sts::123456789012:assumed-role/x/y": false, "x": false, `"` + role + `"`: false,
		role + " " + role: false, "arn:aws:iam::123456789012:role/ü": false,
	} {
		for _, variable := range []string{"ROLEARN", "NODE_ROLEARN"} {
			got, err := driver.ReadRoles(func(name string) string { return map[string]string{variable: value}[name] })
			if ok && (err != nil || got[variable] != value || len(got) != 2) {
				t.Errorf("%s=%q: %v, %v", variable, value, got, err)
			}
			if !ok && (err == nil || !strings.Contains(err.Error(), "environment variable "+variable+"=") || !strings.Contains(err.Error(), "must be the ARN of an IAM role")) {
				t.Errorf("%s=%q: error %v", variable, value, err)
			}
		}
	}
}

func TestAnImageWithABlankIsRefusedAtTheStart(t *testing.T) {
	images := map[string]string{"DRIVER_IMAGE": "registry.example/driver:v1"}
	driver := Driver{Assets: fstest.MapFS{"assets/a.yaml": {Data: []byte("image: ${DRIVER_IMAGE}\n")}}}
	if err := driver.CheckImages(images, nil); err != nil {
		t.Error(err)
	}
	for _, image := range []string{"registry.example/driver:v1 ", "\tregistry.example/driver:v1", "registry.example/driver :v1", "a\n"} {
		images["DRIVER_IMAGE"] = image
		if err := driver.CheckImages(images, nil); err == nil || !strings.Contains(err.Error(), "DRIVER_IMAGE=") || !strings.Contains(err.Error(), "must not contain spaces") {
			t.Errorf("%q: error %v", image, err)
		}
	}
}
