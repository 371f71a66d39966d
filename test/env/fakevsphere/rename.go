package fakevsphere

import (
	"maps"
	"strings"

	"github.com/vmware/govmomi/simulator"
)

// Rename gives the object at a path another name, as an administrator does. What is in it has another path then.
func (v *VCenter) Rename(path, name string) {
	v.placing.Lock()
	defer v.placing.Unlock()
	ref := v.Ref(path)
	swap(v, ref, func(d *simulator.Datacenter) { d.Name = name })
	swap(v, ref, func(c *simulator.ClusterComputeResource) { c.Name = name })
	swap(v, ref, func(h *simulator.HostSystem) { h.Name, h.Summary.Config.Name = name, name })
	swap(v, ref, func(f *simulator.Folder) { f.Name = name })
	swap(v, ref, func(p *simulator.ResourcePool) { p.Name = name })
	swap(v, ref, func(m *simulator.VirtualMachine) {
		config := *m.Config
		config.Name = name
		m.Name, m.Summary.Config.Name, m.Config = name, name, &config
	})
	swap(v, ref, func(d *simulator.Datastore) {
		at, _, _ := strings.Cut(path, "/datastore/")
		v.describe(&d.Datastore, at, Datastore{
			Name: name, URL: d.Summary.Url, Type: d.Summary.Type, Maintenance: d.Summary.MaintenanceMode, Capacity: d.Summary.Capacity,
			Free: d.Summary.FreeSpace, Inaccessible: !d.Summary.Accessible,
		})
	})
	moved := path[:strings.LastIndex(path, "/")+1] + name
	v.set(func() {
		for old, object := range maps.Clone(v.objects) {
			rest, within := strings.CutPrefix(old, path)
			if !within || rest != "" && rest[0] != '/' {
				continue
			}
			delete(v.objects, old)
			v.objects[moved+rest], v.places[object] = object, moved+rest
			if at, isVM := v.vms[old]; isVM {
				v.vms[moved+rest] = at
			}
		}
		for vm, at := range v.vms {
			if rest, within := strings.CutPrefix(at.cluster, path); within && (rest == "" || rest[0] == '/') {
				v.vms[vm] = place{cluster: moved + rest}
			}
		}
	})
}
