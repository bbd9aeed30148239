//! Scenarios on virtual time: the whole host on the embedded Kubernetes.
