//! Kite: users, namespaces, virtual machines and their disks.
