package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// control does to the simulator what nobody can do over the wire.
type control struct {
	model *simulator.Model
	front *front
}

func (c *control) handler() http.Handler {
	mux := http.NewServeMux()
	for name, command := range map[string]func(url.Values) error{
		"task-delay": c.taskDelay, "forget-task": c.forgetTask, "guest-ip": c.guestIP, "fail-task": c.failTask,
		"fault": c.fault, "drop-sessions": c.dropSessions, "trouble": c.trouble,
	} {
		mux.HandleFunc("POST /control/"+name, func(w http.ResponseWriter, r *http.Request) {
			if err := command(r.URL.Query()); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		})
	}
	mux.HandleFunc("GET /control/calls", func(w http.ResponseWriter, _ *http.Request) {
		c.front.mu.Lock()
		defer c.front.mu.Unlock()
		_ = json.NewEncoder(w).Encode(c.front.calls)
	})
	mux.HandleFunc("GET /control/since-task", func(w http.ResponseWriter, r *http.Request) {
		since, err := c.sinceTask(r.URL.Query().Get("id"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(since.Microseconds())
	})
	return mux
}

// sinceTask tells how long ago a task ended.
func (c *control) sinceTask(id string) (time.Duration, error) {
	ctx := c.context()
	task, ok := ctx.Map.Get(types.ManagedObjectReference{Type: "Task", Value: id}).(*simulator.Task)
	if !ok {
		return 0, fmt.Errorf("no task %q", id)
	}
	var ended *time.Time
	ctx.WithLock(task, func() { ended = task.Info.CompleteTime })
	if ended == nil {
		return 0, fmt.Errorf("task %s has not ended", id)
	}
	return time.Since(*ended), nil
}

func (c *control) context() *simulator.Context { return c.model.Service.Context }

// taskDelay has tasks take so many milliseconds, by their names: CloneVm, ReconfigVm, PowerOn, PowerOff, Destroy.
func (c *control) taskDelay(query url.Values) error {
	delays := map[string]int{"LockHandoff": 0}
	for name, values := range query {
		millis, err := strconv.Atoi(values[0])
		if err != nil {
			return err
		}
		delays[name] = millis
	}
	simulator.TaskDelay = simulator.DelayConfig{MethodDelay: delays}
	return nil
}

func (c *control) forgetTask(query url.Values) error {
	c.context().Map.Remove(c.context(), types.ManagedObjectReference{Type: "Task", Value: query.Get("id")})
	return nil
}

func (c *control) machine(query url.Values) (*simulator.VirtualMachine, error) {
	reference := types.ManagedObjectReference{Type: "VirtualMachine", Value: query.Get("vm")}
	machine, ok := c.context().Map.Get(reference).(*simulator.VirtualMachine)
	if !ok {
		return nil, fmt.Errorf("no VM %q", query.Get("vm"))
	}
	return machine, nil
}

// guestIP has the guest report addresses on its n-th card.
func (c *control) guestIP(query url.Values) error {
	machine, err := c.machine(query)
	if err != nil {
		return err
	}
	card, _ := strconv.Atoi(query.Get("card"))
	ctx := c.context()
	ctx.WithLock(machine, func() {
		cards := append([]types.GuestNicInfo(nil), machine.Guest.Net...)
		if card >= len(cards) {
			err = fmt.Errorf("the guest has %d cards", len(cards))
			return
		}
		cards[card].IpAddress = query["ip"]
		ctx.Update(machine, []types.PropertyChange{{Name: "guest.net", Val: cards}})
	})
	return err
}

// fault has vCenter refuse calls of a method.
func (c *control) fault(query url.Values) error {
	kinds := map[string]simulator.FaultType{
		"NoPermission": simulator.FaultTypeNoPermission, "NotAuthenticated": simulator.FaultTypeNotAuthenticated,
		"InvalidState": simulator.FaultTypeInvalidState, "ResourceInUse": simulator.FaultTypeResourceInUse,
	}
	kind, ok := kinds[query.Get("type")]
	if !ok {
		return fmt.Errorf("no fault %q", query.Get("type"))
	}
	times, err := strconv.Atoi(query.Get("times"))
	if err != nil {
		return err
	}
	c.model.Service.AddFaultRule(&simulator.FaultInjectionRule{
		MethodName: query.Get("method"), ObjectType: "*", ObjectName: "*", Probability: 1, Enabled: true,
		MaxCount: times, FaultType: kind, Message: query.Get("message"),
	})
	return nil
}

func (c *control) dropSessions(url.Values) error {
	c.front.mu.Lock()
	defer c.front.mu.Unlock()
	// It refuses to end the session of whoever asks: nobody's, here.
	ctx := &simulator.Context{Session: new(simulator.Session), Map: c.context().Map}
	for id := range c.front.sessions {
		c.context().Map.SessionManager().TerminateSession(ctx, &types.TerminateSession{SessionId: []string{id}})
	}
	clear(c.front.sessions)
	return nil
}

func (c *control) trouble(query url.Values) error {
	times, err := strconv.Atoi(query.Get("times"))
	if err != nil {
		return err
	}
	return c.front.addTrouble(query.Get("kind"), query.Get("method"), times)
}

// failTask has the next call of a method on a VM start a task that has failed already.
func (c *control) failTask(query url.Values) error {
	machine, err := c.machine(query)
	if err != nil {
		return err
	}
	kind, ok := types.TypeFunc()(query.Get("fault"))
	if !ok {
		return fmt.Errorf("no fault %q", query.Get("fault"))
	}
	fault, ok := reflect.New(kind).Interface().(types.BaseMethodFault)
	if !ok {
		return fmt.Errorf("%q is no fault", query.Get("fault"))
	}
	method := query.Get("method")
	if !strings.HasSuffix(method, "_Task") {
		return fmt.Errorf("%q starts no task", method)
	}
	c.context().Map.Put(&failing{
		VirtualMachine: machine, method: method,
		fault: types.LocalizedMethodFault{Fault: fault, LocalizedMessage: query.Get("message")},
	})
	return nil
}
