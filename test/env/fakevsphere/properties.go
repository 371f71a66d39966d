package fakevsphere

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/vpx"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// collector reads properties. The simulator makes one for each session, of the type in its registry.
type collector struct{ simulator.PropertyCollector }

// SetPageSize makes the property collector answer so many objects at once at most, with a token for what follows; 0 ends that. A vCenter may do
// that to every request (vSphere API reference, RetrieveOptions.maxObjects).
func (v *VCenter) SetPageSize(size int32) { v.set(func() { v.page = size }) }

// RetrievePropertiesEx leaves out what the user may not see, and says of what it may not read that it is missing.
func (c *collector) RetrievePropertiesEx(ctx *simulator.Context, r *types.RetrievePropertiesEx) soap.HasFault {
	v := of(ctx)
	v.set(func() {
		if v.page > 0 && (r.Options.MaxObjects <= 0 || r.Options.MaxObjects > v.page) {
			r.Options.MaxObjects = v.page
		}
	})
	body, _ := c.PropertyCollector.RetrievePropertiesEx(ctx, r).(*methods.RetrievePropertiesExBody)
	if body.Res != nil && body.Res.Returnval != nil {
		body.Res.Returnval.Objects = v.readable(ctx, body.Res.Returnval.Objects)
	}
	return body
}

// ContinueRetrievePropertiesEx does the same with the pages that follow.
func (c *collector) ContinueRetrievePropertiesEx(ctx *simulator.Context, r *types.ContinueRetrievePropertiesEx) soap.HasFault {
	body, _ := c.PropertyCollector.ContinueRetrievePropertiesEx(ctx, r).(*methods.ContinueRetrievePropertiesExBody)
	if body.Res != nil {
		body.Res.Returnval.Objects = of(ctx).readable(ctx, body.Res.Returnval.Objects)
	}
	return body
}

// RetrieveProperties does the same without pages, as a vCenter does.
func (c *collector) RetrieveProperties(ctx *simulator.Context, r *types.RetrieveProperties) soap.HasFault {
	body, _ := c.PropertyCollector.RetrieveProperties(ctx, r).(*methods.RetrievePropertiesBody)
	if body.Res != nil {
		body.Res.Returnval = of(ctx).readable(ctx, body.Res.Returnval)
	}
	return body
}

// of is the vCenter that a call reached. The collector of a session is made without one.
func of(ctx *simulator.Context) *VCenter {
	manager, _ := ctx.Map.Get(*vpx.ServiceContent.AuthorizationManager).(*authorization)
	return manager.vcenter
}

// readable is what a session may read.
func (v *VCenter) readable(ctx *simulator.Context, objects []types.ObjectContent) []types.ObjectContent {
	var all []types.ObjectContent
	for _, object := range objects {
		if ctx.Session.UserName != "" && !v.granted(ctx.Session.UserName, object.Obj, "System.View") {
			continue
		}
		var properties []types.DynamicProperty
		for _, one := range object.PropSet {
			switch {
			case one.Val == nil:
				// The simulator leaves them in the pages that follow the first. They can't be encoded.
			case ctx.Session.UserName != "" && !v.granted(ctx.Session.UserName, object.Obj, "System.Read"):
				fault := types.NoPermission{Object: &object.Obj, PrivilegeId: "System.Read"}
				object.MissingSet = append(object.MissingSet, types.MissingProperty{Path: one.Name, Fault: types.LocalizedMethodFault{Fault: &fault}})
			default:
				properties = append(properties, one)
			}
		}
		object.PropSet = properties
		all = append(all, object)
	}
	return all
}
