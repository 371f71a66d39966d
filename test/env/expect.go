package env

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Patience is how long a condition may take on a slow machine. It is not what users wait for; that is measured by make
// bench.
const Patience = 2 * time.Minute

// Await polls until check returns nil. The error of the last try says what was missing.
func Await(ctx context.Context, what string, check func() error) error {
	return AwaitFor(ctx, Patience, what, check)
}

// AwaitFor is Await with a time of its own.
func AwaitFor(ctx context.Context, limit time.Duration, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// What comes soon is seen at once. To look for long as often would take the processor from what is waited for.
	delay := 20 * time.Millisecond
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, limit, err)
		case <-timer.C:
			delay = min(delay*5/4, 500*time.Millisecond)
			timer.Reset(delay)
		}
	}
}

// Eventually fails the test if a condition does not come true.
func Eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := Await(t.Context(), what, check); err != nil {
		t.Fatal(err)
	}
}

// Must fails the test on an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Broken ends a test after a broken promise about data: a volume that is open or bound to a stranger, or a write under Unmanaged. Such a test
// gets no second try, however rarely it fails: hack/testrun searches for these words.
func Broken(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Fatalf("BROKEN PROMISE: "+format, args...)
}

// EFS is a ClusterCSIDriver for the EFS driver.
func EFS(state operatorv1.ManagementState) *operatorv1.ClusterCSIDriver {
	cr := CR("efs.csi.aws.com", state)
	// Otherwise a condition reports the missing setting.
	cr.Annotations = map[string]string{"aws-efs.managed.openshift.io/unlisted-namespaces": "Allow"}
	return cr
}

// CR is a ClusterCSIDriver.
func CR(driver string, state operatorv1.ManagementState) *operatorv1.ClusterCSIDriver {
	return &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: state}},
	}
}

// Condition checks the status of one condition of the EFS driver's ClusterCSIDriver.
func (c *Cluster) Condition(ctx context.Context, kind string, want operatorv1.ConditionStatus) error {
	return c.ConditionOf(ctx, EFS("").Name, kind, want)
}

// ConditionOf is Condition for any driver.
func (c *Cluster) ConditionOf(ctx context.Context, driver, kind string, want operatorv1.ConditionStatus) error {
	cr, err := c.observed(ctx, driver)
	if err != nil {
		return err
	}
	return has(cr, kind, want)
}

// observed reads a ClusterCSIDriver, and fails if its status is that of another generation.
func (c *Cluster) observed(ctx context.Context, driver string) (*operatorv1.ClusterCSIDriver, error) {
	cr := CR(driver, "")
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(cr), cr); err != nil {
		return nil, err
	}
	if cr.Status.ObservedGeneration != cr.Generation {
		return nil, fmt.Errorf("generation %d of the ClusterCSIDriver is not observed yet", cr.Generation)
	}
	return cr, nil
}

func has(cr *operatorv1.ClusterCSIDriver, kind string, want operatorv1.ConditionStatus) error {
	for _, condition := range cr.Status.Conditions {
		if condition.Type == kind {
			if condition.Status == want {
				return nil
			}
			return fmt.Errorf("condition %s is %s, not %s: %s %s", kind, condition.Status, want, condition.Reason, condition.Message)
		}
	}
	return fmt.Errorf("condition %s is not there", kind)
}

// Settled checks that the EFS driver is available, rolled out and healthy.
func (c *Cluster) Settled(ctx context.Context) error { return c.SettledOf(ctx, EFS("").Name) }

// SettledOf is Settled for any driver.
func (c *Cluster) SettledOf(ctx context.Context, driver string) error {
	cr, err := c.observed(ctx, driver)
	if err != nil {
		return err
	}
	return errors.Join(
		has(cr, "Available", operatorv1.ConditionTrue),
		has(cr, "Progressing", operatorv1.ConditionFalse),
		has(cr, "Degraded", operatorv1.ConditionFalse),
	)
}

// Uninstall deletes the ClusterCSIDriver and waits until it no longer exists.
func (c *Cluster) Uninstall(ctx context.Context) error {
	cr := EFS("")
	if err := c.Client.Delete(ctx, cr); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the ClusterCSIDriver: %w", err)
	}
	return Await(ctx, "ClusterCSIDriver gone", func() error { return c.Gone(ctx, cr) })
}

// Gone checks that an object does not exist.
func (c *Cluster) Gone(ctx context.Context, object client.Object) error {
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%T %s still exists (finalizers %v)", object, object.GetName(), object.GetFinalizers())
	}
	return err
}

// AllGone checks that none of these objects exists. It begins with the last one found, so that most checks cost one request.
func (c *Cluster) AllGone(ctx context.Context, objects []client.Object) func() error {
	first := 0
	return func() error {
		for i := range objects {
			at := (first + i) % len(objects)
			// A kind that the cluster does not know has no object.
			if err := c.Gone(ctx, objects[at]); err != nil && !meta.IsNoMatchError(err) {
				first = at
				return err
			}
		}
		return nil
	}
}
