package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// leftovers names what is in the cluster and was not before, once nothing of it goes any more. The ClusterCSIDriver
// is not counted, nor is what belongs to another object and goes with it.
func leftovers(ctx context.Context, cluster *env.Cluster, before env.Snapshot, quiet time.Duration) ([]string, error) {
	names, since := []string{}, time.Now()
	_, err := within(ctx, time.Minute, time.Second, func() (bool, error) {
		objects, err := cluster.Since(ctx, before)
		if err != nil {
			return false, err
		}
		found := []string{}
		for i := range objects {
			if metav1.GetControllerOf(&objects[i]) == nil && objects[i].Kind != "ClusterCSIDriver" {
				found = append(found, title(&objects[i]))
			}
		}
		slices.Sort(found)
		if !slices.Equal(found, names) {
			names, since = found, time.Now()
		}
		return len(objects) == 0 || time.Since(since) > 2*quiet, nil
	})
	return names, err
}

// clean takes away whatever an operator has left behind, by force, so that the next one finds the cluster as this one
// did. No operator runs meanwhile.
func clean(ctx context.Context, cluster *env.Cluster, before env.Snapshot) error {
	// An operator that did not release its lease would make the next one wait for it, if both have the same.
	err := cluster.Client.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(env.OperatorNamespace))
	if err != nil {
		return fmt.Errorf("delete the leases of the operators: %w", err)
	}
	var left []metav1.PartialObjectMetadata
	done, err := within(ctx, 2*time.Minute, time.Second, func() (bool, error) {
		var err error
		if left, err = cluster.Since(ctx, before); err != nil {
			return false, err
		}
		// SharedVolumes leave many.
		return len(left) == 0, inParallel(len(left), func(number int) error { return discard(ctx, cluster, &left[number]) })
	})
	if err == nil && !done {
		err = fmt.Errorf("%s and %d other objects come back or can't be deleted: measure without the operator that made them",
			title(&left[0]), len(left)-1)
	}
	return err
}

// discard deletes an object, and its finalizers if it is being deleted already. What a controller made goes with its
// owner.
func discard(ctx context.Context, cluster *env.Cluster, object *metav1.PartialObjectMetadata) error {
	var err error
	switch {
	case object.DeletionTimestamp == nil && metav1.GetControllerOf(object) == nil:
		err = cluster.Client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground))
	case object.DeletionTimestamp != nil && len(object.Finalizers) > 0:
		err = cluster.Client.Patch(ctx, object, env.Merge(`{"metadata":{"finalizers":null}}`))
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s, which an operator has left: %w", title(object), err)
	}
	return nil
}
