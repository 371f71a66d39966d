package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed templates package
var templates embed.FS

// The files that know all drivers.
const (
	portsFile    = "internal/driver/hostports.go"
	operatorFile = "cmd/csi-driver-operator/main.go"
	rulesFile    = "test/rules/drivers_test.go"
)

// The files that know those of a release of OpenShift.
const (
	catalogueFile = "internal/catalogue/entries.go"
	payloadFile   = "hack/payload/main.go"
	imagesFile    = "images/payload.yaml"
)

// namespace is where operators of drivers run, unless an administrator chooses another one.
const namespace = "openshift-cluster-csi-drivers"

// firstHealthPort is where hostports.go begins with ports for health.
const firstHealthPort = 10300

// folder is that of a driver.
func folder(name string) string { return path.Join("internal/driver", name) }

// packageFolder is where OLM's package of a driver is.
func packageFolder(name string) string { return path.Join("packages", name) }

// scaffold is a driver that is not written yet, by the paths of its files in the repository.
type scaffold struct {
	names names
	// made are new, edited are there already; before is what they were.
	made, edited, before map[string][]byte
}

// prepare makes all files, and writes none.
func prepare(repository string, wanted names) (scaffold, error) {
	tree := os.DirFS(repository)
	s := scaffold{names: wanted, made: map[string][]byte{}, edited: map[string][]byte{}, before: map[string][]byte{}}
	for _, folder := range []string{folder(wanted.Package), packageFolder(wanted.Package)} {
		if _, err := fs.Stat(tree, folder); !errors.Is(err, fs.ErrNotExist) {
			return s, fmt.Errorf("%s exists: nothing is overwritten: take another name, or remove the folder and what the lists of drivers have of it",
				folder)
		}
	}
	if err := checkTaken(tree, wanted); err != nil {
		return s, err
	}
	if err := s.register(tree); err != nil {
		return s, err
	}
	if wanted.OLM() {
		if err := s.render("package", packageFolder(wanted.Package)); err != nil {
			return s, err
		}
	}
	return s, s.render("templates", folder(wanted.Package))
}

// checkTaken refuses names that another driver has: the objects of both would be the same ones.
func checkTaken(tree fs.FS, wanted names) error {
	files, err := fs.Glob(tree, "internal/driver/*/*.go")
	if err != nil {
		return fmt.Errorf("look for drivers: %w", err)
	}
	taken := map[string]string{}
	for _, file := range files {
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return fmt.Errorf("look for drivers: %w", err)
		}
		if err := fields(file, text, taken); err != nil {
			return err
		}
	}
	for _, name := range []struct{ flag, field, value string }{
		{"csi-name", "Name", wanted.CSIName}, {"prefix", "Prefix", wanted.Prefix}, {"short-prefix", "ShortPrefix", wanted.ShortPrefix},
		{"condition-prefix", "ConditionPrefix", wanted.ConditionPrefix},
	} {
		if other := taken[name.field+" "+name.value]; other != "" {
			return fmt.Errorf("--%s %s: the driver in %s has it: take another", name.flag, name.value, folder(other))
		}
	}
	return nil
}

// list is one that the driver is added to, in a function of a Go file.
type list struct{ file, function, line, imported string }

// register adds the driver to the lists, and chooses its ports: those that no driver of any platform has.
func (s *scaffold) register(tree fs.FS) error {
	name := s.names.Package
	lists := []list{
		{file: portsFile, function: "HostPorts"},
		{operatorFile, "drivers", name + ".Driver,", name},
		{rulesFile, "drivers", fmt.Sprintf("%q: %s.Driver,", name, name), name},
	}
	if !s.names.OLM() {
		lists = append(lists, list{payloadFile, "drivers", name + ".Driver,", name}, list{catalogueFile, "All", s.names.entry(), ""})
	}
	for _, list := range lists {
		text, err := fs.ReadFile(tree, list.file)
		if err != nil {
			return fmt.Errorf("%w: run this in the folder of the repository", err)
		}
		parsed, err := read(list.file, text, list.function)
		if err != nil {
			return err
		}
		if list.imported != "" && parsed.uses(list.imported) {
			return fmt.Errorf("name %q: %s uses the word already: take another", list.imported, list.file)
		}
		if list.file == portsFile {
			list.line = s.ports(parsed.numbers())
		}
		s.before[list.file] = text
		if s.edited[list.file], err = parsed.add(list.line, list.imported); err != nil {
			return err
		}
	}
	if s.names.OLM() {
		return nil
	}
	images, err := fs.ReadFile(tree, imagesFile)
	if err != nil {
		return fmt.Errorf("%w: run this in the folder of the repository", err)
	}
	s.before[imagesFile], s.edited[imagesFile] = images, append(bytes.Clone(images), s.names.image()...)
	return nil
}

