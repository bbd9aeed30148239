//! Where the nodes of a YAML text stand, so that one of them can be replaced and the rest stays as a person wrote it.

mod list;

use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a text as kubectl does: a mode that is written `0644` is an octal number.
///
/// # Errors
/// If it is no YAML, or is not of this form.
pub(super) fn read_as<T: DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { legacy_octal_numbers: true })
}

/// A node with its place in the text.
#[derive(Debug)]
pub(super) struct Placed {
    /// The bytes that it takes up, from its first to its last item where it is a block list.
    range: Range<usize>,
    /// The bytes of its key, where it is the value of one.
    key: Option<Range<usize>>,
    node: Node,
}

#[derive(Debug)]
enum Node {
    /// Plain or quoted, on one line.
    Scalar(String),
    List {
        items: Vec<Placed>,
        style: StructureStyle,
    },
    Map {
        entries: Vec<(String, Placed)>,
        style: StructureStyle,
    },
    /// A block of text, an alias: nothing that is replaced.
    Other,
}

type Token<'a> = (Event<'a>, Range<usize>);

/// What is to stand in the place of some bytes.
pub(super) type Edit = (Range<usize>, String);

/// The first document of a text, and all its comments.
#[derive(Debug)]
pub(super) struct Document<'t> {
    text: &'t str,
    root: Placed,
    comments: Vec<Range<usize>>,
}

/// None where the text is no YAML.
pub(super) fn read(text: &str) -> Option<Document<'_>> {
    let (mut tokens, mut comments, mut ended) = (Vec::new(), Vec::new(), false);
    for token in Parser::new_from_str(text) {
        let (event, span) = token.ok()?;
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::Anchor(..) => {}
            Event::Comment(..) => comments.push(span.byte_range()?),
            Event::StreamEnd | Event::DocumentEnd => ended = true,
            event if !ended => tokens.push((event, span.byte_range()?)),
            _ => {}
        }
    }
    Some(Document { text, root: node(&mut tokens.into_iter())?, comments })
}

fn node<'a>(tokens: &mut impl Iterator<Item = Token<'a>>) -> Option<Placed> {
    let token = tokens.next()?;
    node_from(token, tokens)
}

fn node_from<'a>((event, start): Token<'a>, tokens: &mut impl Iterator<Item = Token<'a>>) -> Option<Placed> {
    let (range, node) = match event {
        Event::Scalar(
            text,
            ScalarStyle::Plain | ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted,
            ..,
        ) => (start, Node::Scalar(text.into_owned())),
        Event::SequenceStart(style, ..) => {
            let mut items = Vec::new();
            let end = loop {
                match tokens.next()? {
                    (Event::SequenceEnd, end) => break end,
                    token => items.push(node_from(token, tokens)?),
                }
            };
            let range = match (style, items.first(), items.last()) {
                (StructureStyle::Block, Some(first), Some(last)) => first.range.start..last.range.end,
                _ => start.start..end.end,
            };
            (range, Node::List { items, style })
        }
        Event::MappingStart(style, ..) => {
            let mut entries: Vec<(String, Placed)> = Vec::new();
            let end = loop {
                let key = match tokens.next()? {
                    (Event::MappingEnd, end) => break end,
                    token => node_from(token, tokens)?,
                };
                let mut value = node(tokens)?;
                value.key = Some(key.range);
                if let Node::Scalar(name) = key.node {
                    entries.push((name, value));
                }
            };
            let end = match (style, entries.last()) {
                (StructureStyle::Block, Some((_, last))) => last.range.end,
                _ => end.end,
            };
            (start.start..end, Node::Map { entries, style })
        }
        _ => (start, Node::Other),
    };
    Some(Placed { range, key: None, node })
}

impl Placed {
    /// The node that a path leads to, and whether it stands within a flow collection.
    fn find(&self, path: &[String]) -> Option<(&Placed, bool)> {
        let (mut at, mut flow) = (self, false);
        for part in path {
            let (next, style) = match &at.node {
                Node::Map { entries, style } => {
                    (entries.iter().find(|(name, _)| name == part).map(|(_, value)| value), style)
                }
                Node::List { items, style } => {
                    (part.parse().ok().and_then(|index: usize| items.get(index)), style)
                }
                Node::Scalar(_) | Node::Other => return None,
            };
            flow |= *style == StructureStyle::Flow;
            at = next?;
        }
        Some((at, flow))
    }
}

