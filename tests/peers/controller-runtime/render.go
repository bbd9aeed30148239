package main

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	managedBy     = "kite.anacnu.com/managed-by"
	ours          = "kite-controller"
	createdFor    = "kite.anacnu.com/created-for"
	finalizer     = "kite.anacnu.com/kite-user-cleanup"
	ingressPolicy = "deny-from-other-namespaces"
	egressPolicy  = "tenant-isolation-egress"
	quotaName     = "kite-user-quota-policy"
)

func port(protocol corev1.Protocol, number int) networkingv1.NetworkPolicyPort {
	value := intstr.FromInt(number)
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &value}
}

func inNamespace(name string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{"kubernetes.io/metadata.name": name},
	}}
}

func anywhere(except ...string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: except}}
}

func ingressSpec() networkingv1.NetworkPolicySpec {
	open := func(number int) networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{
			From:  []networkingv1.NetworkPolicyPeer{anywhere()},
			Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, number)},
		}
	}
	return networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{
			{From: []networkingv1.NetworkPolicyPeer{
				{PodSelector: &metav1.LabelSelector{}}, inNamespace("kite"), inNamespace("cdi"),
			}},
			open(22),
			open(80),
		},
	}
}

func egressSpec() networkingv1.NetworkPolicySpec {
	dns := inNamespace("kube-system")
	dns.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}}
	to := func(peer networkingv1.NetworkPolicyPeer, ports ...networkingv1.NetworkPolicyPort) networkingv1.NetworkPolicyEgressRule {
		return networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{peer}, Ports: ports}
	}
	return networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress: []networkingv1.NetworkPolicyEgressRule{
			to(networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}}),
			to(inNamespace("kite")),
			to(inNamespace("cdi")),
			to(dns, port(corev1.ProtocolUDP, 53), port(corev1.ProtocolTCP, 53)),
			to(anywhere("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10")),
		},
	}
}

func quotaSpec() corev1.ResourceQuotaSpec {
	return corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		"requests.cpu":                      resource.MustParse("6"),
		"requests.memory":                   resource.MustParse("16Gi"),
		"persistentvolumeclaims":            resource.MustParse("10"),
		"count/virtualmachines.kubevirt.io": resource.MustParse("3"),
	}}
}