// ports chooses the ports, and returns their lines in the registry.
func (s *scaffold) ports(taken map[int]bool) string {
	next := func() int {
		port := firstHealthPort
		for taken[port] {
			port++
		}
		taken[port] = true
		return port
	}
	s.names.NodePort, s.names.RegistrarPort = next(), next()
	line := func(port int, use string) string {
		return fmt.Sprintf("{configv1.%sPlatformType, %d, %q, Node, %q},", s.names.Platform, port, s.names.CSIName, use)
	}
	return "\n" + line(s.names.NodePort, "health of the driver") + "\n" + line(s.names.RegistrarPort, "health of the node-driver-registrar")
}

// render makes files in a folder of the templates in another.
func (s *scaffold) render(from, to string) error {
	parsed := template.New("").Option("missingkey=error")
	err := fs.WalkDir(templates, from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(templates, file)
		if err != nil {
			return err //nolint:wrapcheck // It names the file.
		}
		filled := &bytes.Buffer{}
		one, err := parsed.New(file).Parse(string(text))
		if err != nil {
			return err //nolint:wrapcheck // It names the file.
		}
		if err := one.Execute(filled, s.names); err != nil {
			return err //nolint:wrapcheck // It names the file.
		}
		name, result := strings.TrimPrefix(file, from+"/"), filled.Bytes()
		if code, isGo := strings.CutSuffix(name, ".tmpl"); isGo {
			name = strings.Replace(code, "driver", s.names.Package, 1)
			if result, err = format.Source(result); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		s.made[path.Join(to, name)] = result
		return nil
	})
	if err != nil {
		return fmt.Errorf("fill in the templates: %w", err)
	}
	return nil
}

// write writes all files or, if one of them fails, none. It can't leave the repository.
func (s *scaffold) write(ctx context.Context, repository string) (err error) {
	tree, err := os.OpenRoot(repository)
	if err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	own := folder(s.names.Package)
	// It fails if the folder has come meanwhile.
	if err := tree.Mkdir(own, 0o750); err != nil {
		return errors.Join(fmt.Errorf("folder of the driver: %w", err), tree.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, writeAll(tree, s.before), tree.RemoveAll(own), tree.RemoveAll(packageFolder(s.names.Package)),
				tree.RemoveAll(path.Join(path.Dir(catalogueFile), "testdata", s.names.Operator())))
		}
		err = errors.Join(err, tree.Close())
	}()
	if err := writeAll(tree, s.made); err != nil {
		return err
	}
	if err := writeAll(tree, s.edited); err != nil {
		return err
	}
	if err := tree.Mkdir(path.Join(own, "testdata"), 0o750); err != nil {
		return fmt.Errorf("folder of the golden files: %w", err)
	}
	if err := writeGolden(ctx, filepath.Join(repository, filepath.FromSlash(own))); err != nil {
		return err
	}
	if s.names.OLM() {
		return s.writePackage(ctx, tree, repository)
	}
	return writeManifests(ctx, repository)
}

func writeAll(tree *os.Root, files map[string][]byte) error {
	for name, text := range files {
		if err := tree.MkdirAll(path.Dir(name), 0o750); err != nil {
			return fmt.Errorf("folder of a file: %w", err)
		}
		if err := tree.WriteFile(name, text, 0o600); err != nil {
			return fmt.Errorf("write a file: %w", err)
		}
	}
	return nil
}

// writeGolden lets the driver's test write what it is compared with from now on.
func writeGolden(ctx context.Context, own string) error {
	_, err := goCommand(ctx, own, "test", "-count=1", ".")
	return err
}

// writeManifests lets the programs write what the release has of the driver. The last of them writes all or nothing.
func writeManifests(ctx context.Context, repository string) error {
	if err := writeGolden(ctx, filepath.Join(repository, filepath.FromSlash(path.Dir(catalogueFile)))); err != nil {
		return err
	}
	_, err := goCommand(ctx, repository, "run", "./"+path.Dir(payloadFile))
	return err
}

// writePackage lets the programs write what is made of the driver: the roles of its operator, and then the bundle.
func (s *scaffold) writePackage(ctx context.Context, tree *os.Root, repository string) error {
	roles, err := goCommand(ctx, repository, "run", "./cmd/csi-driver-operator", "rights", "--driver", s.names.CSIName, "--namespace", namespace)
	if err != nil {
		return err
	}
	own := packageFolder(s.names.Package)
	if err := writeAll(tree, map[string][]byte{path.Join(own, "config/rbac/role.yaml"): roles}); err != nil {
		return err
	}
	_, err = goCommand(ctx, repository, "run", "./hack/bundle", "-root", own)
	return err
}

// goCommand runs go in a folder, and returns what it prints.
func goCommand(ctx context.Context, folder string, args ...string) ([]byte, error) {
	problems := &bytes.Buffer{}
	//nolint:gosec // The arguments are ours, and names that have been checked.
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Env, command.Stderr = folder, append(os.Environ(), "UPDATE=1"), problems
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: nothing has been changed:\n%s%s", command, err, output, problems)
	}
	return output, nil
}
