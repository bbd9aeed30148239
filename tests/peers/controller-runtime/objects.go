package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

func newNamespace(user *KiteUser) *corev1.Namespace {
	name := user.Spec.Namespace
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{"name": name, managedBy: ours},
		Annotations: map[string]string{createdFor: user.Name + "/" + string(user.UID)},
	}}
}

// mark labels an object as one of ours.
func mark(object client.Object) {
	labels := object.GetLabels()
	if labels[managedBy] == ours {
		return
	}
	if labels == nil {
		labels = map[string]string{}
	}
	labels[managedBy] = ours
	object.SetLabels(labels)
}

func named(at metav1.ObjectMeta, name string) metav1.ObjectMeta {
	at.Name = name
	return at
}

// quotaSpecChanged lets a change of a quota through that is not one of its status alone.
func quotaSpecChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(change event.UpdateEvent) bool {
		before, after := change.ObjectOld.(*corev1.ResourceQuota), change.ObjectNew.(*corev1.ResourceQuota)
		return !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
			!equality.Semantic.DeepEqual(before.Labels, after.Labels)
	}}
}
