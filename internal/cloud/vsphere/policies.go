package vsphere

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/vmware/govmomi/pbm"
	pbmmethods "github.com/vmware/govmomi/pbm/methods"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// IDs of a rule that requires a tag (openshift/vmware-vsphere-csi-driver-operator 030ff0e3, pkg/operator/storageclasscontroller/vmware.go).
const (
	tagNamespace    = "http://www.vmware.com/storage/tag"
	ruleSet         = "Tag based placement"
	policiesOfUsers = "REQUIREMENT"
)

func tagProperty(category string) string { return "com.vmware.storage.tag." + category + ".property" }

func pbmContent(ctx context.Context, service *soap.Client) (*pbmtypes.PbmServiceInstanceContent, error) {
	answer, err := pbmmethods.PbmRetrieveServiceContent(ctx, service, &pbmtypes.PbmRetrieveServiceContent{This: pbm.ServiceInstance})
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller converts it.
	}
	return &answer.Returnval, nil
}

// readPolicies reads all storage policies that users can select.
func (c *client) readPolicies(ctx context.Context) ([]Policy, error) {
	const what = "list the storage policies"
	service, err := c.policies(ctx)
	if err != nil {
		return nil, err
	}
	kind := pbmtypes.PbmProfileResourceType{ResourceType: string(pbmtypes.PbmProfileResourceTypeEnumSTORAGE)}
	ids, err := service.QueryProfile(ctx, kind, policiesOfUsers)
	if err != nil {
		return nil, c.fail(what, err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	profiles, err := service.RetrieveContent(ctx, ids)
	if err != nil {
		return nil, c.fail(what, err)
	}
	var found []Policy
	for _, profile := range profiles {
		base := profile.GetPbmProfile()
		one := Policy{ID: base.ProfileId.UniqueId, Name: base.Name, Description: base.Description, Other: true}
		if capable, is := profile.(pbmtypes.BasePbmCapabilityProfile); is {
			one.Tags, one.Other = readRules(capable.GetPbmCapabilityProfile().Constraints)
		}
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b Policy) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	return found, nil
}

// readRules returns the rules of a policy that require tags. Result "other" is true if these rules do not describe the policy completely. For
// example, the policy has no rules about tags, it has other or negated rules, or it has several sets of rules. If a policy has several sets, a
// datastore must satisfy only one of them.
func readRules(constraints pbmtypes.BasePbmCapabilityConstraints) (rules []PolicyTags, other bool) {
	sets, is := constraints.(*pbmtypes.PbmCapabilitySubProfileConstraints)
	if !is || len(sets.SubProfiles) != 1 {
		return nil, true
	}
	set := sets.SubProfiles[0]
	other = set.ForceProvision != nil && *set.ForceProvision
	for _, capability := range set.Capability {
		rule, plain := readRule(capability)
		if !plain {
			other = true
			continue
		}
		rules = append(rules, rule)
	}
	return rules, other || len(rules) == 0
}

func readRule(capability pbmtypes.PbmCapabilityInstance) (rule PolicyTags, plain bool) {
	if capability.Id.Namespace != tagNamespace || len(capability.Constraint) != 1 || len(capability.Constraint[0].PropertyInstance) != 1 {
		return rule, false
	}
	property := capability.Constraint[0].PropertyInstance[0]
	set, is := property.Value.(pbmtypes.PbmCapabilityDiscreteSet)
	if !is || property.Operator != "" || property.Id != tagProperty(capability.Id.Id) {
		return rule, false
	}
	rule.Category = capability.Id.Id
	for _, value := range set.Values {
		name, is := value.(string)
		if !is {
			return rule, false
		}
		rule.Names = append(rule.Names, name)
	}
	return rule, true
}

// rulesOf converts rules that require tags into the form in which a vCenter stores them. readRules does the reverse.
func rulesOf(rules []PolicyTags) *pbmtypes.PbmCapabilitySubProfileConstraints {
	set := pbmtypes.PbmCapabilitySubProfile{Name: ruleSet}
	for _, rule := range rules {
		values := make([]types.AnyType, 0, len(rule.Names))
		for _, name := range rule.Names {
			values = append(values, name)
		}
		set.Capability = append(set.Capability, pbmtypes.PbmCapabilityInstance{
			Id: pbmtypes.PbmCapabilityMetadataUniqueId{Namespace: tagNamespace, Id: rule.Category},
			Constraint: []pbmtypes.PbmCapabilityConstraintInstance{{PropertyInstance: []pbmtypes.PbmCapabilityPropertyInstance{{
				Id: tagProperty(rule.Category), Value: pbmtypes.PbmCapabilityDiscreteSet{Values: values},
			}}}},
		})
	}
	return &pbmtypes.PbmCapabilitySubProfileConstraints{SubProfiles: []pbmtypes.PbmCapabilitySubProfile{set}}
}
