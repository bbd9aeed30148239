//! Where a server listens, as the flags of controllers have it.

use std::fmt;
use std::str::FromStr;

/// The value of `--metrics-bind-address` and the like: `HOST:PORT`, `:PORT` for every address of the machine, `0` for
/// no server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindAddress(Option<String>);

/// Why a text is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not HOST:PORT, :PORT, or 0 for none")]
pub struct AddressError {
    text: String,
}

impl BindAddress {
    /// What to listen on; none for no server.
    pub fn listen_on(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl FromStr for BindAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text == "0" {
            return Ok(Self(None));
        }
        let error = || AddressError { text: text.to_owned() };
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        port.parse::<u16>().map_err(|_| error())?;
        let open = host.starts_with('[');
        if open != host.ends_with(']') || (!open && host.contains(':')) {
            return Err(error());
        }
        // An IPv6 socket takes both kinds of address, where the machine has them.
        let host = if host.is_empty() { "[::]" } else { host };
        Ok(Self(Some(format!("{host}:{port}"))))
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_for_other_controllers() {
        let read = |text: &str| text.parse::<BindAddress>().map(|address| address.to_string());
        for (text, listens) in [
            (":8080", "[::]:8080"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("[::1]:8081", "[::1]:8081"),
            ("localhost:9", "localhost:9"),
            ("0", "0"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(listens), "{text}");
        }
        for text in ["", "8080", ":http", "::1:8080", "[::1:8080", ":70000"] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.ends_with("is not HOST:PORT, :PORT, or 0 for none"), "{error}");
        }
    }
}
