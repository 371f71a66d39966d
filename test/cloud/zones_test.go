package cloud

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
)

func TestPodsRunInTheZoneOfTheirShare(t *testing.T) {
	s := open(t, "lands")
	s.credentials()
	near, far, regional := s.system("b", "b"), s.system("d", "d"), s.system("", "a", "b", "c")
	s.class("regional", regional)
	nearPoint, farPoint, regionalPoint := s.AccessPoint(near, nil), s.AccessPoint(far, nil), s.AccessPoint(regional, nil)
	s.Set(nil)
	s.start()
	one, lonely, wide := s.share("one", near, nearPoint), s.share("lonely", far, farPoint), s.share("wide", regional, regionalPoint)
	s.until("each share says where it can be mounted",
		s.ready(one, "True/OneZone", "One Zone in us-east-1b", "Kubernetes schedules the pods of this volume in that zone"),
		s.ready(wide, "True/Regional", regional),
		s.ready(lonely, "False/NoNodeInZone", far, "us-east-1d", "ask a cluster administrator for nodes in this zone"),
		s.hasEvent(lonely.Name, "NoNodeInZone", "us-east-1d"))
	if zones := []string{s.affinity(one), s.affinity(wide), s.affinity(lonely)}; fmt.Sprint(zones) != "[us-east-1b  us-east-1d]" {
		t.Errorf("the volumes keep pods in %q", zones)
	}
	if zone := s.zoneOf(s.pod("near", "", "pvc-one")); zone != "us-east-1b" {
		t.Errorf("the pod is in %s", zone)
	}
	waiting := s.pod("far", "", "pvc-lonely")
	s.until("the scheduler says why the pod waits", func() error { return s.unschedulable(waiting) })

	env.Must(t, addNode(t.Context(), s.cluster, "far-away", "us-east-1d", "i-far-away"))
	t.Cleanup(func() { env.Must(t, removeNode(context.Background(), s.cluster, "far-away")) })
	if zone := s.zoneOf(waiting); zone != "us-east-1d" {
		t.Errorf("the pod is in %s", zone)
	}
	s.until("all are mountable, and who lacks a mount target for the new zone is named",
		s.ready(lonely, "True/OneZone", "us-east-1d"), s.hasEvent(lonely.Name, "Mountable", "again"),
		s.ready(wide, "True/Regional"),
		s.says("MountTargetMissing", regional, "us-east-1d"), s.only("MountTargetMissing"))
	// All of it was answered by the one look at the start, but for access points of file systems that nothing had used before.
	s.sent(map[string]int{describeSystems: 1, describeTargets: 1, describePoints: 3})
}

// unschedulable checks that the scheduler has found no node for a pod because of its volume.
func (s *scene) unschedulable(pod *corev1.Pod) error {
	if err := s.cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Reason == "Unschedulable" && strings.Contains(condition.Message, "node affinity") {
			return nil
		}
	}
	return fmt.Errorf("pod %s is %s: %v", pod.Name, pod.Status.Phase, pod.Status.Conditions)
}

