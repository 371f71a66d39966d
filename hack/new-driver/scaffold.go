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

//go:embed templates
var templates embed.FS

// The files that know all drivers.
const (
	portsFile    = "internal/driver/hostports.go"
	operatorFile = "cmd/csi-driver-operator/main.go"
	rulesFile    = "test/rules/drivers_test.go"
)

// firstHealthPort is where hostports.go begins with ports for health.
const firstHealthPort = 10300

// folder is that of a driver.
func folder(name string) string { return path.Join("internal/driver", name) }

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
	if _, err := fs.Stat(tree, folder(wanted.Package)); !errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%s exists: nothing is overwritten: take another name, or remove the folder and what the lists of drivers have of it",
			folder(wanted.Package))
	}
	if err := checkTaken(tree, wanted); err != nil {
		return s, err
	}
	if err := s.register(tree); err != nil {
		return s, err
	}
	return s, s.render()
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

// register adds the driver to the lists, and chooses its ports: those that no driver of any platform has.
func (s *scaffold) register(tree fs.FS) error {
	for file, list := range map[string]struct{ function, line, imported string }{
		portsFile:    {function: "HostPorts"},
		operatorFile: {"drivers", s.names.Package + ".Driver,", s.names.Package},
		rulesFile:    {"drivers", fmt.Sprintf("%q: %s.Driver,", s.names.Package, s.names.Package), s.names.Package},
	} {
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return fmt.Errorf("%w: run this in the folder of the repository", err)
		}
		parsed, err := read(file, text, list.function)
		if err != nil {
			return err
		}
		if list.imported != "" && parsed.uses(list.imported) {
			return fmt.Errorf("name %q: %s uses the word already: take another", list.imported, file)
		}
		if file == portsFile {
			list.line = s.ports(parsed.numbers())
		}
		s.before[file] = text
		if s.edited[file], err = parsed.add(list.line, list.imported); err != nil {
			return err
		}
	}
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

// render makes the driver's own files of the templates.
func (s *scaffold) render() error {
	parsed := template.New("").Option("missingkey=error")
	err := fs.WalkDir(templates, "templates", func(file string, entry fs.DirEntry, err error) error {
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
		name, result := strings.TrimPrefix(file, "templates/"), filled.Bytes()
		if code, isGo := strings.CutSuffix(name, ".tmpl"); isGo {
			name = strings.Replace(code, "driver", s.names.Package, 1)
			if result, err = format.Source(result); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		s.made[path.Join(folder(s.names.Package), name)] = result
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
			err = errors.Join(err, writeAll(tree, s.before), tree.RemoveAll(own))
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
	return writeGolden(ctx, filepath.Join(repository, filepath.FromSlash(own)))
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
	command := exec.CommandContext(ctx, "go", "test", "-count=1", ".")
	command.Dir, command.Env = own, append(os.Environ(), "UPDATE=1")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: nothing has been changed:\n%s", command, err, output)
	}
	return nil
}
