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

const (
	// driversFile is the file that lists the drivers. Outside of a driver's folder, only this file names the driver.
	driversFile = "internal/driver/all/all.go"
	// driverFiles are the files of all drivers. catalogueFiles are the catalogue's files of drivers whose operators come from OpenShift.
	driverFiles, catalogueFiles = "internal/driver/*/*.go", "internal/driver/catalogue/*.go"
)

// Folders of generated files for the drivers that an OpenShift release includes: the release's manifests, and the catalogue's golden files.
const (
	manifestsFolder = "manifests"
	catalogueGolden = "internal/driver/catalogue/testdata"
)

// namespace is the default namespace of driver operators.
const namespace = "openshift-cluster-csi-drivers"

func folder(name string) string { return path.Join("internal/driver", name) }

// packageFolder returns the folder of a driver's OLM package.
func packageFolder(name string) string { return path.Join("packages", name) }

// scaffold is a driver that new-driver has not written yet. It has the content of files, by their paths in the repository.
type scaffold struct {
	names names
	// made has the content of the new files. edited has the new content of existing files. Field "before" has the previous content of the edited files,
	// and of all files in the folders into which the generators of the release write (names.generated).
	made, edited, before map[string][]byte
}

// prepare generates the content of all files. It writes no file.
func prepare(repository string, wanted names) (scaffold, error) {
	tree := os.DirFS(repository)
	s := scaffold{names: wanted, made: map[string][]byte{}, edited: map[string][]byte{}, before: map[string][]byte{}}
	for _, folder := range []string{folder(wanted.Package), packageFolder(wanted.Package)} {
		if _, err := fs.Stat(tree, folder); !errors.Is(err, fs.ErrNotExist) {
			return s, fmt.Errorf("%s exists: nothing is overwritten. Choose another name, or remove the folder and its entries in the lists of drivers",
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
	if err := s.keep(tree); err != nil {
		return s, err
	}
	return s, s.render("templates", folder(wanted.Package))
}

// generated returns the folders into which the generators of the release write files for a driver of the payload.
func (n names) generated() []string {
	if n.OLM() {
		return nil
	}
	return []string{catalogueGolden, manifestsFolder}
}

// keep stores the content of the generated folders, so that restore can write this content back.
func (s *scaffold) keep(tree fs.FS) error {
	for _, folder := range s.names.generated() {
		err := fs.WalkDir(tree, folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			s.before[name], err = fs.ReadFile(tree, name)
			return err //nolint:wrapcheck // It names the file.
		})
		if err != nil {
			return fmt.Errorf("%w: run this in the folder of the repository", err)
		}
	}
	return nil
}

// restore undoes all changes of the repository. It removes the driver's files, and gives all other files their previous content.
func (s *scaffold) restore(tree *os.Root) error {
	problems := []error{tree.RemoveAll(folder(s.names.Package)), tree.RemoveAll(packageFolder(s.names.Package))}
	for _, folder := range s.names.generated() {
		err := fs.WalkDir(tree.FS(), folder, func(name string, entry fs.DirEntry, err error) error {
			if _, was := s.before[name]; err == nil && !entry.IsDir() && !was {
				err = tree.Remove(name)
			}
			if err != nil {
				return fmt.Errorf("remove %s: %w", name, err)
			}
			return nil
		})
		problems = append(problems, err)
	}
	// Remove fails if the folder has content, so this call removes only a folder that restore has emptied.
	_ = tree.Remove(path.Join(catalogueGolden, s.names.Operator()))
	return errors.Join(append(problems, s.putBack(tree))...)
}

// putBack reverts changed files.
func (s *scaffold) putBack(tree *os.Root) error {
	changed := map[string][]byte{}
	for name, text := range s.before {
		if now, err := tree.ReadFile(name); err != nil || !bytes.Equal(now, text) {
			changed[name] = text
		}
	}
	return writeAll(tree, changed)
}

// checkTaken refuses names that another driver has, because both drivers would have objects with these names. It also compares the names with the
// catalogue, which has the drivers whose operators are OpenShift's.
func checkTaken(tree fs.FS, wanted names) error {
	taken, err := literals(tree, driverFiles)
	if err != nil {
		return err
	}
	catalogue, err := literals(tree, catalogueFiles)
	if err != nil {
		return err
	}
	for _, name := range []struct{ flag, field, value string }{
		{"csi-name", "Name", wanted.CSIName}, {"prefix", "Prefix", wanted.Prefix}, {"short-prefix", "ShortPrefix", wanted.ShortPrefix},
		{"condition-prefix", "ConditionPrefix", wanted.ConditionPrefix},
	} {
		// Skip the catalogue here, because the code below compares the names with the catalogue. The pattern of the drivers' files also matches the
		// catalogue's files.
		if other := taken[name.field+" "+name.value]; other != "" && folder(other) != path.Dir(catalogueFiles) {
			return fmt.Errorf("--%s %s: the driver in %s already uses this value: choose another", name.flag, name.value, folder(other))
		}
	}
	for _, name := range []struct{ flag, field, value, suffix string }{
		{"csi-name", "Name", wanted.CSIName, ""}, {"prefix", "Operator", wanted.Prefix, "-operator"},
		{"condition-prefix", "Condition", wanted.ConditionPrefix, ""},
	} {
		if catalogue[name.field+" "+name.value+name.suffix] != "" {
			return fmt.Errorf("--%s %s: the catalogue in %s has it, for an operator of OpenShift's: take another, or see "+
				"\"A driver of OpenShift's becomes ours\" in docs/add-a-driver.md", name.flag, name.value, path.Dir(catalogueFiles))
		}
	}
	return nil
}

// literals returns the string values of fields in the Go files that match a pattern. A key of the result is the name of a field and its value, such
// as "Prefix sample-csi-driver". The value of the result is the name of the file's folder.
func literals(tree fs.FS, pattern string) (map[string]string, error) {
	found := map[string]string{}
	return found, eachSource(tree, pattern, func(file string, text []byte) error { return fields(file, text, found) })
}

// eachSource visits the Go files that match a pattern, except for tests.
func eachSource(tree fs.FS, pattern string, visit func(file string, text []byte) error) error {
	files, err := fs.Glob(tree, pattern)
	if err != nil {
		return fmt.Errorf("look for drivers: %w", err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return fmt.Errorf("look for drivers: %w", err)
		}
		if err := visit(file, text); err != nil {
			return err
		}
	}
	return nil
}

// register adds the driver to the list of drivers. It also chooses the driver's ports.
func (s *scaffold) register(tree fs.FS) error {
	name := s.names.Package
	text, err := fs.ReadFile(tree, driversFile)
	if err != nil {
		return fmt.Errorf("%w: run this in the folder of the repository", err)
	}
	parsed, err := read(driversFile, text, "Drivers")
	if err != nil {
		return err
	}
	if parsed.uses(name) {
		return fmt.Errorf("name %q: %s already uses this word: choose another name", name, driversFile)
	}
	s.before[driversFile] = text
	if s.edited[driversFile], err = parsed.add(name+".Driver(),", name); err != nil {
		return err
	}
	return s.choosePorts(tree)
}

// render generates the files of one folder from the templates in another folder.
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
		if len(bytes.TrimSpace(result)) == 0 {
			// The result is empty if the template is for something that the driver does not have.
			return nil
		}
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

// write writes all files. If anything fails, it restores the repository. It can't write outside of the repository.
func (s *scaffold) write(ctx context.Context, repository string) (err error) {
	tree, err := os.OpenRoot(repository)
	if err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	own := folder(s.names.Package)
	// This fails if another process has created the folder meanwhile.
	if err := tree.Mkdir(own, 0o750); err != nil {
		return errors.Join(fmt.Errorf("folder of the driver: %w", err), tree.Close())
	}
	defer func() {
		if err != nil {
			if problem := s.restore(tree); problem != nil {
				err = errors.Join(err, fmt.Errorf("some files could not be restored, see git status: %w", problem))
			} else {
				err = fmt.Errorf("%w\nAll files are as they were before", err)
			}
		}
		err = errors.Join(err, tree.Close())
	}()
	if err := writeAll(tree, s.made); err != nil {
		return err
	}
	if err := writeAll(tree, s.edited); err != nil {
		return err
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

// writeGolden runs the driver's test, which writes the golden files of the driver.
func writeGolden(ctx context.Context, own string) error {
	_, err := goCommand(ctx, own, "test", "-count=1", ".")
	return err
}

// writeManifests runs the programs that write the driver's parts of the release.
func writeManifests(ctx context.Context, repository string) error {
	if err := writeGolden(ctx, filepath.Join(repository, filepath.FromSlash(path.Dir(catalogueFiles)))); err != nil {
		return err
	}
	_, err := goCommand(ctx, repository, "run", "./hack/payload")
	return err
}

// writePackage runs the programs that write the roles of the driver's operator, and then the bundle.
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

// goCommand runs a go command in a folder, and returns what the command prints.
func goCommand(ctx context.Context, folder string, args ...string) ([]byte, error) {
	problems := &bytes.Buffer{}
	//nolint:gosec // The arguments are ours, and names that have been checked.
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Env, command.Stderr = folder, append(os.Environ(), "UPDATE=1"), problems
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("the command that generates files for the new driver failed: %s, in folder %s: %w:\n%s%s",
			command, folder, err, output, problems)
	}
	return output, nil
}
