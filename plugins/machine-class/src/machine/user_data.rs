//! User data: what a machine is told at its first boot, and what in it is each machine's own.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The key of the Secrets.
const KEY: &str = "userData";
/// Stands for the name of the machine.
const MACHINE_NAME: &str = "<<MACHINE_NAME>>";
/// Stands for a token by which the machine's kubelet may join the cluster. It would have to be random, and nothing here is.
pub const BOOTSTRAP_TOKEN: &str = "<<BOOTSTRAP_TOKEN>>";

/// What the Secrets of a class hold, with the user data in the words of one machine. Both are base64.
pub fn of_machine<'d>(
    secret_data: &'d BTreeMap<String, String>,
    machine: &str,
) -> Cow<'d, BTreeMap<String, String>> {
    match text(secret_data).filter(|text| text.contains(MACHINE_NAME)) {
        None => Cow::Borrowed(secret_data),
        Some(text) => {
            let mut own = secret_data.clone();
            own.insert(KEY.to_owned(), STANDARD.encode(text.replace(MACHINE_NAME, machine)));
            Cow::Owned(own)
        }
    }
}

/// Whether there is any, without which a VM would not know what to become.
pub fn is_there(secret_data: &BTreeMap<String, String>) -> bool {
    secret_data.get(KEY).is_some_and(|text| !text.is_empty())
}

/// Whether it wants a token for the machine to join with.
pub fn wants_token(secret_data: &BTreeMap<String, String>) -> bool {
    text(secret_data).is_some_and(|text| text.contains(BOOTSTRAP_TOKEN))
}

/// The user data as text; none where it is something else, such as an archive, in which nothing is replaced.
fn text(secret_data: &BTreeMap<String, String>) -> Option<String> {
    String::from_utf8(STANDARD.decode(secret_data.get(KEY)?).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(user_data: &[u8]) -> BTreeMap<String, String> {
        BTreeMap::from([
            (KEY.to_owned(), STANDARD.encode(user_data)),
            ("password".to_owned(), STANDARD.encode(MACHINE_NAME)),
        ])
    }

    #[test]
    fn the_name_of_the_machine_takes_its_place_in_the_user_data_and_nowhere_else() {
        let given = data(b"hostname: <<MACHINE_NAME>>\nalias: <<MACHINE_NAME>>.local\n");
        assert_eq!(*of_machine(&given, "m1"), data(b"hostname: m1\nalias: m1.local\n"));
    }

    #[test]
    fn what_names_no_machine_and_what_is_no_text_stays_as_it_is() {
        for given in [data(b"#cloud-config"), data(&[0x1f, 0x8b, 0xff]), BTreeMap::new()] {
            assert!(matches!(of_machine(&given, "m1"), Cow::Borrowed(same) if *same == given));
        }
    }

    #[test]
    fn a_wish_for_a_token_is_seen() {
        assert!(wants_token(&data(b"kubeadm join --token <<BOOTSTRAP_TOKEN>>")));
        assert!(!wants_token(&data(b"kubeadm join --token abcdef.0123456789abcdef")));
    }
}
