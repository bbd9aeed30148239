package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	configNamespace = "kite"
	configName      = "kite-runtime-config"
	condition       = "NamespaceReady"
	byNamespace     = "spec.namespace"
	lookAgain       = 180 * time.Second
	terminating     = 5 * time.Second
)

var (
	dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	reserved = []string{
		"default", "kite", "cdi", "kubevirt", "longhorn-system", "cert-manager", "traefik", "ingress-nginx", "olm", "operators",
	}
)

// UserReconciler gives every user a namespace of their own, isolated and limited.
type UserReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
}

// verdict is how far a user's namespace is.
type verdict struct {
	phase, reason, message string
	again                  time.Duration
}

func (r *UserReconciler) setUp(manager ctrl.Manager, workers int) error {
	namespaceOf := func(object client.Object) []string { return []string{object.(*KiteUser).Spec.Namespace} }
	if err := manager.GetFieldIndexer().IndexField(context.Background(), &KiteUser{}, byNamespace, namespaceOf); err != nil {
		return err
	}
	// What happens in a namespace, or to it, concerns the users who name it.
	inNamespace := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		return r.usersOf(ctx, object.GetNamespace())
	})
	theNamespace := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		return r.usersOf(ctx, object.GetName())
	})
	everybody := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return r.users(ctx)
	})
	changed := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))
	marked := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	return ctrl.NewControllerManagedBy(manager).
		For(&KiteUser{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, theNamespace, marked).
		Watches(&networkingv1.NetworkPolicy{}, inNamespace, changed).
		// A quota has no generation: its status changes with every pod, so the specification is compared.
		Watches(&corev1.ResourceQuota{}, inNamespace, builder.WithPredicates(quotaSpecChanged())).
		Watches(&corev1.ConfigMap{}, everybody).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

func (r *UserReconciler) usersOf(ctx context.Context, namespace string) []reconcile.Request {
	return r.users(ctx, client.MatchingFields{byNamespace: namespace})
}

func (r *UserReconciler) users(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var users KiteUserList
	if err := r.List(ctx, &users, options...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list users")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(users.Items))
	for _, user := range users.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: user.Name}})
	}
	return requests
}

// Reconcile brings a user's namespace about, and says in the status how far it got.
func (r *UserReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var user KiteUser
	if err := r.Get(ctx, request.NamespacedName, &user); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !user.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.goes(ctx, &user)
	}
	if !controllerutil.ContainsFinalizer(&user, finalizer) {
		before := user.DeepCopyObject().(*KiteUser)
		controllerutil.AddFinalizer(&user, finalizer)
		if err := r.Patch(ctx, &user, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	found, err := r.bringAbout(ctx, &user)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: found.again}, r.tell(ctx, &user, found)
}

// bringAbout applies what a user is to have.
func (r *UserReconciler) bringAbout(ctx context.Context, user *KiteUser) (verdict, error) {
	name := user.Spec.Namespace
	switch {
	case !dnsLabel.MatchString(name):
		return verdict{"Failed", "InvalidSpec", "spec.namespace: not a DNS label (1 to 63 of a-z, 0-9 and -)", 0}, nil
	case slices.Contains(reserved, name) || strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "openshift-"):
		return verdict{"Failed", "NamespaceReserved", fmt.Sprintf("the name %s belongs to the platform", name), 0}, nil
	}
	var config corev1.ConfigMap
	if err := r.Get(ctx, types.NamespacedName{Namespace: configNamespace, Name: configName}, &config); client.IgnoreNotFound(err) != nil {
		return verdict{}, err
	}
	var namespace corev1.Namespace
	switch err := r.Get(ctx, types.NamespacedName{Name: name}, &namespace); {
	case apierrors.IsNotFound(err):
		if err := r.Create(ctx, newNamespace(user)); err != nil && !apierrors.IsAlreadyExists(err) {
			return verdict{}, err
		}
	case err != nil:
		return verdict{}, err
	case !namespace.DeletionTimestamp.IsZero():
		return verdict{"Pending", "NamespaceTerminating", fmt.Sprintf("waiting until the old namespace %s is gone", name), terminating}, nil
	case namespace.Labels[managedBy] != ours:
		return verdict{"Failed", "NamespaceNotManaged", fmt.Sprintf("the namespace %s exists and is not Kite's", name), lookAgain}, nil
	}
	if err := r.isolate(ctx, name); err != nil {
		return verdict{}, err
	}
	message := fmt.Sprintf("the namespace %s, its network policies and its quota are in place", name)
	return verdict{"Ready", "Reconciled", message, 0}, nil
}

// isolate sees to the policies and the quota; each is written only where the cache shows that it differs.
func (r *UserReconciler) isolate(ctx context.Context, namespace string) error {
	for name, spec := range map[string]networkingv1.NetworkPolicySpec{ingressPolicy: ingressSpec(), egressPolicy: egressSpec()} {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if _, err := controllerutil.CreateOrPatch(ctx, r.Client, policy, func() error {
			mark(policy)
			if !equality.Semantic.DeepEqual(policy.Spec, spec) {
				policy.Spec = spec
			}
			return nil
		}); err != nil {
			return err
		}
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: quotaName}}
	_, err := controllerutil.CreateOrPatch(ctx, r.Client, quota, func() error {
		mark(quota)
		if want := quotaSpec(); !equality.Semantic.DeepEqual(quota.Spec, want) {
			quota.Spec = want
		}
		return nil
	})
	return err
}

// tell writes the status where it differs.
func (r *UserReconciler) tell(ctx context.Context, user *KiteUser, found verdict) error {
	before := user.DeepCopyObject().(*KiteUser)
	status := metav1.ConditionFalse
	if found.phase == "Ready" {
		status = metav1.ConditionTrue
		user.Status.ObservedNamespace = user.Spec.Namespace
	}
	user.Status.Phase, user.Status.Message, user.Status.ObservedGeneration = found.phase, found.message, user.Generation
	meta.SetStatusCondition(&user.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: found.reason, Message: found.message, ObservedGeneration: user.Generation,
	})
	if equality.Semantic.DeepEqual(before.Status, user.Status) {
		return nil
	}
	return client.IgnoreNotFound(r.Status().Patch(ctx, user, client.MergeFrom(before)))
}

// goes takes back what isolates the namespace, where no other user names it, and lets the user go.
func (r *UserReconciler) goes(ctx context.Context, user *KiteUser) error {
	if !controllerutil.ContainsFinalizer(user, finalizer) {
		return nil
	}
	var others KiteUserList
	if err := r.List(ctx, &others, client.MatchingFields{byNamespace: user.Spec.Namespace}); err != nil {
		return err
	}
	shared := slices.ContainsFunc(others.Items, func(other KiteUser) bool {
		return other.Name != user.Name && other.DeletionTimestamp.IsZero()
	})
	if !shared {
		at := metav1.ObjectMeta{Namespace: user.Spec.Namespace}
		for _, object := range []client.Object{
			&corev1.ResourceQuota{ObjectMeta: named(at, quotaName)},
			&networkingv1.NetworkPolicy{ObjectMeta: named(at, egressPolicy)},
			&networkingv1.NetworkPolicy{ObjectMeta: named(at, ingressPolicy)},
		} {
			if err := r.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	before := user.DeepCopyObject().(*KiteUser)
	controllerutil.RemoveFinalizer(user, finalizer)
	return client.IgnoreNotFound(r.Patch(ctx, user, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}
