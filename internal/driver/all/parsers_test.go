package all

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/testing/gobuild"
)

// program is a driver that is served as a module. Its parser is taken out of the module and run by itself: with all that its package imports, it
// would take minutes to build.
type program struct {
	driver, module, version, sum string
	// file has the functions and constants of the parser, and call calls it with a text.
	file, call string
	functions  []string
	// parameters has the function that reads parameters of StorageClasses: as the cases of a switch, or by an index into a variable.
	parameters, reads, index string
}

func programs() []program {
	return []program{
		{
			// Its parser is that of all drivers from 1.2.0 to 2.1.11.
			driver: "efs.csi.aws.com", module: "github.com/kubernetes-sigs/aws-efs-csi-driver", version: "v1.7.7",
			sum:  "h1:y9ogq9lbQKQoVAO+NyW9EPvf+nKzRrJICLoKbd6cBsI=",
			file: "pkg/driver/driver.go", functions: []string{"parseTagsFromStr"}, call: "parseTagsFromStr(strings.TrimSpace(text)), error(nil)",
			parameters: "pkg/driver/controller.go", reads: "CreateVolume", index: "volumeParams",
		},
		{
			driver: "disk.csi.azure.com", module: "sigs.k8s.io/azuredisk-csi-driver", version: "v1.33.2",
			sum:  "h1:ckhe/fwjIwldMRYgT4YD2//I2rs9QfOM9v7W1CgXo2g=",
			file: "pkg/util/util.go", functions: []string{"ConvertTagsToMap", "TagKeyValueDelimiter"}, call: `ConvertTagsToMap(text, "|")`,
			parameters: "pkg/azureutils/azure_disk_utils.go", reads: "ParseDiskParameters",
		},
	}
}

// main calls a parser with each line, a JSON string. Its own klog prints nothing.
const mainOf = `package main

import ("bufio"; "encoding/json"; "fmt"; "os"; "strings")

type logger struct{}

func (logger) Infof(string, ...any)  {}
func (logger) Errorf(string, ...any) {}

var klog logger
var _, _ = fmt.Sprint, strings.TrimSpace

func parse(text string) (map[string]string, error) { return %s }

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var text string
		_ = json.Unmarshal(lines.Bytes(), &text)
		read, err := parse(text)
		if err != nil { read = nil }
		_ = json.NewEncoder(os.Stdout).Encode(read)
	}
}
`

func TestTagsAreReadByTheRealParserAsTheyAreMeant(t *testing.T) {
	for _, one := range programs() {
		t.Run(one.version, func(t *testing.T) {
			d := one.find(t)
			table := d.Accepts.At(one.version)
			var texts []string
			var wants []map[string]string
			// The flag for the driver.
			m := maker{rand.New(rand.NewPCG(36, 36))}
			for range 200 {
				cfg := driver.Config{Platform: &configv1.PlatformStatus{}, Images: map[string]string{"DRIVER_IMAGE": "a/b:" + one.version}}
				if d.Platform == configv1.AWSPlatformType {
					m.aws(&cfg)
				} else {
					m.azure(&cfg)
				}
				pairs := d.ResourceTags(cfg)
				if len(pairs) == 0 {
					continue
				}
				want := map[string]string{}
				for _, pair := range pairs {
					want[pair.Key] = pair.Value
				}
				texts, wants = append(texts, table.List(accept.Tag).Text(pairs)), append(wants, want)
			}
			given := len(texts)
			// Our parser and the driver's agree on any text.
			for range 2000 {
				text := m.text("aB:=| \\.\n", 12)
				want, err := table.List(accept.Tag).Read(text)
				if err != nil {
					want = nil
				}
				texts, wants = append(texts, text), append(wants, want)
			}
			for i, got := range one.parse(t, texts) {
				if !maps.Equal(got, wants[i]) {
					t.Errorf("%q, rendered: %v, is read as %q, want %q", texts[i], i < given, got, wants[i])
				}
			}
			if given < 100 {
				t.Errorf("only %d texts were given to the driver", given)
			}
		})
	}
}

func TestTheParametersOfAClassAreThoseThatTheRealDriverReads(t *testing.T) {
	for _, one := range programs() {
		fold := func(names []string) []string {
			for i := range names {
				if one.index == "" {
					names[i] = strings.ToLower(names[i])
				}
			}
			slices.Sort(names)
			return slices.Compact(slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "csi.storage.k8s.io/") }))
		}
		got, want := fold(one.find(t).Accepts.At(one.version).Names(accept.Parameter)), fold(one.read(t))
		if !slices.Equal(got, want) {
			t.Errorf("%s %s knows the parameters %q, and reads %q", one.driver, one.version, got, want)
		}
	}
}

