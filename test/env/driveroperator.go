package env

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// DriverOperator is the program that operates drivers of the payload.
const DriverOperator = "csi-driver-operator"

// Rules returns the rights of a driver's operator. It is rbac.Rules of internal/controller/clustercsidriver, which needs a manager: with it, the test
// programs that start no such operator would be twice as large.
type Rules func(d driver.Driver, scheme *runtime.Scheme, namespace string) (everywhere, inside []rbacv1.PolicyRule, err error)

// PutDriverAccount makes the ServiceAccount that is called as the driver's operator, with the RBAC that comes with a release.
func (c *Cluster) PutDriverAccount(ctx context.Context, d driver.Driver, rules Rules) error {
	everywhere, inside, err := rules(d, c.Scheme, OperatorNamespace)
	if err != nil {
		return fmt.Errorf("compute the rights of %s: %w", d.Operator, err)
	}
	meta := metav1.ObjectMeta{Namespace: OperatorNamespace, Name: d.Operator}
	var further []client.Object
	if d.Namespace != "" {
		// As a release has it, the same in both namespaces.
		there := metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Operator}
		further = append(further, &rbacv1.Role{ObjectMeta: there, Rules: inside},
			&rbacv1.RoleBinding{ObjectMeta: there, RoleRef: roleRef("Role", d.Operator), Subjects: subjectsOf(d)})
	}
	return c.putAccount(ctx, d, append(further,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: d.Operator}, Rules: everywhere},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: d.Operator}, RoleRef: roleRef("ClusterRole", d.Operator), Subjects: subjectsOf(d)},
		&rbacv1.Role{ObjectMeta: meta, Rules: inside},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: roleRef("Role", d.Operator), Subjects: subjectsOf(d)},
	)...)
}

// PutDriverAdministrator makes the same ServiceAccount an administrator: what it may do in old namespaces depends on the cluster.
func (c *Cluster) PutDriverAdministrator(ctx context.Context, d driver.Driver) error {
	return c.putAccount(ctx, d, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: d.Operator}, RoleRef: roleRef("ClusterRole", "cluster-admin"), Subjects: subjectsOf(d),
	})
}

func (c *Cluster) putAccount(ctx context.Context, d driver.Driver, further ...client.Object) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: d.Operator}}
	for _, object := range append([]client.Object{account}, further...) {
		if err := c.Client.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("account of %s: %w", d.Operator, err)
		}
	}
	return nil
}

func roleRef(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func subjectsOf(d driver.Driver) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: OperatorNamespace, Name: d.Operator}}
}

// StartDriverOperator starts csi-driver-operator for a driver, under its account, which must be there.
func (c *Cluster) StartDriverOperator(ctx context.Context, d driver.Driver, args ...string) (*Operator, error) {
	binary, err := Binary(Program(DriverOperator))
	if err != nil {
		return nil, err
	}
	environment := defaults(nil)
	for _, variable := range d.Images() {
		environment = append(environment, variable+"=registry.example/"+variable+":1.0.0")
	}
	return c.OutsidePod(ctx, binary, OperatorNamespace, d.Operator, append([]string{"--driver", d.Name, "--leader-elect=false"}, args...), environment)
}
