package program

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod(container corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"},
		Spec:       corev1.PodSpec{ServiceAccountName: "account", Containers: []corev1.Container{container}},
		Status:     corev1.PodStatus{PodIP: "10.1.2.3"},
	}
}

func TestFlagsNameProgramsByTheirImages(t *testing.T) {
	all, err := Parse([]string{"registry.example/a@sha256:1=/bin/sh"}, []string{"b=sh"})
	if err != nil {
		t.Fatal(err)
	}
	absolute, err := filepath.Abs("sh")
	if err != nil {
		t.Fatal(err)
	}
	want := []Program{{Image: "registry.example/a@sha256:1", Path: "/bin/sh"}, {Image: "b", Path: absolute, Foreign: true}}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for i, want := range []string{"--program=registry.example/a@sha256:1=/bin/sh", "--foreign-program=b=" + absolute} {
		if got := all[i].Flag(); got != want {
			t.Errorf("flag is %s, want %s", got, want)
		}
	}
	for _, value := range []string{"a", "=a", "a="} {
		if _, err := Parse([]string{value}, nil); err == nil {
			t.Errorf("%q is accepted", value)
		}
	}
}

func TestProgramsThatCannotRunAreRefused(t *testing.T) {
	sh := Program{Image: "a", Path: "/bin/sh"}
	for name, test := range map[string]struct {
		programs []Program
		want     string
	}{
		"fine":      {[]Program{sh}, ""},
		"twice":     {[]Program{sh, sh}, "image a is given twice"},
		"missing":   {[]Program{{Image: "a", Path: "/does/not/exist"}}, "build the program first"},
		"a folder":  {[]Program{{Image: "a", Path: t.TempDir()}}, "build the program first"},
		"just data": {[]Program{{Image: "a", Path: "/etc/passwd"}}, "build the program first"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Validate(test.programs)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestOnlyPodsOfFakeNodesGetAProgram(t *testing.T) {
	sh := Program{Image: "a", Path: "/bin/sh"}
	r := &runner{programs: map[string]Program{"a": sh}, realNodes: []string{"worker-1"}}
	for node, want := range map[string]bool{"worker-0": true, "worker-1": false} {
		p := pod(corev1.Container{Image: "a"})
		p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
		if _, got := r.programOf(p); got != want {
			t.Errorf("the pod of %s gets a program: %t, want %t", node, got, want)
		}
	}
}

func TestProgramGetsThePodsArguments(t *testing.T) {
	container := corev1.Container{
		Args: []string{"start", "--metrics-cert-dir", "/certs", "-metrics-cert-dir=/certs", "--driver=$(DRIVER)", "$$(DRIVER)", "-v", "2"},
		Env:  []corev1.EnvVar{{Name: "DRIVER", Value: "d"}},
	}
	with := container
	with.Command = []string{"/usr/bin/operator", "--first"}
	common := []string{"--driver=d", "$(DRIVER)", "-v", "2"}
	ours := []string{"--namespace=ns", "--health-probe-bind-address=0", "--metrics-bind-address=0"}
	for name, test := range map[string]struct {
		container corev1.Container
		foreign   bool
		want      []string
	}{
		"ours":         {container, false, append(append([]string{"start"}, common...), ours...)},
		"foreign":      {container, true, append([]string{"start", "--metrics-cert-dir", "/certs", "-metrics-cert-dir=/certs"}, common...)},
		"with command": {with, false, append(append([]string{"--first", "start"}, common...), ours...)},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(test.container)
			variables, err := environment(p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, Program{Foreign: test.foreign}.arguments(p, variables)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestProgramGetsTheContainersEnvironment(t *testing.T) {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	got, err := environment(pod(corev1.Container{Env: []corev1.EnvVar{
		{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)2"}, field("NAME", "metadata.name"), field("NS", "metadata.namespace"),
		field("IP", "status.podIP"),
	}}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"A": "1", "B": "12", "NAME": "a", "NS": "ns", "IP": "10.1.2.3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, container := range map[string]corev1.Container{
		"unknown field": {Env: []corev1.EnvVar{field("X", "metadata.moon")}},
		"Secret":        {Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}}}},
		"envFrom":       {EnvFrom: []corev1.EnvFromSource{{}}},
	} {
		if _, err := environment(pod(container)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestKubeconfigWinsOverThePodsEnvironment(t *testing.T) {
	all := variables(map[string]string{"KUBECONFIG": "theirs", "A": "1"}, "/home", "/ours")
	if last := all[len(all)-1]; last != "KUBECONFIG=/ours" || len(all) != 6 {
		t.Errorf("environment %v", all)
	}
}