impl Document<'_> {
    /// What to write, and where, so that the node at a path becomes this value and nothing else changes. None where it does not
    /// stand there in a form that can be replaced: scalars and lists of scalars can.
    pub(super) fn replacement(&self, path: &[String], value: &Value) -> Option<Vec<Edit>> {
        let (at, in_flow) = self.root.find(path)?;
        match (&at.node, value) {
            (Node::Scalar(_), Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                // A value that is not there has no place of its own.
                (!at.range.is_empty()).then(|| vec![(at.range.clone(), scalar(value, in_flow))])
            }
            (Node::List { items, style }, Value::Array(values)) => {
                let simple = items.iter().all(|item| matches!(item.node, Node::Scalar(_)))
                    && values.iter().all(|value| !value.is_array() && !value.is_object());
                if !simple {
                    return None;
                }
                if *style == StructureStyle::Block {
                    return list::block(self.text, at, items, values);
                }
                // Between brackets a comment has no place that it could keep.
                if self.comments.iter().any(|comment| at.range.contains(&comment.start)) {
                    return None;
                }
                if !in_flow {
                    return list::opened(self.text, at, values);
                }
                let items: Vec<String> = values.iter().map(|value| scalar(value, true)).collect();
                Some(vec![(at.range.clone(), format!("[{}]", items.join(", ")))])
            }
            _ => None,
        }
    }

    /// All comments, in order.
    pub(super) fn comments(&self) -> Vec<&str> {
        let comments = self.comments.iter().filter_map(|range| self.text.get(range.clone()));
        comments.map(str::trim_end).collect()
    }
}

/// A text with all these changes, none of which overlap.
pub(super) fn with(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|(range, _)| std::cmp::Reverse((range.start, range.end)));
    let mut new = text.to_owned();
    for (range, replacement) in edits {
        new.replace_range(range, &replacement);
    }
    new
}

