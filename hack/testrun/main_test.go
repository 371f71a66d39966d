package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// makefile has lanes whose results each test writes. A second try passes if the file passes-PACKAGE exists.
const makefile = `
test/compile: ;
test/%:
	@if [ -n "$(PKG)" ]; then echo "$(PKG) $(RUN) $(JSON)" >> asked; test -e "passes-$(notdir $(PKG))"; else cat $* > bin/tests/$*.json; test ! -e fail-$*; fi
`

// scene is a folder with such a Makefile. Files named "fail-LANE" let a lane fail.
func scene(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files["Makefile"] = makefile
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const passing = `{"Action":"pass","Package":"example.com/good","Test":"TestA","Elapsed":2}
{"Action":"pass","Package":"example.com/good","Elapsed":3}
`

// failing is a test of a package that says something and fails.
func failing(pkg, says string) string {
	const test = "TestB"
	return `{"Action":"output","Package":"` + pkg + `","Test":"` + test + `/sub","Output":"` + says + `\n"}
{"Action":"fail","Package":"` + pkg + `","Test":"` + test + `/sub","Elapsed":1}
{"Action":"fail","Package":"` + pkg + `","Test":"` + test + `","Elapsed":1}
{"Action":"fail","Package":"` + pkg + `","Elapsed":2}
`
}

func TestARunPassesFailsAndTriesAgain(t *testing.T) {
	failed := failing("example.com/bad", "it was too late")
	many := failing("example.com/one", "x") + failing("example.com/two", "x") + failing("example.com/three", "x")
	for name, test := range map[string]struct {
		units string
		// healed are the packages that pass when they run alone.
		healed []string
		// asked is what runs again.
		asked string
		// says is what the error must have, empty for none.
		says  string
		flaky string
	}{
		"all pass":             {units: passing},
		"a flaky test":         {units: failed, healed: []string{"bad"}, asked: "example.com/bad ^TestB$ again\n", flaky: "FLAKY example.com/bad TestB\n"},
		"a test that fails":    {units: failed, asked: "example.com/bad ^TestB$ again\n", says: "1 failed:\n  example.com/bad TestB"},
		"a data race":          {units: failing("example.com/bad", "WARNING: DATA RACE"), healed: []string{"bad"}, says: "1 failed"},
		"a race in an own log": {units: failing("example.com/bad", "    race detected during execution of test"), healed: []string{"bad"}, says: "1 failed"},
		"a panic":              {units: failing("example.com/bad", "panic: nil map"), healed: []string{"bad"}, says: "1 failed"},
		"a panic that a reconciler caught": {
			units: failing("example.com/bad", `E1 \"Observed a panic\" panic=x`), healed: []string{"bad"}, says: "1 failed",
		},
		"a broken promise": {
			units: failing("example.com/bad", "a_test.go:3: BROKEN PROMISE: a stranger's volume"), healed: []string{"bad"}, says: "1 failed",
		},
		"a panic of a goroutine": {
			units: `{"Action":"output","Package":"example.com/bad","Test":"TestC","Output":"panic: nil map\n"}
{"Action":"fail","Package":"example.com/bad","Elapsed":2}
`, healed: []string{"bad"}, says: "1 failed:\n  example.com/bad",
		},
		"a package that ends before its tests": {
			units: `{"Action":"run","Package":"example.com/bad","Test":"TestC"}` + "\n" + failed, healed: []string{"bad"}, says: "1 failed",
		},
		"a package that says that it has failed": {
			units:  `{"Action":"output","Package":"example.com/bad","Output":"PACKAGE FAILED: a refused request\n"}` + "\n" + failed,
			healed: []string{"bad"}, says: "1 failed",
		},
		"a race outside of a test": {
			units:  `{"Action":"output","Package":"example.com/bad","Output":"testing: race detected outside of test execution\n"}` + "\n" + failed,
			healed: []string{"bad"}, says: "1 failed",
		},
		"results that can't be read": {units: passing + "{\n", says: "results of lane units"},
		"a package that does not compile": {
			units:  `{"Action":"fail","Package":"example.com/bad","Elapsed":0,"FailedBuild":"example.com/bad"}` + "\n",
			healed: []string{"bad"}, says: "1 failed:\n  example.com/bad",
		},
		"a package whose tests pass": {
			units:  passing + `{"Action":"fail","Package":"example.com/bad","Elapsed":1}` + "\n",
			healed: []string{"bad"}, asked: "example.com/bad  again\n", flaky: "FLAKY example.com/bad (the package)\n",
		},
		"three flaky tests": {
			units: many, healed: []string{"one", "two", "three"}, says: "at most 2 tests may do so",
			asked: "example.com/one ^TestB$ again\nexample.com/three ^TestB$ again\nexample.com/two ^TestB$ again\n",
			flaky: "FLAKY example.com/one TestB\nFLAKY example.com/three TestB\nFLAKY example.com/two TestB\n",
		},
		"a lane that fails without a test": {units: passing, says: "lane units has failed, although none of its tests has"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"units": test.units}
			if test.units != passing || test.says != "" {
				files["fail-units"] = ""
			}
			for _, pkg := range test.healed {
				files["passes-"+pkg] = ""
			}
			root := scene(t, files)
			var out bytes.Buffer
			err := run{root: root, out: &out}.all(t.Context(), []string{"units"})
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("it ends with %v, want %q", err, test.says)
			}
			if asked, _ := os.ReadFile(filepath.Join(root, "asked")); string(asked) != test.asked {
				t.Errorf("again ran %q, want %q", asked, test.asked)
			}
			if flaky, _ := os.ReadFile(filepath.Join(root, results, "flaky.txt")); string(flaky) != test.flaky {
				t.Errorf("flaky are %q, want %q", flaky, test.flaky)
			}
			if !strings.HasSuffix(out.String(), test.flaky) || test.flaky != "" && !strings.Contains(out.String(), "Once more, alone: ") {
				t.Errorf("it prints:\n%s", out.String())
			}
		})
	}
}

func TestAReportNamesWhatIsSlow(t *testing.T) {
	var out bytes.Buffer
	root := scene(t, map[string]string{"units": passing})
	if err := (run{root: root, out: &out}).all(t.Context(), []string{"units"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2.0 s  example.com/good TestA\n", "3.0 s      0.0 s  example.com/good\n", "\n1 passed, 0 failed\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestAProcessIsCountedAsAComponent(t *testing.T) {
	for call, want := range map[string]string{
		"/x/bin/devcluster kube-apiserver --a": "kube-apiserver",
		"/x/bin/devcluster etcd --a":           "etcd",
		"/x/bin/clients/kubectl get nodes":     "devcluster's commands and kubectl",
		"/x/bin/devcluster up --dir d":         "devcluster's commands and kubectl",
		"/tmp/b001/storage.test -test.v":       tests,
		"/go/pkg/tool/linux_amd64/link -o x":   "linking",
		"/go/pkg/tool/linux_amd64/compile -o":  "compiling",
		"bin/race/csi-driver-operator start":   "operators and stand-ins for them",
		"bin/venv/moto/bin/python -m moto":     "moto",
		"bin/real/csi-provisioner":             "other programs",
	} {
		if got := componentOf(strings.Fields(call)); got != want {
			t.Errorf("%s is %q, want %q", call, got, want)
		}
	}
}
