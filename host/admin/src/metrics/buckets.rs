//! The sizes by which histograms count, all in seconds.

use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

/// As controller-runtime's.
pub(super) fn reconcile() -> Histogram {
    Histogram::new([
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
        1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0,
        40.0, 50.0, 60.0,
    ])
}

/// As controller-runtime's: from ten nanoseconds to a quarter of an hour.
pub(super) fn workqueue() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 12))
}

/// As client-go's.
pub(super) fn requests() -> Histogram {
    Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0])
}

/// From ten microseconds to five seconds, doubling: a call of a plugin takes far less than the 5 ms at which the
/// usual buckets begin.
pub(super) fn fine() -> Histogram {
    Histogram::new(exponential_buckets(1e-5, 2.0, 20))
}

/// From ten milliseconds, for a plugin that was compiled before, to forty seconds.
pub(super) fn compile() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 13))
}