// Volumes that were made when nobody knew of AWS go on as they were, until somebody asks for a zone and no pod would be hit.
func TestAVolumeThatExistsGetsItsZoneOnlyWhenAskedAndWhenNoPodIsInAnotherZone(t *testing.T) {
	s := open(t, "stays")
	id := s.system("b", "b")
	point := s.AccessPoint(id, nil)
	s.Set(nil)
	s.start()
	moving, odd, kept := s.share("moving", id, point), s.share("odd", id, point), s.share("kept", id, point)
	s.until("Ready without AWS", s.ready(moving, ""), s.ready(odd, ""), s.ready(kept, ""))
	outside, holder := s.pod("elsewhere", "worker-0", "pvc-moving"), s.pod("holder", "", "pvc-kept")
	if zone := s.zoneOf(outside); zone != "us-east-1a" {
		t.Fatalf("worker-0 is in %s", zone)
	}
	s.zoneOf(holder)
	env.Quiet(t, s.shared.operator)
	env.Must(t, s.silent())
	s.sent(map[string]int{})
	for _, name := range []string{"cloud_problem", "one_zone_volumes", "access_points", "cloud_requests_total", "cloud_sweeps_total"} {
		env.Must(t, s.metric("csi_operator_"+name, 0)())
	}

	s.credentials()
	hint := "aws-efs.managed.openshift.io/add-zone-affinity=true"
	s.until("the zone is known", s.ready(moving, "True/OneZone", hint), s.ready(odd, "True/OneZone", hint), s.ready(kept, "True/OneZone", hint))
	before := s.version(moving) + s.version(odd)
	s.annotate(moving, "true")
	s.annotate(odd, "yes")
	s.until("who is in the way is named", s.ready(moving, "True/OneZone", "elsewhere on node worker-0 in us-east-1a"))
	env.Quiet(t, s.shared.operator)
	if after := s.version(moving) + s.version(odd); after != before || s.affinity(moving) != "" || s.affinity(odd) != "" || s.affinity(kept) != "" {
		t.Errorf("volumes were written: %s, %s before", after, before)
	}
	s.drop(outside)
	s.remade(kept, holder)
	s.until("the affinity comes when the pod has ended", s.ready(moving, "True/OneZone", "Kubernetes schedules the pods of this volume in that zone"),
		s.hasEvent("moving", "ZoneAffinityAdded", "zone"))
	if zones := []string{s.affinity(moving), s.affinity(odd), s.affinity(kept)}; fmt.Sprint(zones) != "[us-east-1b  ]" {
		t.Errorf("the volumes keep pods in %q", zones)
	}
}

// remade takes the volume from a PVC, and then the PVC from the volume. Neither volume gets a zone.
func (s *scene) remade(sv *v1alpha1.SharedVolume, holder *corev1.Pod) {
	s.t.Helper()
	volume, pvc := env.VolumeOf(sv), env.PVCOf(sv)
	env.Must(s.t, s.cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(volume), volume))
	env.Must(s.t, s.cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(pvc), pvc))
	first, owner := volume.UID, pvc.UID
	s.drop(volume)
	s.patch(volume.DeepCopy(), `{"metadata":{"finalizers":null}}`)
	s.until("the volume made again for its PVC", s.ready(sv, "True/OneZone"), func() error {
		if err := s.cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(volume), volume); err != nil {
			return err
		}
		if volume.UID == first || volume.Spec.ClaimRef.UID != owner || volume.Spec.NodeAffinity != nil {
			return fmt.Errorf("volume %s for %v with %v", volume.UID, volume.Spec.ClaimRef, volume.Spec.NodeAffinity)
		}
		return nil
	})
	s.drop(holder)
	s.drop(pvc)
	s.until("the PVC made again for its volume", func() error {
		if err := s.cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(pvc), pvc); err != nil {
			return err
		}
		if pvc.UID == owner {
			return fmt.Errorf("it is still the previous one")
		}
		return nil
	}, s.ready(sv, "True/OneZone"))
	if zone := s.affinity(sv); zone != "" {
		s.t.Errorf("the volume of a PVC that was made again keeps pods in %s", zone)
	}
}

func (s *scene) annotate(sv *v1alpha1.SharedVolume, value string) {
	s.t.Helper()
	s.patch(sv.DeepCopy(), fmt.Sprintf(`{"metadata":{"annotations":{"aws-efs.managed.openshift.io/add-zone-affinity":%q}}}`, value))
}

// version is that of a SharedVolume's volume.
func (s *scene) version(sv *v1alpha1.SharedVolume) string {
	s.t.Helper()
	volume := env.VolumeOf(sv)
	env.Must(s.t, s.cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(volume), volume))
	return volume.Name + "@" + volume.ResourceVersion + " "
}
