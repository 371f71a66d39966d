// Command schema writes a JSON schema for the output of each command of oc storage. "make schema" runs it in the root of the repository.
//
// The schema comes from the Go type that the command prints, and its descriptions are the comments in the code.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/plugin/collect"
	"github.com/csi-operators/csi-operators/internal/plugin/doctor"
	"github.com/csi-operators/csi-operators/internal/plugin/drivers"
	"github.com/csi-operators/csi-operators/internal/plugin/efs/create"
	"github.com/csi-operators/csi-operators/internal/plugin/iam"
	"github.com/csi-operators/csi-operators/internal/plugin/install"
	"github.com/csi-operators/csi-operators/internal/plugin/leftovers"
	"github.com/csi-operators/csi-operators/internal/plugin/migrate"
	"github.com/csi-operators/csi-operators/internal/plugin/rollout"
	"github.com/csi-operators/csi-operators/internal/plugin/share"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
	"github.com/csi-operators/csi-operators/internal/plugin/volumetest"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

const (
	module = "github.com/csi-operators/csi-operators"
	folder = "docs/guide/schema"
)

// documents is the output of "oc storage install efs --iam-documents".
type documents struct {
	ControllerPolicy iam.Policy `json:"controller-policy.json"`
	ControllerTrust  iam.Trust  `json:"controller-trust-policy.json"`
	NodePolicy       iam.Policy `json:"node-policy.json"`
	NodeTrust        iam.Trust  `json:"node-trust-policy.json"`
}

// printed maps each command to the values that it can print. The flags of a command choose one of the values. The keys are the names of the schema
// files: the name of the command, with "-" for blanks.
func printed() map[string][]any {
	return map[string][]any{
		"status": {drivers.Report{}}, "doctor": {doctor.Report{}}, "rollout-status": {rollout.State{}},
		"install-efs": {install.Plan{}, documents{}}, "uninstall-efs": {install.Remains{}},
		"migrate-plan": {migration.Plan{}}, "migrate-status": {migrate.Status{}},
		"share-create": {share.Share{}}, "share-list": {[]share.Share{}}, "share-explain": {[]share.Explanation{}},
		"collect": {collect.Result{}}, "leftovers": {leftovers.Plan{}},
		"efs-cleanup": {efscleanup.Report{}}, "efs-create": {create.Share{}, efscleanup.Report{}},
		"iam-policy": {iam.Policy{}}, "iam-trust-policy": {iam.Trust{}}, "test": {[]volumetest.Result{}},
	}
}

// states returns the possible values of each string type that has a fixed list of values.
func states() map[reflect.Type][]any {
	return map[reflect.Type][]any{
		reflect.TypeFor[survey.State](): {
			survey.Available, survey.Progressing, survey.Degraded, survey.Unavailable, survey.Removing, survey.Removed, survey.Unmanaged, survey.NoReport,
			survey.NotRequested, survey.ThirdParty, drivers.Unknown,
		},
		reflect.TypeFor[doctor.Severity](): {doctor.Error, doctor.Warning, doctor.Unknown, doctor.Info},
	}
}

func main() {
	if err := run(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

func run() error {
	files, err := schemas()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("create the folder: %w", err)
	}
	for name, text := range files {
		//nolint:gosec // Others may read it.
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return fmt.Errorf("write a schema: %w", err)
		}
	}
	return nil
}

// schemas returns the content of each file. It reads comments below the current folder.
func schemas() (map[string][]byte, error) {
	reflector := &jsonschema.Reflector{Anonymous: true, Mapper: special}
	for _, path := range []string{"internal/plugin", "internal/controller/clustercsidriver/migration", "pkg/efscleanup"} {
		if err := reflector.AddGoComments(module, path, jsonschema.WithFullComment()); err != nil {
			return nil, fmt.Errorf("read the comments in %s: %w", path, err)
		}
	}
	made := map[string][]byte{}
	for name, values := range printed() {
		schema := &jsonschema.Schema{Version: jsonschema.Version, Title: "oc storage " + strings.Replace(name, "-", " ", 1) + " -o json"}
		schema.Definitions = jsonschema.Definitions{}
		for _, value := range values {
			one := reflector.Reflect(value)
			maps.Copy(schema.Definitions, one.Definitions)
			one.Version, one.Definitions = "", nil
			schema.AnyOf = append(schema.AnyOf, one)
		}
		text, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("encode the schema of %s: %w", name, err)
		}
		made[name+".json"] = append(text, '\n')
	}
	return made, nil
}

// special returns the schema of a type that a schema can't be derived from. For all other types, it returns nil.
func special(of reflect.Type) *jsonschema.Schema {
	if of == reflect.TypeFor[unstructured.Unstructured]() {
		return &jsonschema.Schema{Type: "object", Description: "An object of Kubernetes, with apiVersion, kind and metadata."}
	}
	if texts := states()[of]; texts != nil {
		return &jsonschema.Schema{Type: "string", Enum: texts}
	}
	return nil
}
