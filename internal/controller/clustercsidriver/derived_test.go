package clustercsidriver

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const plain = "s3cr3t"

// deriving is a driver whose pods mount one Secret, made of a ConfigMap and of the Secret with its keys.
func deriving() driver.Driver {
	d := disk()
	d.Credentials = d.Credentials[:1]
	d.Credentials[0].Workload = ""
	d.Derived = &driver.Derived{
		Name: "disk-config", Workloads: []driver.Workload{driver.Controller, driver.Node},
		ConfigMaps: []driver.DerivedConfigMap{{ObjectKey: client.ObjectKey{Namespace: "openshift-config", Name: "cloud"}}},
		Build: func(inputs driver.DerivedInputs) (map[string][]byte, error) {
			if inputs.ConfigMaps["cloud"]["cloud"] == "" {
				return nil, errors.New("key cloud is empty: fill it in")
			}
			return map[string][]byte{"conf": []byte(inputs.ConfigMaps["cloud"]["cloud"] + " " + string(inputs.Secrets["disk-keys"]["credentials"]))}, nil
		},
	}
	return d
}

func cloudConfig(cloud string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "cloud"}, Data: map[string]string{"cloud": cloud}}
}

func diskKeys() *corev1.Secret {
	return secret(map[string][]byte{"credentials": []byte(plain)})
}

// observeDerived is the part of a trip that reads the inputs.
func (s *trip) observeDerived(t *testing.T, has live) seen {
	t.Helper()
	found := seen{live: has}
	var err error
	if found.live.credentials, err = s.Credentials.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(s.Kinds, openshift.ProxyKind())
	if err := s.inputs(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	found.holds, _ = s.holds(&found)
	return found
}

func TestWorkloadsWaitForADerivedSecretUntilThereIsOne(t *testing.T) {
	const missing = "ConfigMap openshift-config/cloud, which configures the driver for the cloud, is missing: restore it"
	const goesOn = "; the driver keeps its previous configuration"
	for name, tc := range map[string]struct {
		objects []client.Object
		before  string
		// hash is what pods are to have, * the one of what is made.
		hash, problem, holds string
	}{
		"it is made":                {objects: []client.Object{cloudConfig("a"), diskKeys()}, hash: "*"},
		"it is made anew":           {objects: []client.Object{cloudConfig("a"), diskKeys()}, before: "x", hash: "*"},
		"no keys":                   {objects: []client.Object{cloudConfig("a")}, holds: waitForKeys},
		"no keys any more":          {objects: []client.Object{cloudConfig("a")}, before: "x", hash: "x"},
		"no ConfigMap":              {objects: []client.Object{diskKeys()}, problem: missing, holds: missing},
		"no ConfigMap any more":     {objects: []client.Object{diskKeys()}, before: "x", hash: "x", problem: missing + goesOn},
		"a ConfigMap of no use yet": {objects: []client.Object{cloudConfig(""), diskKeys()}, problem: "key cloud is empty: fill it in", holds: "key cloud is empty: fill it in"},
	} {
		s := newTrip(t, deriving(), tc.objects...)
		workload := daemonSet()
		workload.Spec.Template.Annotations = map[string]string{driver.DependencyHashAnnotation + "disk-config": tc.before}
		found := s.observeDerived(t, live{daemonSet: workload})
		if made := found.derived.Object; tc.hash == "*" && made != nil {
			tc.hash = apply.ContentHash(made.Data)
		}
		for _, workload := range deriving().Derived.Workloads {
			if got := found.config.DependencyHashes[workload]["disk-config"]; got != tc.hash || found.holds[workload] != tc.holds {
				t.Errorf("%s: %s reads %q, want %q; it is held by %q, want %q", name, workload, got, tc.hash, found.holds[workload], tc.holds)
			}
		}
		if got := strings.Join(found.problems, "|"); got != tc.problem {
			t.Errorf("%s: problem %q, want %q", name, got, tc.problem)
		}
	}
}

// A pod that started with the content before would keep it: its annotation says that it has the new one.
func TestWorkloadsWaitForASecretThatCannotBeApplied(t *testing.T) {
	d := deriving()
	s := newTrip(t, d, cloudConfig("a"), diskKeys())
	found := s.observeDerived(t, live{})
	objects, err := d.Render(s.Client.Scheme(), driver.Config{
		Namespace: here, Images: s.Images, Settings: map[string]string{}, DependencyHashes: found.config.DependencyHashes,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.cluster.Refuse(errors.New("no room"), "apply Secret")
	done := s.set(t.Context(), found, objects)
	result := outcome{seen: found, applied: done, changes: done.changes}
	var applied []string
	for _, write := range s.cluster.Sent() {
		if strings.HasPrefix(write, "apply Deployment") || strings.HasPrefix(write, "apply DaemonSet") {
			applied = append(applied, write)
		}
	}
	if len(applied) > 0 {
		t.Errorf("applied all the same: %v", applied)
	}
	failures := result.changes.With(apply.Failed)
	if len(failures) != 1 || failures[0].Subject.Kind != "Secret" || strings.Contains(fmt.Sprint(failures.Err()), plain) {
		t.Errorf("failures %v", failures.Err())
	}
	cr, _ := healthy()
	all, _, _ := s.reporter.conditions(cr, result)
	const held = "False Waiting: Secret storage-system/disk-config can't be applied"
	if got := texts(all); got["ControllerAvailable"] != held || got["NodesAvailable"] != held {
		t.Errorf("conditions %v", got)
	}
	s = newTrip(t, d, cloudConfig("a"), diskKeys())
	done = s.set(t.Context(), s.observeDerived(t, live{}), objects)
	if failed := done.changes.With(apply.Failed); len(failed) > 0 {
		t.Errorf("failures %v", failed.Err())
	}
	if diff := cmp.Diff("a "+plain, string(canned.Written[corev1.Secret](t, s.cluster, "apply Secret "+here+"/disk-config").Data["conf"])); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	if text := fmt.Sprint(s.applier.Mutations); strings.Contains(text, plain) {
		t.Errorf("remembered in plain text: %s", text)
	}
}
