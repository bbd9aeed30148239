//! A text that no log, error or test output shows.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A password or a hash of one. It serializes as it is, but never prints.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Hidden(String);

impl Hidden {
    /// The text, for who has to compute with it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Hidden {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
