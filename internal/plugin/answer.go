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

// Answer tells what is not there from what nobody knows: of the latter, nothing may be said to be missing.
type Answer int

const (
	// Unknown means that nobody has asked, or that the API server did not answer.
	Unknown Answer = iota
	// Denied means that the user may not read it. The right is among those that are missing.
	Denied
	// Absent means that the object does not exist, or that the cluster does not serve its kind.
	Absent
	// Present means that it was read.
	Present
)

// Known reports whether it is known that something exists or does not.
func (a Answer) Known() bool { return a == Absent || a == Present }

// Look reads an object, for callers to whom it matters why there is nothing. Find is for all others.
func (c *Cluster) Look(ctx context.Context, key client.ObjectKey, into client.Object) (Answer, error) {
	return c.answer(c.Get(ctx, key, into), "get", into, key.Namespace)
}

// LookAll lists objects in the same way. A kind that is served and has no object is Present.
func (c *Cluster) LookAll(ctx context.Context, list client.ObjectList, options ...client.ListOption) (Answer, error) {
	applied := (&client.ListOptions{}).ApplyOptions(options)
	return c.answer(c.List(ctx, list, options...), "list", list, applied.Namespace)
}

// Logs are the last lines of a container. Without the right to read them there are none, and that is remembered.
func (c *Cluster) Logs(ctx context.Context, pod client.ObjectKey, container string, lines int64) (string, error) {
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

// IsAway reports whether an error means that the API server could not be asked at all: what it has answered is no such error.
func IsAway(err error) bool {
	var answered apierrors.APIStatus
	return err != nil && !errors.As(err, &answered) && !meta.IsNoMatchError(err) && !errors.Is(err, context.Canceled)
}
