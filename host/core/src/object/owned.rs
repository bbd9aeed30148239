//! What a field manager owns, so written that it can be read without what the others own.
//!
//! In `fieldsV1` an empty node is a value with one owner, as a scalar or an atomic map is, or else a map that is owned itself while
//! every member of it is somebody else's. Which of the two it is shows in what the others own, and that is not kept. So the
//! second is written as a node with `.` alone, which the API server never writes.

use std::borrow::Cow;

use super::parse::push_text;
use crate::tree::Tree;

/// What a manager owns beside others. The text is as it was wherever nothing is to be told apart, or where it is no `fieldsV1`.
pub(super) fn beside<'j>(fields: &'j str, others: &[&str]) -> Cow<'j, str> {
    let others: Vec<Tree<'_>> = others.iter().filter_map(|fields| Tree::parse(fields)).collect();
    let others: Vec<&Tree<'_>> = others.iter().collect();
    if others.is_empty() {
        return fields.into();
    }
    match Tree::parse(fields) {
        Some(ours) if is_split(&ours, &others) => {
            let mut text = String::with_capacity(fields.len() + 8);
            write(&ours, &others, &mut text);
            text.into()
        }
        _ => fields.into(),
    }
}

/// Whether somewhere the members of what is owned here are somebody else's.
fn is_split(ours: &Tree<'_>, others: &[&Tree<'_>]) -> bool {
    ours.members().unwrap_or_default().iter().any(|(key, node)| {
        let there = below(others, key);
        !there.is_empty() && (is_emptied(key, node, &there) || is_split(node, &there))
    })
}

fn write(ours: &Tree<'_>, others: &[&Tree<'_>], out: &mut String) {
    out.push('{');
    for (at, (key, node)) in ours.members().unwrap_or_default().iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_text(out, key);
        out.push(':');
        let there = below(others, key);
        if is_emptied(key, node, &there) {
            out.push_str(r#"{".":{}}"#);
        } else {
            write(node, &there, out);
        }
    }
    out.push('}');
}

fn below<'o, 'j>(others: &[&'o Tree<'j>], key: &str) -> Vec<&'o Tree<'j>> {
    others.iter().filter_map(|other| other.get(key)).collect()
}

/// Whether nothing is owned below this node while one of the others owns something there.
fn is_emptied(key: &str, node: &Tree<'_>, others: &[&Tree<'_>]) -> bool {
    let has_members =
        |other: &&Tree<'_>| other.members().is_some_and(|members| members.iter().any(|(key, _)| key != "."));
    key != "." && node.members().is_some_and(<[_]>::is_empty) && others.iter().any(has_members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_whose_members_are_somebody_elses_is_told_from_a_value_with_one_owner() {
        let (whole, split) = (r#"{"f:a":{}}"#, r#"{"f:a":{".":{}}}"#);
        for (ours, others, expected) in [
            (whole, &[][..], whole),
            (whole, &[r#"{"f:b":{"f:c":{}}}"#], whole),
            (whole, &[r#"{"f:a":{}}"#], whole),
            (whole, &[r#"{"f:a":{".":{}}}"#], whole),
            (whole, &[r#"{"f:a":{"f:b":{}}}"#], split),
            (whole, &[r#"{"f:a":{}}"#, r#"{"f:a":{"f:b":{}}}"#], split),
            (
                r#"{"f:a":{".":{},"f:b":{}}}"#,
                &[r#"{"f:a":{"f:b":{"f:c":{}}}}"#],
                r#"{"f:a":{".":{},"f:b":{".":{}}}}"#,
            ),
            (
                r#"{"f:l":{"k:{\"n\":\"x\"}":{},"v:1":{}}}"#,
                &[r#"{"f:l":{"k:{\"n\":\"x\"}":{".":{},"f:y":{}}}}"#],
                r#"{"f:l":{"k:{\"n\":\"x\"}":{".":{}},"v:1":{}}}"#,
            ),
        ] {
            assert_eq!(beside(ours, others), expected, "{ours} beside {others:?}");
        }
    }

    #[test]
    fn what_is_no_set_of_fields_is_left_as_it_is() {
        for (ours, other) in [
            ("null", r#"{"f:a":{"f:b":{}}}"#),
            (r#"{"f:a":1}"#, r#"{"f:a":{"f:b":{}}}"#),
            (r#"{"f:a":{}}"#, "7"),
        ] {
            assert_eq!(beside(ours, &[other]), ours);
        }
    }
}