func (p program) find(t *testing.T) driver.Driver {
	t.Helper()
	for _, d := range Drivers() {
		if d.Name == p.driver {
			return d
		}
	}
	t.Fatalf("there is no driver %s", p.driver)
	return driver.Driver{}
}

// folder returns the directory of the module in the module cache.
func (p program) folder(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", p.module+"@"+p.version)
	command.Dir, command.Env = t.TempDir(), append(os.Environ(), "GOFLAGS=-mod=mod")
	output, err := command.Output()
	var answer struct{ Dir, Sum, Error string }
	if problem := json.Unmarshal(output, &answer); problem != nil || err != nil || answer.Sum != p.sum {
		t.Fatalf("download %s@%s: %v, checksum %s, %s; the Go module proxy must be reachable once", p.module, p.version, err, answer.Sum, answer.Error)
	}
	return answer.Dir
}

// parse runs the parser of the driver.
func (p program) parse(t *testing.T, texts []string) []map[string]string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, filepath.Join(p.folder(t), p.file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var source bytes.Buffer
	fmt.Fprintf(&source, mainOf, p.call)
	for _, declaration := range file.Decls {
		if slices.ContainsFunc(namesOf(declaration), func(name string) bool { return slices.Contains(p.functions, name) }) {
			if err := printer.Fprint(&source, files, declaration); err != nil {
				t.Fatal(err)
			}
			source.WriteString("\n")
		}
	}
	folder := t.TempDir()
	binary := filepath.Join(folder, "parser")
	for name, text := range map[string]string{"main.go": source.String(), "go.mod": "module parser\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	build.Dir, build.Env = folder, append(os.Environ(), "GOFLAGS="+gobuild.Flags(), "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the parser of %s: %v\n%s", p.module, err, output)
	}
	var input bytes.Buffer
	for _, text := range texts {
		if err := json.NewEncoder(&input).Encode(text); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(t.Context(), binary)
	run.Stdin = &input
	output, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]string
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		var read map[string]string
		if err := json.Unmarshal(lines.Bytes(), &read); err != nil {
			t.Fatal(err)
		}
		all = append(all, read)
	}
	if len(all) != len(texts) {
		t.Fatalf("%d of %d texts were parsed", len(all), len(texts))
	}
	return all
}

// namesOf returns the names that a declaration declares.
func namesOf(declaration ast.Decl) []string {
	switch typed := declaration.(type) {
	case *ast.FuncDecl:
		return []string{typed.Name.Name}
	case *ast.GenDecl:
		var names []string
		for _, spec := range typed.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok {
				for _, name := range value.Names {
					names = append(names, name.Name)
				}
			}
		}
		return names
	}
	return nil
}

// read are the names of parameters that the driver's function reads. A name that is a constant of another module is taken for that of the parameter.
func (p program) read(t *testing.T) []string {
	t.Helper()
	folder := p.folder(t)
	constants := constantsIn(t, folder)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, p.parameters), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	add := func(expression ast.Expr) {
		name := ""
		switch typed := expression.(type) {
		case *ast.SelectorExpr:
			name = typed.Sel.Name
		case *ast.Ident:
			name = typed.Name
		}
		if value, found := constants[name]; found {
			name = value
		}
		names = append(names, name)
	}
	for _, declaration := range file.Decls {
		if !slices.Contains(namesOf(declaration), p.reads) {
			continue
		}
		ast.Inspect(declaration, func(node ast.Node) bool {
			switch typed := node.(type) {
			case *ast.CaseClause:
				for _, expression := range typed.List {
					if p.index == "" {
						add(expression)
					}
				}
			case *ast.IndexExpr:
				if of, ok := typed.X.(*ast.Ident); ok && p.index != "" && of.Name == p.index {
					add(typed.Index)
				}
			}
			return true
		})
	}
	return names
}

// constantsIn returns the string constants in a module's packages, by name.
func constantsIn(t *testing.T, folder string) map[string]string {
	t.Helper()
	constants := map[string]string{}
	files, err := filepath.Glob(filepath.Join(folder, "pkg", "*", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in %s: %v", len(files), folder, err)
	}
	line := regexp.MustCompile(`(?m)^\s+(\w+)\s+= ("(?:[^"\\]|\\.)*")`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range line.FindAllStringSubmatch(string(text), -1) {
			if value, err := strconv.Unquote(match[2]); err == nil && !strings.HasSuffix(file, "_test.go") {
				constants[match[1]] = value
			}
		}
	}
	return constants
}
