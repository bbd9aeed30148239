//! Conditions of a hook's action, and the files that a path condition leaves for its variables.

use super::Context;
use crate::words::{FileOp, HookCondition};

/// What the last path condition of an action matched; empty where it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// The condition's path; "" where there is none.
    pub path: String,
    /// The files, sorted.
    pub files: Vec<(String, FileOp)>,
}

/// What matched, where all conditions hold.
pub fn matches(conditions: &[HookCondition], context: &Context) -> Option<Matched> {
    let mut matched = Matched::default();
    for condition in conditions {
        match condition {
            HookCondition::Expression(text) => {
                if !holds(text, context.rebooted) {
                    return None;
                }
            }
            HookCondition::Path { path, op } => {
                let is_meant = |(changed, how): &&(String, FileOp)| {
                    is_at(path, changed) && (op.is_empty() || op.contains(how))
                };
                let mut files: Vec<_> = context.changes.iter().filter(is_meant).cloned().collect();
                if files.is_empty() {
                    return None;
                }
                files.sort();
                matched = Matched { path: path.clone(), files };
            }
        }
    }
    Some(matched)
}

/// Whether a path is among the conditions.
pub fn asks_for_a_path(conditions: &[HookCondition]) -> bool {
    conditions.iter().any(|condition| matches!(condition, HookCondition::Path { .. }))
}

fn is_at(path: &str, changed: &str) -> bool {
    if path.ends_with('/') { changed.starts_with(path) } else { changed == path }
}

/// The whole text has to be the expression; one that nobody knows is false.
fn holds(text: &str, rebooted: bool) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["rebooted", "==", "true"] => rebooted,
        ["rebooted", "==", "false"] => !rebooted,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_the_whole_text_and_an_unknown_one_is_false() {
        assert!(holds("rebooted == true", true));
        assert!(holds(" rebooted  ==  false ", false));
        for text in ["not rebooted == true", "rebooted == true or x", "rebooted", "", "true"] {
            assert!(!holds(text, true), "{text}");
        }
    }

    #[test]
    fn a_folder_means_all_below_it_and_a_path_only_itself() {
        assert!(is_at("/etc/app/", "/etc/app/a/b"));
        assert!(!is_at("/etc/app/", "/etc/apple"));
        assert!(!is_at("/etc/app", "/etc/app/a"));
        assert!(is_at("/etc/app", "/etc/app"));
    }
}
