package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/release/olm"
)

// subject is one sort of names that the page must list.
type subject struct {
	what string
	// headings are the headings of the sections that can list such a name.
	headings []string
	find     func(root string) (names, error)
	// Field "except" has words in the code that look like such a name, but are something else. Field "besides" has names on the page that are not names
	// in the code, for example because only libraries read them.
	except, besides names
}

func subjects() []subject {
	const conditions, events = "Conditions", "Events"
	return []subject{
		{
			what: "condition or reason", headings: []string{conditions, "Reasons of conditions", events, "Phases of a SharedVolume", "States of a driver"},
			find: statusWords, except: otherWords(),
		},
		{what: "reason of an event", headings: []string{events}, find: eventReasons, besides: besidesEvents()},
		{what: "metric", headings: []string{"Metrics"}, find: metrics},
		{what: "environment variable", headings: []string{"Environment variables"}, find: variables, besides: names{
			"KUBECONFIG": "client-go reads it", "AWS_ENDPOINT_URL": "AWS's SDK reads it",
		}},
		{what: "annotation, label or finalizer", headings: []string{"Annotations and labels"}, find: keys, except: otherKeys()},
	}
}

// reporting returns the folders whose code writes a status or an event.
func reporting() []string {
	return []string{"api", "internal/controller", "internal/driver", "internal/cloud/efs", "internal/cloud/openstack", "internal/cloud/vsphere",
		"internal/kube/status"}
}

// statusWords returns all words that have the form of a condition type or of a reason.
func statusWords(root string) (names, error) {
	found, err := literals(root, reporting()...)
	if err != nil {
		return nil, err
	}
	return like(found, regexp.MustCompile(`^[A-Z]+[a-z]+([A-Z]+[a-z0-9]*)*$`), nil), nil
}

// eventReasons returns the constants whose names start with "event", the constants of type problem, and the literal reasons in calls of Eventf.
func eventReasons(root string) (names, error) {
	found, err := literals(root, reporting()...)
	if err != nil {
		return nil, err
	}
	return like(found, regexp.MustCompile(`^[A-Z][A-Za-z]+$`), func(one literal) bool {
		const reasonOfEventf = 3
		return strings.HasPrefix(one.constant, "event") || one.kind == "problem" || one.call == "Eventf" && one.argument == reasonOfEventf
	}), nil
}

// metrics returns the names in files that register metrics.
func metrics(root string) (names, error) {
	found, err := literals(root, "internal")
	if err != nil {
		return nil, err
	}
	return like(found, regexp.MustCompile(`^[a-z]+(_[a-z]+){2,}$`), func(one literal) bool {
		return strings.HasPrefix(one.constant, "Metric") || strings.Contains(one.place, "/metrics.go:")
	}), nil
}

// variables returns the environment variables that programs read. It also returns the variables that the drivers and the catalogue declare.
func variables(root string) (names, error) {
	found, err := literals(root, "cmd", "internal")
	if err != nil {
		return nil, err
	}
	asked := like(found, regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`), func(one literal) bool {
		return one.argument == 0 && (one.call == "Getenv" || one.call == "LookupEnv" || one.call == "lookup")
	})
	add := func(name, place string) {
		if name != "" && asked[name] == "" {
			asked[name] = place
		}
	}
	for _, d := range all.Drivers() {
		if third, err := isThirdParty(root, d.Name); err != nil {
			return nil, err
		} else if third {
			continue
		}
		place := "driver " + d.Name
		for _, name := range d.Images() {
			add(name, place)
		}
		for _, setting := range d.Settings {
			add(setting.Variable, place)
		}
		for _, request := range d.Credentials {
			add(request.RoleARNVariable, place)
		}
	}
	for _, entry := range catalogue.All() {
		for _, name := range entry.Variables() {
			add(name, "catalogue, "+entry.Name)
		}
	}
	return asked, nil
}

// isThirdParty reports whether a driver has a package below packages/.
func isThirdParty(root, driver string) (bool, error) {
	packages, err := filepath.Glob(filepath.Join(root, "packages", "*"))
	if err != nil {
		return false, fmt.Errorf("packages of third-party drivers: %w", err)
	}
	for _, folder := range packages {
		described, err := olm.PackageOf(os.DirFS(folder))
		if err != nil {
			return false, fmt.Errorf("%s: %w", folder, err)
		}
		if described.Driver == driver {
			return true, nil
		}
	}
	return false, nil
}

// keys returns the annotations, labels and finalizers that operators read or write.
func keys(root string) (names, error) {
	found, err := literals(root, "internal/kube/apply", "internal/kube/openshift", "internal/controller", "internal/driver", "internal/cloud/efs")
	if err != nil {
		return nil, err
	}
	return like(found, regexp.MustCompile(`^\.?[a-z0-9-]+(\.[a-z0-9-]+)+/[A-Za-z][A-Za-z0-9._-]*$`), nil), nil
}
