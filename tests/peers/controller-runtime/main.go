// A native operator for Kite's users, as controller-runtime's documents advise to write one: objects are read from
// caches that hold what is needed and no more, and written only where they differ.
package main

import (
	"flag"
	"os"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	workers := flag.Int("workers", 8, "users that are reconciled at once")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&zap.Options{})))
	if err := run(*workers); err != nil {
		ctrl.Log.Error(err, "cannot run")
		os.Exit(1)
	}
}

func run(workers int) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := addToScheme(scheme); err != nil {
		return err
	}
	managed := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{managedBy: ours})}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			// Nobody here looks at who manages which field.
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&networkingv1.NetworkPolicy{}: managed,
				&corev1.ResourceQuota{}:       managed,
				&corev1.ConfigMap{}: {
					Namespaces: map[string]cache.Config{configNamespace: {
						FieldSelector: fields.OneTermEqualSelector("metadata.name", configName),
					}},
				},
			},
		},
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	reconciler := &UserReconciler{Client: manager.GetClient(), Scheme: scheme, Recorder: manager.GetEventRecorder("kite")}
	if err := reconciler.setUp(manager, workers); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
