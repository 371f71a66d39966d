// Command payload writes the manifests of the release into a folder. It removes outdated manifests.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/release/payload"
)

func main() {
	repository := flag.String("repository", ".", "`folder` of the repository")
	flag.Parse()
	if err := run(*repository); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// part returns the drivers that are part of a cluster.
func part() []driver.Driver {
	return slices.DeleteFunc(all.Drivers(), func(d driver.Driver) bool { return d.Payload == nil })
}

func run(repository string) error {
	release := payload.Release{Entries: catalogue.All(), Drivers: part()}
	var err error
	if release.Scheme, err = kube.Scheme(); err != nil {
		return err
	}
	if err := apiextensionsv1.AddToScheme(release.Scheme); err != nil {
		return fmt.Errorf("register CustomResourceDefinitions: %w", err)
	}
	tree, err := os.OpenRoot(repository)
	if err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	defer tree.Close() //nolint:errcheck // Each file has been closed by itself.
	if release.Images, err = payload.LoadImages(tree.FS()); err != nil {
		return err
	}
	files, err := release.Files()
	if err != nil {
		return err
	}
	if err := release.Check(files); err != nil {
		return err
	}
	return write(tree, files)
}

// unfinished is the folder of the manifests while they are written.
const unfinished = payload.Folder + ".new"

// write replaces the folder by one with exactly these files. If it can't write one of them, the folder stays.
func write(tree *os.Root, files map[string][]byte) error {
	if err := tree.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("remove what an earlier run has left: %w", err)
	}
	if err := writeNew(tree, files); err != nil {
		return errors.Join(err, tree.RemoveAll(unfinished))
	}
	if err := tree.RemoveAll(payload.Folder); err != nil {
		return fmt.Errorf("remove the earlier manifests: %w", err)
	}
	if err := tree.Rename(unfinished, payload.Folder); err != nil {
		return fmt.Errorf("replace the manifests: %w", err)
	}
	return nil
}

func writeNew(tree *os.Root, files map[string][]byte) error {
	if err := tree.Mkdir(unfinished, 0o750); err != nil {
		return fmt.Errorf("folder of the manifests: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := tree.WriteFile(path.Join(unfinished, name), files[name], 0o600); err != nil {
			return fmt.Errorf("write a manifest: %w", err)
		}
	}
	return nil
}
