package plugin

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Answer is the outcome of a read. Only Absent proves that an object is missing.
type Answer int

const (
	// Unknown means that the object was not read, or that the API server did not answer.
	Unknown Answer = iota
	// NotGathered means that the folder or archive of --from does not have the object, and does not show whether the cluster had it. Method Gaps lists
	// what the folder may lack.
	NotGathered
	// Denied means that the user lacks permission to read the object. Method Missing lists this permission.
	Denied
	// Absent means that the object does not exist, or the cluster does not serve its kind.
	Absent
	// Present means that the object was read.
	Present
)

// Known reports whether the answer is Absent or Present.
func (a Answer) Known() bool { return a == Absent || a == Present }

// TryGet reads an object. The Answer says whether the object exists, or why this is unknown. If the reason does not matter, use Find.
func (c *Cluster) TryGet(ctx context.Context, key client.ObjectKey, into client.Object) (Answer, error) {
	answer, err := c.answer(c.Get(ctx, key, into), "get", into, key.Namespace)
	return c.proven(answer, into, key.Namespace, false), err
}

// TryList lists objects. Its Answer means the same as the Answer of TryGet. The Answer for an empty list is Present.
func (c *Cluster) TryList(ctx context.Context, list client.ObjectList, options ...client.ListOption) (Answer, error) {
	applied := (&client.ListOptions{}).ApplyOptions(options)
	answer, err := c.answer(c.List(ctx, list, options...), "list", list, applied.Namespace)
	return c.proven(answer, list, applied.Namespace, meta.LenList(list) == 0), err
}

// Logs returns the last lines of a container's log. If the user lacks permission to read the log, Logs returns no lines and records the missing
// right.
func (c *Cluster) Logs(ctx context.Context, pod client.ObjectKey, container string, lines int64) (string, error) {
	if c.folder != nil {
		return lastLines(c.folder.Log(pod.Namespace, pod.Name, container), lines), nil
	}
	api, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return "", fmt.Errorf("client for the logs of pods: %w", err)
	}
	options := &corev1.PodLogOptions{Container: container, TailLines: &lines}
	text, err := api.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
	if apierrors.IsForbidden(err) {
		c.lacks(Right{Verb: "get", Resource: "pods/log", Namespace: pod.Namespace})
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the log of container %s of pod %s: %w", container, pod, err)
	}
	return string(text), nil
}

// IsUnanswered reports whether an error means that the API server did not answer at all.
func IsUnanswered(err error) bool {
	var answered apierrors.APIStatus
	return err != nil && !errors.As(err, &answered) && !meta.IsNoMatchError(err) && !errors.Is(err, context.Canceled)
}
