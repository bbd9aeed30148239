package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

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

// PropertyCollector is told of the objects in list views alone, where its filters look at nothing else, and tells of those that
// came, changed or went.
//
// The library's own reads all that it watches anew for each change of anything anywhere, and tells all of it again when a view
// changes: with two hundred machines the news of one takes seconds. An object that comes into a view is told whole, so what
// changed before is not missed. That one left a view is told by neither.
type PropertyCollector struct {
	simulator.PropertyCollector

	mutex sync.Mutex
	// What came to each object since the last answer: the properties that changed; "" where it went.
	news map[types.ManagedObjectReference][]string
	// The objects that were told of. Only waiting calls use it, of which there is one at a time.
	told map[types.ManagedObjectReference]bool
}

func (c *PropertyCollector) WaitForUpdatesEx(ctx *simulator.Context, req *types.WaitForUpdatesEx) soap.HasFault {
	filters, ok := c.ofListsAlone(ctx)
	if !ok {
		return c.PropertyCollector.WaitForUpdatesEx(ctx, req)
	}
	if req.Version == "" {
		c.told = map[types.ManagedObjectReference]bool{}
		ctx.Map.AddHandler(&ofLists{c})
	}
	seconds := int32(30 * 60)
	if req.Options != nil && req.Options.MaxWaitSeconds != nil {
		seconds = *req.Options.MaxWaitSeconds
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	body := &methods.WaitForUpdatesExBody{Res: &types.WaitForUpdatesExResponse{}}
	for first := true; ; first = false {
		if ctx.Session.Get(c.Self) == nil {
			return &methods.WaitForUpdatesExBody{Fault_: simulator.Fault("", &types.RequestCanceled{})}
		}
		if set := c.changes(ctx, filters, first && req.Version == ""); set != nil || req.Version == "" {
			if set == nil {
				set = &types.UpdateSet{}
			}
			set.Version = fmt.Sprint(time.Now().UnixNano())
			body.Res.Returnval = set
			return body
		}
		if time.Now().After(end) {
			return body
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// changes tells what there is to tell; nil where there is nothing.
func (c *PropertyCollector) changes(ctx *simulator.Context, filters []*simulator.PropertyFilter, all bool) *types.UpdateSet {
	c.mutex.Lock()
	news := c.news
	c.news = nil
	c.mutex.Unlock()
	if len(news) == 0 && !all {
		return nil
	}
	set := &types.UpdateSet{}
	for _, filter := range filters {
		update := types.PropertyFilterUpdate{Filter: filter.Self}
		for ref, names := range news {
			if c.told[ref] && slices.Contains(names, "") {
				delete(c.told, ref)
				update.ObjectSet = append(update.ObjectSet, types.ObjectUpdate{Obj: ref, Kind: types.ObjectUpdateKindLeave})
			}
		}
		held := listed(ctx, filter)
		for ref := range c.told {
			if !slices.Contains(held, ref) {
				delete(c.told, ref)
			}
		}
		for _, ref := range held {
			names := news[ref]
			if c.told[ref] && len(names) == 0 {
				continue
			}
			if object := c.object(ctx, filter, ref, names); object != nil {
				c.told[ref] = true
				update.ObjectSet = append(update.ObjectSet, *object)
			}
		}
		if len(update.ObjectSet) > 0 {
			set.FilterSet = append(set.FilterSet, update)
		}
	}
	if len(set.FilterSet) == 0 {
		return nil
	}
	return set
}

// object tells of an object that is new, or of these properties of one that was told before; nil where there is nothing to tell.
func (c *PropertyCollector) object(
	ctx *simulator.Context, filter *simulator.PropertyFilter, ref types.ManagedObjectReference, names []string,
) *types.ObjectUpdate {
	spec := types.PropertyFilterSpec{PropSet: filter.Spec.PropSet, ObjectSet: []types.ObjectSpec{{Obj: ref}}}
	read, ok := c.RetrievePropertiesEx(ctx, &types.RetrievePropertiesEx{
		This: c.Self, SpecSet: []types.PropertyFilterSpec{spec},
	}).(*methods.RetrievePropertiesExBody)
	if !ok || read.Res == nil || len(read.Res.Returnval.Objects) == 0 {
		// It went: that is told by itself.
		return nil
	}
	values := map[string]types.AnyType{}
	for _, property := range read.Res.Returnval.Objects[0].PropSet {
		values[property.Name] = property.Val
	}
	update := types.ObjectUpdate{Obj: ref, Kind: types.ObjectUpdateKindModify}
	if !c.told[ref] {
		update.Kind = types.ObjectUpdateKindEnter
	}
	for _, wanted := range filter.Spec.PropSet {
		for _, path := range wanted.PathSet {
			value, there := values[path]
			switch {
			case wanted.Type != ref.Type:
			case update.Kind == types.ObjectUpdateKindEnter && !there:
			case update.Kind == types.ObjectUpdateKindModify && !slices.ContainsFunc(names, within(path)):
			case there:
				update.ChangeSet = append(update.ChangeSet, types.PropertyChange{Name: path, Op: types.PropertyChangeOpAssign, Val: value})
			default:
				update.ChangeSet = append(update.ChangeSet, types.PropertyChange{Name: path, Op: types.PropertyChangeOpRemove})
			}
		}
	}
	if len(update.ChangeSet) == 0 && update.Kind == types.ObjectUpdateKindModify {
		return nil
	}
	return &update
}

// within tells whether a change of a property changes another: it is that one, a part of it, or what it is a part of.
func within(path string) func(string) bool {
	below := func(part, whole string) bool {
		rest, ok := strings.CutPrefix(part, whole)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return func(changed string) bool { return below(path, changed) || below(changed, path) }
}

// listed are the objects that a filter's views hold, each once.
func listed(ctx *simulator.Context, filter *simulator.PropertyFilter) []types.ManagedObjectReference {
	seen := map[types.ManagedObjectReference]bool{}
	var all []types.ManagedObjectReference
	for _, spec := range filter.Spec.ObjectSet {
		view, ok := ctx.Session.Get(spec.Obj).(*ListView)
		if !ok {
			continue
		}
		ctx.WithLock(view.Self, func() {
			for _, ref := range view.View {
				if !seen[ref] {
					seen[ref] = true
					all = append(all, ref)
				}
			}
		})
	}
	return all
}

// ofListsAlone are the collector's filters, where each looks at list views and nothing else.
func (c *PropertyCollector) ofListsAlone(ctx *simulator.Context) ([]*simulator.PropertyFilter, bool) {
	var filters []*simulator.PropertyFilter
	for _, ref := range c.Filter {
		filter, ok := ctx.Session.Get(ref).(*simulator.PropertyFilter)
		if !ok || slices.ContainsFunc(filter.Spec.ObjectSet, func(spec types.ObjectSpec) bool { return spec.Obj.Type != "ListView" }) {
			return nil, false
		}
		filters = append(filters, filter)
	}
	return filters, true
}

func (c *PropertyCollector) note(ref types.ManagedObjectReference, names ...string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.news == nil {
		c.news = map[types.ManagedObjectReference][]string{}
	}
	c.news[ref] = append(c.news[ref], names...)
}

// ofLists notes what comes to list views and their members.
type ofLists struct {
	*PropertyCollector
}

// PutObject does nothing: what was made a moment ago is in no view.
func (*ofLists) PutObject(*simulator.Context, mo.Reference) {}

func (c *ofLists) UpdateObject(_ *simulator.Context, object mo.Reference, changes []types.PropertyChange) {
	if ref := object.Reference(); ref.Type == "ListView" || watched.has(ref) {
		names := make([]string, 0, len(changes))
		for _, change := range changes {
			names = append(names, change.Name)
		}
		c.note(ref, names...)
	}
}

func (c *ofLists) RemoveObject(_ *simulator.Context, ref types.ManagedObjectReference) {
	if watched.has(ref) {
		c.note(ref, "")
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
