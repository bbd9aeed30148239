package main

import (
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// failing takes a VM's place in the registry until one method is called: that call starts a task which has failed
// already, and the VM is itself again.
type failing struct {
	*simulator.VirtualMachine
	method string
	fault  types.LocalizedMethodFault
}

func (f *failing) failed(ctx *simulator.Context) types.ManagedObjectReference {
	name := strings.TrimSuffix(f.method, "_Task")
	task := simulator.CreateTask(f.VirtualMachine, strings.ToLower(name[:1])+name[1:], nil)
	now := time.Now()
	task.Info.State, task.Info.Error = types.TaskInfoStateError, &f.fault
	task.Info.StartTime, task.Info.CompleteTime = &now, &now
	reference := ctx.Map.Put(task).Reference()
	task.Info.Key, task.Info.Task = reference.Value, reference
	ctx.Map.Put(f.VirtualMachine)
	return reference
}

// CloneVMTask fails, where it is what is to.
func (f *failing) CloneVMTask(ctx *simulator.Context, r *types.CloneVM_Task) soap.HasFault {
	if f.method != "CloneVM_Task" {
		return f.VirtualMachine.CloneVMTask(ctx, r)
	}
	return &methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{Returnval: f.failed(ctx)}}
}

// ReconfigVMTask fails, where it is what is to.
func (f *failing) ReconfigVMTask(ctx *simulator.Context, r *types.ReconfigVM_Task) soap.HasFault {
	if f.method != "ReconfigVM_Task" {
		return f.VirtualMachine.ReconfigVMTask(ctx, r)
	}
	return &methods.ReconfigVM_TaskBody{Res: &types.ReconfigVM_TaskResponse{Returnval: f.failed(ctx)}}
}

// PowerOnVMTask fails, where it is what is to.
func (f *failing) PowerOnVMTask(ctx *simulator.Context, r *types.PowerOnVM_Task) soap.HasFault {
	if f.method != "PowerOnVM_Task" {
		return f.VirtualMachine.PowerOnVMTask(ctx, r)
	}
	return &methods.PowerOnVM_TaskBody{Res: &types.PowerOnVM_TaskResponse{Returnval: f.failed(ctx)}}
}

// PowerOffVMTask fails, where it is what is to.
func (f *failing) PowerOffVMTask(ctx *simulator.Context, r *types.PowerOffVM_Task) soap.HasFault {
	if f.method != "PowerOffVM_Task" {
		return f.VirtualMachine.PowerOffVMTask(ctx, r)
	}
	return &methods.PowerOffVM_TaskBody{Res: &types.PowerOffVM_TaskResponse{Returnval: f.failed(ctx)}}
}

// DestroyTask fails, where it is what is to.
func (f *failing) DestroyTask(ctx *simulator.Context, r *types.Destroy_Task) soap.HasFault {
	if f.method != "Destroy_Task" {
		return f.VirtualMachine.DestroyTask(ctx, r)
	}
	return &methods.Destroy_TaskBody{Res: &types.Destroy_TaskResponse{Returnval: f.failed(ctx)}}
}
