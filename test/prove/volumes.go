package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	// folder is where pods mount their volume.
	folder = "/data"
	// requiredSCC lets even an administrator's pod run as those of users do (github.com/openshift/api, security/v1, RequiredSCCAnnotation).
	requiredSCC = "openshift.io/required-scc"
)

// pvc makes a PVC.
func (p *proof) pvc(ctx context.Context, name, class string, mode corev1.PersistentVolumeAccessMode) error {
	return p.apply(ctx, fmt.Sprintf(`apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s, namespace: %s}
spec:
  storageClassName: %s
  accessModes: [%s]
  resources: {requests: {storage: 1Gi}}
`, name, space, class, mode))
}

// pod makes a pod with a PVC, as a user without special rights may. A zone, if any, is where it runs.
func (p *proof) pod(ctx context.Context, name, pvc, zone string, command ...string) error {
	no, yes := false, true
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: space, Labels: map[string]string{"app": "prove"}, Annotations: map[string]string{requiredSCC: "restricted-v2"},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64), AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "prove", Image: p.image, Command: command,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: folder}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc},
			}}},
			// Pods with the same volume are on several nodes, if there are several.
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{
					TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "prove"}},
				}}},
			}},
		},
	}
	if p.facts.hasSCC {
		pod.Spec.SecurityContext.RunAsNonRoot = &yes
	}
	if zone != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
	}
	text, err := yaml.Marshal(pod)
	if err != nil {
		return err
	}
	return p.apply(ctx, string(text))
}

// ended waits until the command of a pod has ended well.
func (p *proof) ended(ctx context.Context, name string) error {
	var failure error
	err := p.until(ctx, "pod "+name+" has ended", func() error {
		pod := &corev1.Pod{}
		if _, err := p.get(ctx, pod, "-n", space, "pod", name); err != nil {
			return err
		}
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
			return nil
		case corev1.PodFailed:
			text, err := p.oc(ctx, "-n", space, "logs", name)
			failure = fmt.Errorf("pod %s has failed: %s (%w)", name, strings.TrimSpace(text), errors.Join(err))
			return nil
		}
		events, _ := p.oc(ctx, "-n", space, "get", "events", "--field-selector", "involvedObject.name="+name, "-o",
			`jsonpath={range .items[*]}{.message}{"; "}{end}`)
		return fmt.Errorf("its phase is %s: %s", pod.Status.Phase, events)
	})
	return errors.Join(err, failure)
}

// useVolumes makes a volume of each mode. A pod writes and reads; with ReadWriteMany, a second pod reads the same, and can't write.
func (p *proof) useVolumes(ctx context.Context) (string, error) {
	const write = `echo text > /data/file && [ "$(cat /data/file)" = text ]`
	type volume struct {
		name, class, zone string
		mode              corev1.PersistentVolumeAccessMode
	}
	var volumes []volume
	if p.share.class != "" {
		volumes = append(volumes, volume{"once", p.share.class, "", corev1.ReadWriteOnce}, volume{"once-pod", p.share.class, "", corev1.ReadWriteOncePod},
			volume{"many", p.share.class, "", corev1.ReadWriteMany})
	}
	if p.oneZone.class != "" {
		volumes = append(volumes, volume{"one-zone", p.oneZone.class, p.zone, corev1.ReadWriteMany})
	}
	var seen []string
	for _, one := range volumes {
		if err := p.pvc(ctx, one.name, one.class, one.mode); err != nil {
			return "", err
		}
		if err := p.pod(ctx, one.name, one.name, one.zone, "sh", "-c", write); err != nil {
			return "", err
		}
		if err := p.ended(ctx, one.name); err != nil {
			return "", err
		}
		if one.mode == corev1.ReadWriteMany {
			if err := p.pod(ctx, one.name+"-reader", one.name, "", "sh", "-c", `[ "$(cat /data/file)" = text ]`); err != nil {
				return "", err
			}
			if err := p.ended(ctx, one.name+"-reader"); err != nil {
				return "", err
			}
		}
		seen = append(seen, fmt.Sprintf("%s of %s", one.mode, one.class))
	}
	if len(seen) == 0 {
		return "", skip("there is no file system")
	}
	return "Pods have written and read " + strings.Join(seen, ", "), nil
}

