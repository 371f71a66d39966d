package policy

import (
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

func TestLinkedVCentersGetOneCategoryWithoutAComplaint(t *testing.T) {
	shared := &tagging{}
	first, second := newStandIn(vcenter(vc1), shared), newStandIn(vcenter(vc2), shared)
	b := newBench(wanting(domain("a", vc1, "ds1"), domain("b", vc2, "ds1")), first, second)
	if !b.sync(t.Context()) || b.State().Reason != "" {
		t.Errorf("%+v", b.State())
	}
	b.settle(t)
	if !b.State().Ready || len(shared.categories) != 1 || len(shared.tags) != 1 {
		t.Errorf("%+v, %+v", b.State(), shared)
	}
	b.SetRemoved(true)
	second.attached = append(second.attached, vsphere.Attachment{TagID: shared.tags[0].ID, Object: vm})
	b.settle(t)
	if !b.State().Removed || len(shared.tags) != 1 {
		t.Errorf("the tag of a VM in a linked vCenter: %+v, %+v", b.State(), shared.tags)
	}
	second.attached = nil
	for b.sync(t.Context()) {
		if b.State().Reason != "" {
			t.Errorf("%+v", b.State())
		}
	}
	if !b.State().Removed || len(shared.categories) != 0 {
		t.Errorf("%+v, %+v", b.State(), shared)
	}
}

func TestATagThatALinkedVCenterHasAttachedSinceThePollStays(t *testing.T) {
	shared := &tagging{}
	first, second := newStandIn(vcenter(vc1), shared), newStandIn(vcenter(vc2), shared)
	b := newBench(wanting(domain("a", vc1, "ds1"), domain("b", vc2, "ds1")), first, second)
	b.settle(t)
	b.SetRemoved(true)
	b.sync(t.Context())
	b.Record = func(d Event) {
		if strings.Contains(d.Message, vc1) {
			second.attached = append(second.attached, vsphere.Attachment{TagID: shared.tags[0].ID, Object: vm})
		}
	}
	first.attached = append(first.attached, vsphere.Attachment{TagID: shared.tags[0].ID, Object: ds1})
	b.settle(t)
	if !b.State().Removed || len(shared.tags) != 1 {
		t.Errorf("%+v, %+v", b.State(), shared.tags)
	}
}
