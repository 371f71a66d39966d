package env

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// RaceDriverOperator is the program that operates drivers of the payload, with the race detector.
const RaceDriverOperator = "race/csi-driver-operator"

// PutDriverAccount makes the ServiceAccount that is called as the driver's operator. It is an administrator: its roles come with the
// cluster-storage-operator.
func (c *Cluster) PutDriverAccount(ctx context.Context, d driver.Driver) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: d.Operator}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: d.Operator},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}
	for _, object := range []client.Object{account, binding} {
		if err := c.Client.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("account of %s: %w", d.Operator, err)
		}
	}
	return nil
}

// StartDriverOperator starts csi-driver-operator for a driver, under its account.
func (c *Cluster) StartDriverOperator(ctx context.Context, d driver.Driver, args ...string) (*Operator, error) {
	if err := c.PutDriverAccount(ctx, d); err != nil {
		return nil, err
	}
	binary, err := Binary(RaceDriverOperator)
	if err != nil {
		return nil, err
	}
	environment := defaults(nil)
	for _, variable := range d.Images() {
		environment = append(environment, variable+"=registry.example/"+variable+":1.0.0")
	}
	return c.OutsidePod(ctx, binary, OperatorNamespace, d.Operator, append([]string{"--driver", d.Name, "--leader-elect=false"}, args...), environment)
}
