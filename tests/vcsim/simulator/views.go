package main

import (
	"slices"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// watched holds the objects that list views hold, and how many of the views.
var watched = members{views: map[types.ManagedObjectReference]int{}}

type members struct {
	mutex sync.RWMutex
	views map[types.ManagedObjectReference]int
}

func (m *members) count(refs []types.ManagedObjectReference, by int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, ref := range refs {
		if m.views[ref] += by; m.views[ref] <= 0 {
			delete(m.views, ref)
		}
	}
}

func (m *members) has(ref types.ManagedObjectReference) bool {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	return m.views[ref] > 0
}

// viewManager makes list views that can be changed while somebody waits for updates through them.
//
// The library's own are locked while they tell property filters of a change, which takes the filter's lock; a wait
// that finds its filter outdated locks the filter, and then the view. Two changes in quick succession stop both for ever.
type viewManager struct {
	*simulator.ViewManager
}

// ListView takes its lock for as long as it changes, and tells of the change without it. The library names
// references after the type.
type ListView struct {
	mo.ListView
}

// Lock does nothing: calls of it are not locked as a whole.
func (*ListView) Lock() {}

// Unlock does nothing: see Lock.
func (*ListView) Unlock() {}

func (*viewManager) CreateListView(ctx *simulator.Context, req *types.CreateListView) soap.HasFault {
	view := &ListView{}
	view.View = slices.Clone(req.Obj)
	watched.count(view.View, 1)
	ctx.Session.Put(view)
	return &methods.CreateListViewBody{Res: &types.CreateListViewResponse{Returnval: view.Self}}
}

func (v *ListView) ModifyListView(ctx *simulator.Context, req *types.ModifyListView) soap.HasFault {
	var unresolved []types.ManagedObjectReference
	for _, ref := range req.Add {
		if ctx.Session.Get(ref) == nil {
			unresolved = append(unresolved, ref)
		}
	}
	watched.count(req.Add, 1)
	var now []types.ManagedObjectReference
	// By its reference: it has the lock that reads of the view take.
	ctx.WithLock(v.Self, func() {
		now = slices.DeleteFunc(slices.Concat(v.View, req.Add), func(ref types.ManagedObjectReference) bool {
			return slices.Contains(req.Remove, ref)
		})
		v.View = now
	})
	watched.count(req.Remove, -1)
	ctx.Map.Update(ctx, v, []types.PropertyChange{{Name: "view", Val: now}})
	return &methods.ModifyListViewBody{Res: &types.ModifyListViewResponse{Returnval: unresolved}}
}

func (v *ListView) DestroyView(ctx *simulator.Context, req *types.DestroyView) soap.HasFault {
	watched.count(v.View, -1)
	ctx.Session.Remove(ctx, req.This)
	return &methods.DestroyViewBody{Res: &types.DestroyViewResponse{}}
}

// rootCollector makes collectors that bear many objects.
type rootCollector struct {
	simulator.PropertyCollector
}

func (*rootCollector) CreatePropertyCollector(ctx *simulator.Context, _ *types.CreatePropertyCollector) soap.HasFault {
	made := ctx.Session.Put(&PropertyCollector{}).Reference()
	return &methods.CreatePropertyCollectorBody{Res: &types.CreatePropertyCollectorResponse{Returnval: made}}
}

// PropertyCollector is told of the objects in list views alone, where its filters look at nothing else.
//
// The library's own looks through all that it watches for each change of anything anywhere: two hundred clones keep it busy
// for minutes, in which it answers nobody. An object that comes into a view is told whole, so what changed before is not
// missed.
type PropertyCollector struct {
	simulator.PropertyCollector
}

func (c *PropertyCollector) WaitForUpdatesEx(ctx *simulator.Context, req *types.WaitForUpdatesEx) soap.HasFault {
	body := c.PropertyCollector.WaitForUpdatesEx(ctx, req)
	if req.Version == "" && c.looksAtListsAlone(ctx) {
		// In the place of the library's handler, which has the same reference.
		ctx.Map.AddHandler(&ofLists{&c.PropertyCollector})
	}
	return body
}

func (c *PropertyCollector) looksAtListsAlone(ctx *simulator.Context) bool {
	return !slices.ContainsFunc(c.Filter, func(ref types.ManagedObjectReference) bool {
		filter, ok := ctx.Session.Get(ref).(*simulator.PropertyFilter)
		return !ok || slices.ContainsFunc(filter.Spec.ObjectSet, func(spec types.ObjectSpec) bool { return spec.Obj.Type != "ListView" })
	})
}

// ofLists hands on what concerns list views and their members.
type ofLists struct {
	*simulator.PropertyCollector
}

// PutObject does nothing: what was made a moment ago is in no view.
func (*ofLists) PutObject(*simulator.Context, mo.Reference) {}

func (c *ofLists) UpdateObject(ctx *simulator.Context, object mo.Reference, changes []types.PropertyChange) {
	if ref := object.Reference(); ref.Type == "ListView" || watched.has(ref) {
		c.PropertyCollector.UpdateObject(ctx, object, changes)
	}
}

func (c *ofLists) RemoveObject(ctx *simulator.Context, ref types.ManagedObjectReference) {
	if watched.has(ref) {
		c.PropertyCollector.RemoveObject(ctx, ref)
	}
}

// mendViews puts these in the place of the library's own.
func mendViews(registry *simulator.Registry) {
	registry.Put(&viewManager{registry.ViewManager()})
	root := &rootCollector{}
	content := registry.Get(vim25.ServiceInstance).(interface{ ServiceContent() types.ServiceContent }).ServiceContent()
	root.Self = content.PropertyCollector
	registry.Put(root)
}
