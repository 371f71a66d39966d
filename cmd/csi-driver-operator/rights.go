package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/rbac"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
)

// The names of the program's commands. Without a command, the program runs the operator.
const (
	rights = "rights"
	images = "images"
)

// printImages prints the environment variables that name the images of a driver's pods.
func printImages(out io.Writer, d driver.Driver) error {
	for _, variable := range slices.Sorted(slices.Values(d.Images())) {
		if _, err := fmt.Fprintln(out, variable); err != nil {
			return err //nolint:wrapcheck // The output failed, so no reader would see more.
		}
	}
	return nil
}

// printRoles prints the roles of a driver's operator as YAML. The roles have the operator's name.
func printRoles(out io.Writer, d driver.Driver, namespace string) error {
	scheme, err := kube.Scheme()
	if err != nil {
		return err
	}
	everywhere, inside, err := rbac.Rules(d, scheme, namespace)
	if err != nil {
		return err
	}
	version := rbacv1.SchemeGroupVersion.String()
	text := &bytes.Buffer{}
	roles := []any{rbacv1.ClusterRole{
		TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: d.Operator}, Rules: everywhere,
	}}
	for _, in := range slices.Compact([]string{namespace, d.OperandNamespace(namespace)}) {
		roles = append(roles, rbacv1.Role{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Name: d.Operator, Namespace: in}, Rules: inside,
		})
	}
	for _, role := range roles {
		part, err := yaml.Marshal(role)
		if err != nil {
			return fmt.Errorf("encode a role of %s: %w", d.Operator, err)
		}
		fmt.Fprintf(text, "---\n%s", part)
	}
	_, err = text.WriteTo(out)
	return err //nolint:wrapcheck // The output failed, so no reader would see more.
}
