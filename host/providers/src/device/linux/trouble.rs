//! What went wrong on the machine, as a failure that names the thing and is of the right kind.

use std::io;

use evenkeel_core::contract::{Failure, FailureKind};
use rustix::io::Errno;

use super::root::PathError;

/// Content that is at fault: no retry before another version.
pub(super) fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Invalid, message)
}

/// Worth another try.
pub(super) fn transient(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Transient, message)
}

/// Not allowed.
pub(super) fn denied(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Denied, message)
}

/// Something that has to be there is not.
pub(super) fn not_found(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::NotFound, message)
}

/// A trouble with a file that a spec is about: a full disk or a folder in the way stays for this version.
pub(super) fn with_file(what: &str, element: &str, error: &io::Error) -> Failure {
    let kind = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(
            Errno::INTR
            | Errno::AGAIN
            | Errno::MFILE
            | Errno::NFILE
            | Errno::NOMEM
            | Errno::BUSY
            | Errno::TXTBSY
            | Errno::STALE
            | Errno::TIMEDOUT,
        ) => FailureKind::Transient,
        Some(Errno::ACCESS | Errno::PERM) => FailureKind::Denied,
        Some(Errno::NOENT) => FailureKind::NotFound,
        _ => FailureKind::Invalid,
    };
    Failure::new(kind, told(what, element, error))
}

/// A trouble with a file of our own: whatever it is, it has to be tried again.
pub(super) fn with_state(what: &str, element: &str, error: &io::Error) -> Failure {
    transient(told(what, element, error))
}

/// A path that is none.
pub(super) fn with_path(error: &PathError) -> Failure {
    invalid(error.to_string())
}

fn told(what: &str, element: &str, error: &io::Error) -> String {
    let cause = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC) => "the disk is full".to_owned(),
        Some(Errno::DQUOT) => "the quota is used up".to_owned(),
        Some(Errno::ROFS) => "the file system is read-only".to_owned(),
        Some(Errno::NOTDIR) => "something that is no folder is in the way".to_owned(),
        Some(Errno::ISDIR) => "a folder is in the way".to_owned(),
        // The number is for programmers.
        Some(_) => error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase(),
        None => error.to_string(),
    };
    format!("cannot {what} {element}: {cause}")
}
