//! Who logs in. No plugin, log or journal sees it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user, as in `controller@vsphere.local`.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).field("password", &"(struck out)").finish()
    }
}

/// Why there are no credentials: one sentence that names where they should be, and never what was found there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoCredentials(pub String);

/// Where credentials come from: asked at each login, so that a password changed there is taken up.
pub trait Credentials: Send + Sync {
    /// What to log in with now.
    fn get(&self) -> Pin<Box<dyn Future<Output = Result<Login, NoCredentials>> + Send + '_>>;
}

/// Credentials that stay: those of tests and of the simulated vCenter.
impl Credentials for Login {
    fn get(&self) -> Pin<Box<dyn Future<Output = Result<Login, NoCredentials>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(self.clone())))
    }
}