// useSharedVolume makes a SharedVolume of an access point. Where containers run, a pod uses it.
func (p *proof) useSharedVolume(ctx context.Context) (string, error) {
	if p.share.class == "" {
		return "", skip("there is no file system")
	}
	point, err := p.accessPoint(ctx)
	if err != nil {
		return "", err
	}
	if _, err := p.oc(ctx, "annotate", "--overwrite", "namespace", space, "aws-efs.managed.openshift.io/allowed-shares="+p.share.FileSystem); err != nil {
		return "", err
	}
	if _, err := p.oc(ctx, "storage", "share", "create", "prove", "--file-system", p.share.FileSystem, "--access-point", point, "--wait",
		"--timeout", p.patience.String(), "-n", space); err != nil {
		return "", err
	}
	if p.facts.simulated {
		return "It is Ready, and its PVC is Bound. No pod has used it, because no container runs here", nil
	}
	if err := p.pod(ctx, "shared", "pvc-prove", "", "sh", "-c", `echo text > /data/file && [ "$(cat /data/file)" = text ]`); err != nil {
		return "", err
	}
	return "It is Ready, and a pod has written to its PVC and read", p.ended(ctx, "shared")
}

// whileWriting does something while a pod writes ten lines a second, and shows that none is missing.
func (p *proof) whileWriting(ctx context.Context, do func() error) (string, error) {
	if p.facts.simulated {
		return "No pod has written meanwhile, because no container runs here", do()
	}
	if p.share.class == "" {
		return "No pod has written meanwhile, because there is no file system", do()
	}
	const writer, file = "writer", folder + "/lines"
	if err := p.pvc(ctx, writer, p.share.class, corev1.ReadWriteMany); err != nil {
		return "", err
	}
	if err := p.pod(ctx, writer, writer, "", env.Writes(file)...); err != nil {
		return "", err
	}
	lines := func(more int) (times []float64, err error) {
		return times, p.until(ctx, "the pod writes", func() error {
			text, err := p.oc(ctx, "-n", space, "exec", writer, "--", "cat", file)
			if err != nil {
				return err
			}
			if times, err = env.Lines(text); err == nil && len(times) < more {
				err = fmt.Errorf("it has written %d lines", len(times))
			}
			return err
		})
	}
	before, err := lines(1)
	if err != nil {
		return "", err
	}
	if err := do(); err != nil {
		return "", err
	}
	after, err := lines(len(before) + 10)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("A pod has written %d lines meanwhile. None is missing, and the longest pause was %.1f s",
		len(after)-len(before), env.LongestPause(after[len(before)-1:]).Length()), nil
}

// rollOut replaces all node pods while a pod writes.
func (p *proof) rollOut(ctx context.Context) (string, error) {
	if !p.owns {
		return "", skip("%s", notOurs)
	}
	return p.whileWriting(ctx, func() error {
		if _, err := p.oc(ctx, "-n", kube.DefaultNamespace, "rollout", "restart", "daemonset/"+nodeDaemonSet); err != nil {
			return err
		}
		return p.until(ctx, "all node pods are new", func() error {
			nodes := &appsv1.DaemonSet{}
			if _, err := p.get(ctx, nodes, "-n", kube.DefaultNamespace, "daemonset", nodeDaemonSet); err != nil {
				return err
			}
			status := nodes.Status
			if status.ObservedGeneration != nodes.Generation || status.DesiredNumberScheduled == 0 ||
				status.UpdatedNumberScheduled != status.DesiredNumberScheduled || status.NumberAvailable != status.DesiredNumberScheduled {
				return fmt.Errorf("%d of %d node pods are new", status.UpdatedNumberScheduled, status.DesiredNumberScheduled)
			}
			return p.available(ctx, "")
		})
	})
}

// runTests runs the command of TESTS with the class and the manifest of the file system.
func (p *proof) runTests(ctx context.Context) (string, error) {
	on := p.share
	if on.class == "" {
		on = p.oneZone
	}
	switch {
	case p.tests == "":
		return "", skip("TESTS= names no command")
	case on.class == "":
		return "", skip("there is no file system")
	}
	// A make that the command calls would take the variables of "make prove" for its own.
	text, err := p.command(ctx, "", "env", "-u", "MAKEFLAGS", "-u", "MFLAGS", "-u", "MAKELEVEL", "STORAGE_CLASS="+on.class, "MANIFEST="+on.manifest, "sh", "-c", p.tests)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return fmt.Sprintf("%s: %s", p.tests, lines[len(lines)-1]), nil
}
