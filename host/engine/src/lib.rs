//! The loop of the Evenkeel host: queue, workers, controllers, journal.