/// A scalar as YAML, plain where that reads back as the same value.
fn scalar(value: &Value, in_flow: bool) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let fits = |c: char| c.is_alphanumeric() || " _./()+@=-".contains(c) || (!in_flow && ",[]{}".contains(c));
    let begins = text.starts_with(|c: char| c.is_alphanumeric() || c == '/' || c == '_');
    let plain = begins
        && !text.ends_with(' ')
        && text.chars().all(fits)
        && read_as::<Value>(text).is_ok_and(|read| read == *value);
    // JSON's strings are YAML's double-quoted ones.
    if plain { text.clone() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::json;

    #[test]
    fn a_number_with_a_leading_zero_is_octal_as_for_kubectl_and_a_text_of_these_letters_is_in_quotes() {
        let read = |text| read_as::<Value>(text).expect("it is YAML");
        assert_eq!(
            (read("mode: 0644"), read("mode: '0644'")),
            (json!({"mode": 420}), json!({"mode": "0644"}))
        );
        assert_eq!(scalar(&json!("0644"), false), "\"0644\"");
    }

    const TEXT: &str = "\
# a story
steps:
  - expect:
      writes: # in order
        - apply Ä a/b
        - \"apply Y a/c\"
      calls: 2 # by and by
  - expect: {writes: [a, b], calls: 1, objects: [{kind: X, spec: {size: 1, on: 'yes'}}]}
  - expect:
      writes: []
      quiet: true
      text: |
        long
";

    fn check(path: &str, value: Value, snapshot: Expect) {
        let path: Vec<String> = path.split('/').map(str::to_owned).collect();
        let read = read(TEXT).expect("it is YAML");
        let shown = match read.replacement(&path, &value) {
            None => "not to be replaced\n".to_owned(),
            Some(edits) => {
                let text = with(TEXT, edits);
                let lines = similar::TextDiff::from_lines(TEXT, &text);
                let changes = lines.iter_all_changes().filter(|c| c.tag() != similar::ChangeTag::Equal);
                changes.map(|change| format!("{}{}", change.tag(), change.value())).collect()
            }
        };
        snapshot.assert_eq(&shown);
    }

    #[test]
    fn a_scalar_is_replaced_where_it_stands() {
        check(
            "steps/0/expect/calls",
            json!(3),
            expect![[r#"
            -      calls: 2 # by and by
            +      calls: 3 # by and by
        "#]],
        );
        check(
            "steps/1/expect/objects/0/spec/on",
            json!("On"),
            expect![[r#"
            -  - expect: {writes: [a, b], calls: 1, objects: [{kind: X, spec: {size: 1, on: 'yes'}}]}
            +  - expect: {writes: [a, b], calls: 1, objects: [{kind: X, spec: {size: 1, on: "On"}}]}
        "#]],
        );
        check(
            "steps/1/expect/objects/0/spec/size",
            json!("a, b"),
            expect![[r#"
            -  - expect: {writes: [a, b], calls: 1, objects: [{kind: X, spec: {size: 1, on: 'yes'}}]}
            +  - expect: {writes: [a, b], calls: 1, objects: [{kind: X, spec: {size: "a, b", on: 'yes'}}]}
        "#]],
        );
    }

    #[test]
    fn a_list_keeps_its_form() {
        check(
            "steps/0/expect/writes",
            json!(["apply Z a/b (failed)"]),
            expect![[r#"
            -        - apply Ä a/b
            -        - "apply Y a/c"
            +        - apply Z a/b (failed)
        "#]],
        );
        check(
            "steps/1/expect/writes",
            json!(["c d/e", "f: g"]),
            expect![[r#"
            -  - expect: {writes: [a, b], calls: 1, objects: [{kind: X, spec: {size: 1, on: 'yes'}}]}
            +  - expect: {writes: [c d/e, "f: g"], calls: 1, objects: [{kind: X, spec: {size: 1, on: 'yes'}}]}
        "#]],
        );
    }

    #[test]
    fn a_list_becomes_empty_and_grows_again() {
        check(
            "steps/0/expect/writes",
            json!([]),
            expect![[r#"
            -      writes: # in order
            -        - apply Ä a/b
            -        - "apply Y a/c"
            +      writes: [] # in order
        "#]],
        );
        check(
            "steps/2/expect/writes",
            json!(["x", "y"]),
            expect![[r#"
            -      writes: []
            +      writes:
            +        - x
            +        - "y"
        "#]],
        );
    }

    /// A list `a` of these lines becomes these values.
    fn listed(lines: &str, values: Value) -> String {
        let text = format!("a:{lines}\nb: 1 # the end\n");
        let path = ["a".to_owned()];
        let edits = read(&text).expect("it is YAML").replacement(&path, &values);
        edits.map_or_else(
            || "not to be replaced".to_owned(),
            |edits| {
                let new = with(&text, edits);
                let end = "b: 1 # the end\n";
                new.strip_prefix("a:").and_then(|rest| rest.strip_suffix(end)).unwrap_or(&new).to_owned()
            },
        )
    }

    #[test]
    fn items_that_stay_keep_their_lines_and_comments_stay_in_any_case() {
        for (lines, values, expected) in [
            (
                "\n  - x # one\n  # two\n  - 'v'",
                json!(["x", "z", "v"]),
                "\n  - x # one\n  - z\n  # two\n  - 'v'\n",
            ),
            ("\n  - x # one\n  - v", json!(["z", "v"]), "\n  - z # one\n  - v\n"),
            ("\n  - x # one\n  # two\n  - v", json!(["v"]), "\n  # one\n  # two\n  - v\n"),
            ("\n- x\n- v", json!(["w", "x", "v", "z"]), "\n- w\n- x\n- v\n- z\n"),
            (" # all\n  - x # one\n\n  - v", json!([]), " [] # all\n  # one\n\n"),
            (" [] # none yet", json!(["x"]), " # none yet\n  - x\n"),
            (" [x, v] # two", json!(["z"]), " # two\n  - z\n"),
            (" [x, # one\n    v]", json!(["z"]), "not to be replaced"),
            (" [x, v] # two", json!([]), " [] # two\n"),
            ("\n  - - x", json!(["z"]), "not to be replaced"),
            (" &all\n  - x", json!([]), "not to be replaced"),
        ] {
            assert_eq!(listed(lines, values.clone()), expected, "{lines} {values}");
        }
    }

    #[test]
    fn lines_end_as_they_did() {
        let crlf = |text: &str| text.replace('\n', "\r\n");
        for (text, values, expected) in [
            (
                "b: 1\na:\n  - x # one\n  - v\n",
                json!(["x", "z", "v"]),
                "b: 1\na:\n  - x # one\n  - z\n  - v\n",
            ),
            ("b: 1\na:\n  - x\n  - v\n", json!(["v"]), "b: 1\na:\n  - v\n"),
            ("b: 1\na: [] # none\n", json!(["v"]), "b: 1\na: # none\n  - v\n"),
            ("b: 1\na:\n  - x", json!(["x", "v"]), "b: 1\na:\n  - x\n  - v"),
        ] {
            let text = crlf(text);
            let document = read(&text).expect("it is YAML");
            let edits = document.replacement(&["a".to_owned()], &values).expect("it can be replaced");
            assert_eq!(with(&text, edits), crlf(expected));
        }
    }

    #[test]
    fn every_comment_is_found() {
        let text = "# a\nb: 1 # c\nd: [ # e\n]\nf:\n  - g # h\n# i\n";
        assert_eq!(read(text).expect("it is YAML").comments(), ["# a", "# c", "# e", "# h", "# i"]);
    }

    #[test]
    fn what_has_another_form_is_left_alone() {
        check(
            "steps/2/expect/text",
            json!("short"),
            expect![[r#"
            not to be replaced
        "#]],
        );
        check(
            "steps/2/expect/calls",
            json!(1),
            expect![[r#"
            not to be replaced
        "#]],
        );
        check(
            "steps/1/expect/objects",
            json!([]),
            expect![[r#"
            not to be replaced
        "#]],
        );
        check(
            "steps/0/expect/writes",
            json!("x"),
            expect![[r#"
            not to be replaced
        "#]],
        );
    }
}
