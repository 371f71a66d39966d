package real

import (
	_ "embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

//go:embed testdata/flags.yaml
var flagLists []byte

// accepted is what a program accepts, by its source.
type accepted struct {
	Program    string                       `json:"program"`
	Version    string                       `json:"version"`
	Source     string                       `json:"source"`
	Containers []string                     `json:"containers"`
	Flags      map[string]string            `json:"flags"`
	Modes      map[string]map[string]string `json:"modes"`
	// Removed and Environment have the place in the source as their values.
	Removed     map[string]string `json:"removed"`
	Environment map[string]string `json:"environment"`
}

func readLists(t *testing.T) []accepted {
	t.Helper()
	lists, err := parseLists()
	if err != nil {
		t.Fatal(err)
	}
	return lists
}

func parseLists() ([]accepted, error) {
	var lists []accepted
	if err := yaml.UnmarshalStrict(flagLists, &lists); err != nil {
		return nil, fmt.Errorf("testdata/flags.yaml: %w", err)
	}
	for _, profile := range suite.profiles {
		lists = append(lists, profile.Programs...)
	}
	return lists, nil
}

// listOf is the list of the program in a container of a driver's folder.
func listOf(lists []accepted, folder, container string) (accepted, bool) {
	for _, list := range lists {
		for _, name := range list.Containers {
			// The patterns are those of testdata/flags.yaml, and valid.
			if matches, _ := path.Match(name, container); matches || name == folder+" "+container {
				return list, true
			}
		}
	}
	return accepted{}, false
}

// own says that the containers are those of one driver.
func (a *accepted) own(folder string) {
	for i := range a.Containers {
		a.Containers[i] = folder + " " + a.Containers[i]
	}
}

// check names the program and each of the arguments that it would refuse, or that do nothing.
func (a accepted) check(args []string) (problems []error) {
	problem := func(flag, why string) {
		problems = append(problems, fmt.Errorf("%s %s: %s %s (%s)", a.Program, a.Version, flag, why, a.Source))
	}
	known := maps.Clone(a.Flags)
	if len(a.Modes) > 0 && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		mode, found := a.Modes[args[0]]
		if !found {
			problem(args[0], "is no mode")
		}
		maps.Copy(known, mode)
		args = args[1:]
	}
	for _, argument := range args {
		name, value, _ := strings.Cut(argument, "=")
		flag, isFlag := strings.CutPrefix(name, "--")
		kind, found := known[flag]
		switch {
		case !isFlag:
			problem(argument, "is no flag")
		case a.Removed[flag] != "":
			problem(name, "is removed: "+a.Removed[flag])
		case !found:
			problem(name, "is not a flag")
		case !acceptable(kind, strings.TrimPrefix(argument, name), value):
			problem(argument, "is no "+kind)
		}
	}
	return problems
}

// acceptable reports whether a flag of a kind takes the rest of its argument.
func acceptable(kind, rest, value string) bool {
	var err error
	switch kind {
	case "string":
		return rest != ""
	case "bool":
		if rest != "" {
			_, err = strconv.ParseBool(value)
		}
	case "int":
		_, err = strconv.ParseInt(value, 10, 64)
	case "float":
		_, err = strconv.ParseFloat(value, 64)
	case "duration":
		_, err = time.ParseDuration(value)
	case "pairs":
		return !slices.ContainsFunc(strings.Split(value, ","), func(pair string) bool { return !strings.Contains(pair, "=") })
	default:
		return false
	}
	return err == nil
}

// checkEnvironment names each variable that nothing in the program reads.
func (a accepted) checkEnvironment(variables []corev1.EnvVar) (problems []error) {
	for _, variable := range variables {
		if a.Environment[variable.Name] == "" {
			problems = append(problems, fmt.Errorf("%s %s: nothing reads the variable %s (%s)", a.Program, a.Version, variable.Name, a.Source))
		}
	}
	return problems
}

func TestProgramsWithoutModulesKnowTheirFlags(t *testing.T) {
	lists := readLists(t)
	checked := map[string]int{}
	// A mistake is in most variants.
	said := map[string]bool{}
	for folder, variants := range suite.variants {
		for _, v := range variants {
			containers := slices.Concat(v.deployment.Spec.Template.Spec.Containers, v.daemonSet.Spec.Template.Spec.Containers)
			for i := range v.others {
				// The mounting part of Manila has the name of the driver's container.
				if v.others[i].Name == "csi-driver" {
					v.others[i].Name = "csi-driver-nfs"
				}
			}
			for _, container := range append(containers, v.others...) {
				list, found := listOf(lists, folder, container.Name)
				if !found {
					if !slices.Contains(released(), container.Name) {
						t.Errorf("%s: container %s: there is no list of what its program accepts: add one to programs in %s", v, container.Name,
							profileFile(folder))
					}
					continue
				}
				checked[list.Program]++
				for _, problem := range append(list.check(container.Args), list.checkEnvironment(container.Env)...) {
					if key := folder + container.Name + problem.Error(); !said[key] {
						said[key] = true
						t.Errorf("%s: container %s: %v: change the assets, or what the program accepts in %s or in testdata/flags.yaml", v, container.Name,
							problem, profileFile(folder))
					}
				}
			}
		}
	}
	for _, list := range lists {
		if checked[list.Program] == 0 {
			t.Errorf("nothing is rendered for %s", list.Program)
		}
	}
}

func TestAnArgumentThatAProgramDoesNotKnowIsNamed(t *testing.T) {
	list := accepted{
		Program: "driver", Version: "1", Source: "main.go",
		Flags:   map[string]string{"endpoint": "string", "v": "int", "batching": "bool", "timeout": "duration", "rate": "float"},
		Modes:   map[string]map[string]string{"controller": {"extra-tags": "pairs"}, "node": {"reserved": "int"}},
		Removed: map[string]string{"logtostderr": "options.go"},
	}
	for arguments, want := range map[string]string{
		"--endpoint=/a --v=2 --batching --batching=false --timeout=3s --rate=1.5": "",
		"controller --extra-tags=a=b,c=d":                                         "",
		"node --extra-tags=a=b":                                                   "driver 1: --extra-tags is not a flag (main.go)",
		"server":                                                                  "driver 1: server is no mode (main.go)",
		"--endpoints=/a":                                                          "driver 1: --endpoints is not a flag (main.go)",
		"--endpoint":                                                              "driver 1: --endpoint is no string (main.go)",
		"--v=high":                                                                "driver 1: --v=high is no int (main.go)",
		"--batching=maybe":                                                        "driver 1: --batching=maybe is no bool (main.go)",
		"--timeout=3":                                                             "driver 1: --timeout=3 is no duration (main.go)",
		"controller --extra-tags=a":                                               "driver 1: --extra-tags=a is no pairs (main.go)",
		"--logtostderr=true":                                                      "driver 1: --logtostderr is removed: options.go (main.go)",
		"-v=2":                                                                    "driver 1: -v=2 is no flag (main.go)",
	} {
		got := ""
		for _, problem := range list.check(strings.Fields(arguments)) {
			got += problem.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
	}
	unknown := list.checkEnvironment([]corev1.EnvVar{{Name: "REGION"}})
	if len(unknown) != 1 || unknown[0].Error() != "driver 1: nothing reads the variable REGION (main.go)" {
		t.Errorf("problems %v", unknown)
	}
}
