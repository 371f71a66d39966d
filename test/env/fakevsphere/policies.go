package fakevsphere

import (
	"fmt"
	"slices"
	"time"

	"github.com/vmware/govmomi/pbm"
	"github.com/vmware/govmomi/pbm/methods"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// tagNamespace is where capabilities by tag are (openshift/vmware-vsphere-csi-driver-operator 030ff0e3,
// pkg/operator/storageclasscontroller/vmware.go).
const tagNamespace = "http://www.vmware.com/storage/tag"

// policy is a storage policy as it was sent.
type policy = *pbmtypes.PbmCapabilityProfile

// builtIn is one that every vCenter has.
func builtIn() policy {
	capability := pbmtypes.PbmCapabilityInstance{
		Id: pbmtypes.PbmCapabilityMetadataUniqueId{Namespace: "VSAN", Id: "hostFailuresToTolerate"},
		Constraint: []pbmtypes.PbmCapabilityConstraintInstance{{PropertyInstance: []pbmtypes.PbmCapabilityPropertyInstance{{
			Id: "hostFailuresToTolerate", Value: int32(1),
		}}}},
	}
	return &pbmtypes.PbmCapabilityProfile{
		PbmProfile: pbmtypes.PbmProfile{
			ProfileId: pbmtypes.PbmProfileId{UniqueId: "aa6d5a82-1c88-45da-85d3-3d74b91a5bad"}, Name: "vSAN Default Storage Policy",
			Description: "Storage policy used as default for vSAN datastores", CreationTime: time.Now(), LastUpdatedTime: time.Now(),
		},
		ProfileCategory: "REQUIREMENT", ResourceType: pbmtypes.PbmProfileResourceType{ResourceType: "STORAGE"},
		Constraints: &pbmtypes.PbmCapabilitySubProfileConstraints{SubProfiles: []pbmtypes.PbmCapabilitySubProfile{{
			Name: "VSAN", Capability: []pbmtypes.PbmCapabilityInstance{capability},
		}}},
	}
}

// policyContent is what PbmRetrieveServiceContent answers.
func policyContent() pbmtypes.PbmServiceInstanceContent {
	return pbmtypes.PbmServiceInstanceContent{
		AboutInfo:                 pbmtypes.PbmAboutInfo{Name: "PBM", Version: "2.0", InstanceUuid: "df09f335-be97-4f33-8c27-315faaaad6fc"},
		SessionManager:            types.ManagedObjectReference{Type: "PbmSessionManager", Value: "SessionManager"},
		CapabilityMetadataManager: types.ManagedObjectReference{Type: "PbmCapabilityMetadataManager", Value: "CapabilityMetadataManager"},
		ProfileManager:            types.ManagedObjectReference{Type: "PbmProfileProfileManager", Value: "ProfileManager"},
		ComplianceManager:         types.ManagedObjectReference{Type: "PbmComplianceManager", Value: "complianceManager"},
		PlacementSolver:           types.ManagedObjectReference{Type: "PbmPlacementSolver", Value: "placementSolver"},
	}
}

func (v *VCenter) policyRegistry() *simulator.Registry {
	registry := simulator.NewRegistry()
	registry.Namespace, registry.Path, registry.Cookie, registry.Handler = pbm.Namespace, pbm.Path, simulator.SOAPCookie, v.admit
	registry.Put(&policyService{ManagedObjectReference: pbm.ServiceInstance})
	registry.Put(&policyManager{ManagedObjectReference: policyContent().ProfileManager, vcenter: v})
	return registry
}

// policyService is the entry of the policy service.
type policyService struct{ types.ManagedObjectReference }

// PbmRetrieveServiceContent needs no session.
func (*policyService) PbmRetrieveServiceContent(*pbmtypes.PbmRetrieveServiceContent) soap.HasFault {
	return &methods.PbmRetrieveServiceContentBody{Res: &pbmtypes.PbmRetrieveServiceContentResponse{Returnval: policyContent()}}
}

// policyManager is PbmProfileProfileManager.
type policyManager struct {
	types.ManagedObjectReference
	vcenter *VCenter
}

func (m *policyManager) set(change func()) { m.vcenter.set(change) }

// at is where a policy is; the mutex is held.
func (m *policyManager) at(id string) int {
	return slices.IndexFunc(m.vcenter.policies, func(one policy) bool { return one.ProfileId.UniqueId == id })
}

// PbmQueryProfile lists IDs.
func (m *policyManager) PbmQueryProfile(r *pbmtypes.PbmQueryProfile) soap.HasFault {
	body := &methods.PbmQueryProfileBody{Res: &pbmtypes.PbmQueryProfileResponse{}}
	m.set(func() {
		for _, one := range m.vcenter.policies {
			if one.ResourceType == r.ResourceType && (r.ProfileCategory == "" || r.ProfileCategory == one.ProfileCategory) {
				body.Res.Returnval = append(body.Res.Returnval, one.ProfileId)
			}
		}
	})
	return body
}

// PbmRetrieveContent returns policies. One that is not there makes all fail, none asked for too (SPBM API reference).
func (m *policyManager) PbmRetrieveContent(r *pbmtypes.PbmRetrieveContent) soap.HasFault {
	body := &methods.PbmRetrieveContentBody{}
	m.set(func() {
		answer := &pbmtypes.PbmRetrieveContentResponse{}
		for _, id := range r.ProfileIds {
			at := m.at(id.UniqueId)
			if at < 0 {
				body.Fault_ = simulator.Fault("", &types.InvalidArgument{InvalidProperty: "profileIds"})
				return
			}
			answer.Returnval = append(answer.Returnval, m.vcenter.policies[at])
		}
		if len(r.ProfileIds) == 0 {
			body.Fault_ = simulator.Fault("", &types.InvalidArgument{InvalidProperty: "profileIds"})
			return
		}
		body.Res = answer
	})
	return body
}

// refuse is why a policy of such a name and such constraints can't be; the mutex is held. That a capability must name a
// category and a tag that are there is stricter: a vCenter is only known to have no metadata for a category that it lacks.
func (m *policyManager) refuse(name string, constraints pbmtypes.BasePbmCapabilityConstraints) *soap.Fault {
	if slices.ContainsFunc(m.vcenter.policies, func(one policy) bool { return one.Name == name }) {
		return simulator.Fault("The name '"+name+"' already exists.", &pbmtypes.PbmDuplicateName{Name: name})
	}
	profile, _ := constraints.(*pbmtypes.PbmCapabilitySubProfileConstraints)
	if name == "" || profile == nil || len(profile.SubProfiles) == 0 {
		return simulator.Fault("", &types.InvalidArgument{InvalidProperty: "createSpec"})
	}
	for _, rule := range rulesByTag(profile) {
		for _, tag := range rule.Names {
			if _, found := m.vcenter.tagNamed(rule.Category, tag); !found {
				return simulator.Fault("", &types.InvalidArgument{InvalidProperty: "constraints"})
			}
		}
	}
	return nil
}

// PbmCreate refuses a name that there is (SPBM API reference, PbmDuplicateName).
func (m *policyManager) PbmCreate(ctx *simulator.Context, r *pbmtypes.PbmCreate) soap.HasFault {
	body := &methods.PbmCreateBody{}
	m.set(func() {
		spec := r.CreateSpec
		if body.Fault_ = m.refuse(spec.Name, spec.Constraints); body.Fault_ != nil {
			return
		}
		m.vcenter.created++
		id := pbmtypes.PbmProfileId{UniqueId: fmt.Sprintf("00000000-0000-4000-8000-%012d", m.vcenter.created)}
		m.vcenter.policies = append(m.vcenter.policies, &pbmtypes.PbmCapabilityProfile{
			PbmProfile: pbmtypes.PbmProfile{
				ProfileId: id, Name: spec.Name, Description: spec.Description, CreationTime: time.Now(), CreatedBy: ctx.Session.UserName,
				LastUpdatedTime: time.Now(), LastUpdatedBy: ctx.Session.UserName,
			},
			ProfileCategory: orElse(spec.Category, "REQUIREMENT"), ResourceType: spec.ResourceType, Constraints: spec.Constraints,
		})
		body.Res = &pbmtypes.PbmCreateResponse{Returnval: id}
	})
	return body
}

// PbmDelete answers for each policy: one in use stays, and the answer says so without failing (SPBM API reference, PbmProfileOperationOutcome).
func (m *policyManager) PbmDelete(r *pbmtypes.PbmDelete) soap.HasFault {
	body := &methods.PbmDeleteBody{Res: &pbmtypes.PbmDeleteResponse{}}
	m.set(func() {
		for _, id := range r.ProfileId {
			outcome := pbmtypes.PbmProfileOperationOutcome{ProfileId: id}
			switch at := m.at(id.UniqueId); {
			case at < 0:
				outcome.Fault = &types.LocalizedMethodFault{Fault: &pbmtypes.PbmFaultNotFound{}, LocalizedMessage: "The object was not found."}
			case len(m.vcenter.inUse[m.vcenter.policies[at].Name]) > 0:
				fault := &pbmtypes.PbmResourceInUse{Type: "VirtualDisk", Name: m.vcenter.policies[at].Name}
				outcome.Fault = &types.LocalizedMethodFault{Fault: fault, LocalizedMessage: "The resource is in use."}
			default:
				m.vcenter.policies = slices.Delete(slices.Clone(m.vcenter.policies), at, at+1)
			}
			body.Res.Returnval = append(body.Res.Returnval, outcome)
		}
	})
	return body
}

// users are the objects with a policy; the mutex is held.
func (m *policyManager) users(id string) (all []pbmtypes.PbmServerObjectRef, fault *soap.Fault) {
	at := m.at(id)
	if at < 0 {
		return nil, simulator.Fault("", &types.InvalidArgument{InvalidProperty: "profile"})
	}
	for _, key := range m.vcenter.inUse[m.vcenter.policies[at].Name] {
		all = append(all, pbmtypes.PbmServerObjectRef{ObjectType: string(pbmtypes.PbmObjectTypeVirtualDiskUUID), Key: key})
	}
	return all, nil
}

// PbmQueryAssociatedEntities lists the objects of policies, each with its policies.
func (m *policyManager) PbmQueryAssociatedEntities(r *pbmtypes.PbmQueryAssociatedEntities) soap.HasFault {
	body := &methods.PbmQueryAssociatedEntitiesBody{}
	m.set(func() {
		answer := &pbmtypes.PbmQueryAssociatedEntitiesResponse{}
		for _, id := range r.Profiles {
			users, fault := m.users(id.UniqueId)
			if fault != nil {
				body.Fault_ = fault
				return
			}
			for _, one := range users {
				answer.Returnval = append(answer.Returnval, pbmtypes.PbmQueryProfileResult{Object: one, ProfileId: []pbmtypes.PbmProfileId{id}})
			}
		}
		body.Res = answer
	})
	return body
}
