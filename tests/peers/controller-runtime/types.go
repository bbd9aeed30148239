package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KiteUser is the part of the kind that its reconciler reads and writes.
type KiteUser struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              KiteUserSpec   `json:"spec"`
	Status            KiteUserStatus `json:"status,omitempty"`
}

// KiteUserSpec names the namespace.
type KiteUserSpec struct {
	Username  string `json:"username,omitempty"`
	Namespace string `json:"namespace"`
}

// KiteUserStatus says how far the namespace got.
type KiteUserStatus struct {
	Phase              string             `json:"phase,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	ObservedNamespace  string             `json:"observedNamespace,omitempty"`
	Message            string             `json:"message,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// KiteUserList is a list of them.
type KiteUserList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KiteUser `json:"items"`
}

// DeepCopyInto copies all that is not a value.
func (in *KiteUser) DeepCopyInto(out *KiteUser) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(in.Status.Conditions))
		for i := range in.Status.Conditions {
			in.Status.Conditions[i].DeepCopyInto(&out.Status.Conditions[i])
		}
	}
}

// DeepCopyObject makes it a runtime.Object.
func (in *KiteUser) DeepCopyObject() runtime.Object {
	out := new(KiteUser)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject makes it a runtime.Object.
func (in *KiteUserList) DeepCopyObject() runtime.Object {
	out := &KiteUserList{TypeMeta: in.TypeMeta}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]KiteUser, len(in.Items))
	for i := range in.Items {
		in.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

var groupVersion = schema.GroupVersion{Group: "anacnu.com", Version: "v1"}

func addToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(groupVersion, &KiteUser{}, &KiteUserList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return nil
}
