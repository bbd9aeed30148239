//! Kubernetes IO of the Evenkeel host: watches, cache, writes, events.
