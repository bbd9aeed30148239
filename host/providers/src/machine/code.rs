//! The codes of the driver contract: what each is called, and what kind of failure it is.

use std::fmt;

use evenkeel_core::contract::FailureKind;

/// Why a driver did not do what it was told. The numbers are those of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// Somebody called it off.
    Canceled = 1,
    /// Nobody knows.
    Unknown = 2,
    /// What it was told makes no sense.
    InvalidArgument = 3,
    /// It took too long.
    DeadlineExceeded = 4,
    /// There is no such thing.
    NotFound = 5,
    /// There is one already.
    AlreadyExists = 6,
    /// The account may not do that.
    PermissionDenied = 7,
    /// There is no room.
    ResourceExhausted = 8,
    /// It cannot be done as things are.
    FailedPrecondition = 9,
    /// Somebody else was faster.
    Aborted = 10,
    /// More is there than may be, as several VMs of one machine.
    OutOfRange = 11,
    /// The driver cannot do that.
    Unimplemented = 12,
    /// The far end is broken.
    Internal = 13,
    /// The far end does not answer.
    Unavailable = 14,
    /// What was there is lost.
    DataLoss = 15,
    /// The credentials are wrong.
    Unauthenticated = 16,
    /// The VM is there but was not initialised.
    Uninitialized = 17,
}

impl Code {
    /// Every code, by number.
    pub const ALL: [Self; 17] = [
        Self::Canceled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
        Self::Uninitialized,
    ];

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.to_string() == name)
    }

    /// What kind of failure it is, in the words of the plugin contract.
    pub fn kind(self) -> FailureKind {
        match self {
            Self::Canceled
            | Self::Unknown
            | Self::DeadlineExceeded
            | Self::ResourceExhausted
            | Self::Aborted
            | Self::Unimplemented
            | Self::Internal
            | Self::Unavailable
            | Self::Uninitialized => FailureKind::Transient,
            Self::InvalidArgument | Self::FailedPrecondition | Self::OutOfRange | Self::DataLoss => {
                FailureKind::Invalid
            }
            Self::PermissionDenied | Self::Unauthenticated => FailureKind::Denied,
            Self::NotFound => FailureKind::NotFound,
            Self::AlreadyExists => FailureKind::Conflict,
        }
    }

    /// Seconds before which another try is no use; none to leave that to who asks.
    pub fn retry_after_seconds(self) -> Option<u64> {
        match self {
            Self::ResourceExhausted => Some(600),
            Self::Canceled | Self::Unimplemented | Self::Internal => Some(180),
            Self::Unknown
            | Self::InvalidArgument
            | Self::DeadlineExceeded
            | Self::NotFound
            | Self::AlreadyExists
            | Self::PermissionDenied
            | Self::FailedPrecondition
            | Self::Aborted
            | Self::OutOfRange
            | Self::Unavailable
            | Self::DataLoss
            | Self::Unauthenticated
            | Self::Uninitialized => None,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The text form in which a code crosses borders.
pub fn text(code: Code, message: &str) -> String {
    format!("machine codes error: code = [{code}] message = [{message}]")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn each_code_is_a_kind_of_failure_with_its_time() {
        let lines: Vec<String> = Code::ALL
            .into_iter()
            .map(|code| format!("{} {code} {:?} {:?}", code as u8, code.kind(), code.retry_after_seconds()))
            .collect();
        expect![[r#"
            1 Canceled Transient Some(180)
            2 Unknown Transient None
            3 InvalidArgument Invalid None
            4 DeadlineExceeded Transient None
            5 NotFound NotFound None
            6 AlreadyExists Conflict None
            7 PermissionDenied Denied None
            8 ResourceExhausted Transient Some(600)
            9 FailedPrecondition Invalid None
            10 Aborted Transient None
            11 OutOfRange Invalid None
            12 Unimplemented Transient Some(180)
            13 Internal Transient Some(180)
            14 Unavailable Transient None
            15 DataLoss Invalid None
            16 Unauthenticated Denied None
            17 Uninitialized Transient None
        "#]]
        .assert_eq(&(lines.join("\n") + "\n"));
    }

    #[test]
    fn a_code_is_found_by_its_name_alone() {
        assert_eq!(Code::named("Unavailable"), Some(Code::Unavailable));
        assert_eq!(Code::named("unavailable"), None);
        assert_eq!(text(Code::Internal, "no"), "machine codes error: code = [Internal] message = [no]");
    }
}
