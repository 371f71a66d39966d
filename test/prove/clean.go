package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// space is the Namespace of all pods and PVCs. It is made first and deleted last: while it is there, something may have to be cleaned up.
	space = "csi-operators-prove"
	// managedBy and manager label the Namespace and the StorageClasses.
	managedBy, manager = "app.kubernetes.io/managed-by", "prove"
)

// begin makes the Namespace.
func (p *proof) begin(ctx context.Context) error {
	err := p.create(ctx, fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n  labels: {%s: %s, %s: %q}\n  annotations: {%s: %q}\n",
		space, managedBy, manager, runLabel, p.id, alive, sign()))
	if err != nil {
		err = fmt.Errorf("create namespace %s, which only one run can: %w", space, err)
	}
	return err
}

// found reads the Namespace. It returns an error if it is of others.
func (p *proof) found(ctx context.Context) (*corev1.Namespace, bool, error) {
	at := &corev1.Namespace{}
	there, err := p.get(ctx, at, "namespace", space)
	if err == nil && there && at.Labels[managedBy] != manager {
		err = fmt.Errorf("namespace %s lacks the label %s=%s, so it is not of this program: delete it yourself", space, managedBy, manager)
	}
	return at, there, err
}

// recorder does a part of a clean-up.
type recorder func(ctx context.Context, title string, do func(context.Context) (string, error)) error

// cleanUpEarlier deletes what an earlier run has left, also its Namespace. The report has no lines for that.
func (p *proof) cleanUpEarlier(ctx context.Context) error {
	at, known, err := p.found(ctx)
	if err == nil && known {
		at, known, err = p.afterTheEnd(ctx, at)
	}
	switch {
	case err != nil:
		return err
	case known:
		p.say("Cleaning up after an earlier run.")
		err = p.takeOver(ctx, at)
	case p.cleanOnly:
		// While it is there, no other run begins to make file systems of these names.
		err = p.begin(ctx)
	default:
		_, err := p.deleteShares(ctx, false)
		return err
	}
	if err != nil {
		return err
	}
	owning, end := p.beats(ctx)
	defer end()
	return p.clean(owning, known, end, func(ctx context.Context, _ string, do func(context.Context) (string, error)) error {
		_, err := do(ctx)
		if left := new(skipError); errors.As(err, &left) {
			return nil
		}
		return err
	})
}

// cleanUp deletes the objects of this run.
func (p *proof) cleanUp(ctx context.Context, endBeats func()) error {
	at, there, err := p.found(ctx)
	switch {
	case err != nil:
		return err
	case !there:
		// It was deleted by hand. What is in AWS costs money.
		return p.record(ctx, inAWS, func(ctx context.Context) (string, error) { return p.deleteShares(ctx, false) })
	case at.Labels[runLabel] != p.id:
		return fmt.Errorf("namespace %s is of another run on this cluster, so nothing was cleaned up: wait until that run has ended", space)
	}
	return p.clean(ctx, true, endBeats, p.record)
}

// inAWS is the title of a part of the clean-up.
const inAWS = "Clean-up in AWS"

// clean deletes what the Namespace of this run stands for, and at last the Namespace. It is known if it was there before a person has asked for a
// clean-up.
func (p *proof) clean(ctx context.Context, known bool, endBeats func(), record recorder) error {
	at, err := p.mine(ctx)
	if err != nil {
		return err
	}
	noted, err := recordOf(at)
	if err != nil {
		return err
	}
	uninstall := func(ctx context.Context) (string, error) { return p.uninstall(ctx, noted) }
	if noted == nil {
		uninstall = refuse("this program has not installed it")
	}
	var problems []error
	for _, part := range []struct {
		title string
		do    func(context.Context) (string, error)
	}{
		{"Removal of pods and volumes", p.deleteVolumes},
		{"Removal of the driver", uninstall},
		{inAWS, func(ctx context.Context) (string, error) { return p.deleteShares(ctx, known) }},
		{"Removal of the rest", func(ctx context.Context) (string, error) { return p.deleteRest(ctx, at.UID, endBeats) }},
	} {
		hasFailed := errors.Join(problems...) != nil
		switch {
		case hasFailed && part.title == "Removal of the driver":
			part.do = refuse("volumes of the run may be left, which only the driver can delete")
		case hasFailed && part.title == "Removal of the rest":
			// The note stays until everything else is gone.
			return errors.Join(problems...)
		}
		if err := record(ctx, part.title, p.ifMine(part.do)); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", part.title, err))
		}
	}
	return errors.Join(problems...)
}

// ifMine does something if the Namespace is still that of this run.
func (p *proof) ifMine(do func(context.Context) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if _, err := p.mine(ctx); err != nil {
			return "", err
		}
		return do(ctx)
	}
}

// deleteVolumes deletes pods, SharedVolumes and PVCs, and waits until the driver has deleted their volumes.
func (p *proof) deleteVolumes(ctx context.Context) (string, error) {
	kinds := "pods,persistentvolumeclaims"
	crd, err := p.oc(ctx, "get", "customresourcedefinition", "sharedvolumes.aws-efs.managed.openshift.io", "--ignore-not-found", "-o", "name")
	if err != nil {
		return "", err
	}
	if crd != "" {
		kinds = "pods,sharedvolumes,persistentvolumeclaims"
	}
	if _, err := p.oc(ctx, "-n", space, "delete", kinds, "--all", "--timeout", p.patience.String()); err != nil {
		return "", p.stuck(ctx, err)
	}
	if err := p.until(ctx, "no PersistentVolume of namespace "+space+" is left", func() error {
		volumes := &corev1.PersistentVolumeList{}
		if _, err := p.get(ctx, volumes, "persistentvolumes"); err != nil {
			return err
		}
		for _, volume := range volumes.Items {
			if claim := volume.Spec.ClaimRef; claim != nil && claim.Namespace == space {
				return fmt.Errorf("PersistentVolume %s is %s", volume.Name, volume.Status.Phase)
			}
		}
		return nil
	}); err != nil {
		return "", p.stuck(ctx, err)
	}
	return "No pod, PVC, SharedVolume or PersistentVolume of the run is left", nil
}

// deleteRest deletes the classes, and at last the Namespace.
func (p *proof) deleteRest(ctx context.Context, namespace types.UID, endBeats func()) (string, error) {
	for _, name := range []string{"efs-" + shareName, "efs-" + oneZoneName} {
		class := &unstructured.Unstructured{}
		there, err := p.get(ctx, class, "storageclasses.storage.k8s.io", name)
		if err != nil {
			return "", err
		}
		if !there || class.GetLabels()[managedBy] != manager {
			continue
		}
		if err := p.deleteExactly(ctx, nameOf(class), objectOf(class)); err != nil {
			return "", err
		}
	}
	// They would take the end of the Namespace for its loss.
	endBeats()
	if err := p.deleteExactly(ctx, "namespace "+space, object{uid: namespace, path: "/api/v1/namespaces/" + space}); err != nil {
		return "", err
	}
	_, err := p.oc(ctx, "wait", "--for=delete", "namespace/"+space, "--timeout", p.patience.String())
	return "The StorageClasses and the namespace are deleted", err
}
