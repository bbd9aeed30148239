//! User data: what a machine is told at its first boot, and what in it is each machine's own.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::token::Token;

/// The key of the Secrets.
const KEY: &str = "userData";
/// Stands for the name of the machine.
const MACHINE_NAME: Placeholder =
    Placeholder { plain: "<<MACHINE_NAME>>", encoded: "%3C%3CMACHINE_NAME%3E%3E" };
/// Stands for a token by which the machine's kubelet may join the cluster.
const TOKEN: Placeholder = Placeholder { plain: BOOTSTRAP_TOKEN, encoded: "%3C%3CBOOTSTRAP_TOKEN%3E%3E" };
/// As it stands in user data.
pub const BOOTSTRAP_TOKEN: &str = "<<BOOTSTRAP_TOKEN>>";

/// A word that stands for something of the machine's own: as it is, or as it is written in the URLs of an Ignition file.
/// What takes its place looks the same in both.
struct Placeholder {
    plain: &'static str,
    encoded: &'static str,
}

impl Placeholder {
    fn is_in(&self, text: &str) -> bool {
        text.contains(self.plain) || text.contains(self.encoded)
    }

    fn replaced(&self, text: &str, by: &str) -> String {
        text.replace(self.plain, by).replace(self.encoded, by)
    }
}

/// What the Secrets of a class hold, with the user data in the words of one machine: its name, and the token that it joins
/// with where one is given. All of it is base64.
pub fn of_machine<'d>(
    secret_data: &'d BTreeMap<String, String>,
    machine: &str,
    token: Option<&Token>,
) -> Cow<'d, BTreeMap<String, String>> {
    let own =
        text(secret_data).filter(|text| MACHINE_NAME.is_in(text) || (token.is_some() && TOKEN.is_in(text)));
    let Some(text) = own else { return Cow::Borrowed(secret_data) };
    let mut text = MACHINE_NAME.replaced(&text, machine);
    if let Some(token) = token {
        text = TOKEN.replaced(&text, token.text());
    }
    let mut own = secret_data.clone();
    own.insert(KEY.to_owned(), STANDARD.encode(text));
    Cow::Owned(own)
}

/// Whether there is any, without which a VM would not know what to become.
pub fn is_there(secret_data: &BTreeMap<String, String>) -> bool {
    secret_data.get(KEY).is_some_and(|text| !text.is_empty())
}

/// Whether it wants a token for the machine to join with.
pub fn wants_token(secret_data: &BTreeMap<String, String>) -> bool {
    text(secret_data).is_some_and(|text| TOKEN.is_in(&text))
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
            ("password".to_owned(), STANDARD.encode(MACHINE_NAME.plain)),
        ])
    }

    #[test]
    fn the_name_of_the_machine_takes_its_place_in_the_user_data_and_nowhere_else() {
        let given = data(b"hostname: <<MACHINE_NAME>>\nalias: <<MACHINE_NAME>>.local\n");
        assert_eq!(*of_machine(&given, "m1", None), data(b"hostname: m1\nalias: m1.local\n"));
    }

    #[test]
    fn what_names_no_machine_and_what_is_no_text_stays_as_it_is() {
        let token = Token::of("abcdef", "0123456789abcdef");
        for given in [data(b"#cloud-config"), data(&[0x1f, 0x8b, 0xff]), BTreeMap::new()] {
            assert!(matches!(of_machine(&given, "m1", Some(&token)), Cow::Borrowed(same) if *same == given));
        }
    }

    #[test]
    fn the_token_takes_its_place_where_one_is_given() {
        let given = data(b"kubeadm join --token <<BOOTSTRAP_TOKEN>>");
        let token = Token::of("abcdef", "0123456789abcdef");
        assert_eq!(
            *of_machine(&given, "m1", Some(&token)),
            data(b"kubeadm join --token abcdef.0123456789abcdef")
        );
        assert_eq!(*of_machine(&given, "m1", None), given);
    }

    #[test]
    fn the_urls_of_an_ignition_file_are_filled_in_too() {
        let given = data(b"data:,%3C%3CMACHINE_NAME%3E%3E%20%3C%3CBOOTSTRAP_TOKEN%3E%3E");
        let token = Token::of("abcdef", "0123456789abcdef");
        assert!(wants_token(&given));
        assert_eq!(*of_machine(&given, "m1", Some(&token)), data(b"data:,m1%20abcdef.0123456789abcdef"));
    }

    #[test]
    fn a_wish_for_a_token_is_seen() {
        assert!(wants_token(&data(b"kubeadm join --token <<BOOTSTRAP_TOKEN>>")));
        assert!(!wants_token(&data(b"kubeadm join --token abcdef.0123456789abcdef")));
    }
}
