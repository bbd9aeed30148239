package main

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

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
	var now []types.ManagedObjectReference
	// By its reference: it has the lock that reads of the view take.
	ctx.WithLock(v.Self, func() {
		now = slices.DeleteFunc(slices.Concat(v.View, req.Add), func(ref types.ManagedObjectReference) bool {
			return slices.Contains(req.Remove, ref)
		})
		v.View = now
	})
	ctx.Map.Update(ctx, v, []types.PropertyChange{{Name: "view", Val: now}})
	return &methods.ModifyListViewBody{Res: &types.ModifyListViewResponse{Returnval: unresolved}}
}

func (v *ListView) DestroyView(ctx *simulator.Context, req *types.DestroyView) soap.HasFault {
	ctx.Session.Remove(ctx, req.This)
	return &methods.DestroyViewBody{Res: &types.DestroyViewResponse{}}
}

// mendViews puts it in the place of the library's own.
func mendViews(registry *simulator.Registry) {
	registry.Put(&viewManager{registry.ViewManager()})
}
