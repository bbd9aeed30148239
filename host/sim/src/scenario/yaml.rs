//! Where the nodes of a YAML text stand, so that one of them can be replaced and the rest stays as a person wrote it.

use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle};
use serde_json::Value;

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

/// The first document of a text; none where it is no YAML.
pub(super) fn read(text: &str) -> Option<Placed> {
    let mut tokens = Vec::new();
    for token in Parser::new_from_str(text) {
        let (event, span) = token.ok()?;
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::Comment(..) | Event::Anchor(..) => {}
            Event::StreamEnd | Event::DocumentEnd => break,
            event => tokens.push((event, span.byte_range()?)),
        }
    }
    node(&mut tokens.into_iter())
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

    /// What to write, and where, so that the node at a path becomes this value. None where it does not stand there in a form
    /// that can be replaced: scalars and lists of scalars can.
    pub(super) fn replacement(
        &self,
        text: &str,
        path: &[String],
        value: &Value,
    ) -> Option<(Range<usize>, String)> {
        let (at, in_flow) = self.find(path)?;
        match (&at.node, value) {
            (Node::Scalar(_), Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                // A value that is not there has no place of its own.
                (!at.range.is_empty()).then(|| (at.range.clone(), scalar(value, in_flow)))
            }
            (Node::List { items, .. }, Value::Array(values)) => {
                let simple = items.iter().all(|item| matches!(item.node, Node::Scalar(_)))
                    && values.iter().all(|value| !value.is_array() && !value.is_object());
                simple.then(|| list(text, at, in_flow, values)).flatten()
            }
            _ => None,
        }
    }
}

/// A list of scalars: an item a line, or between brackets where it stands within them or is empty.
fn list(text: &str, at: &Placed, in_flow: bool, values: &[Value]) -> Option<(Range<usize>, String)> {
    if in_flow {
        let items: Vec<String> = values.iter().map(|value| scalar(value, true)).collect();
        return Some((at.range.clone(), format!("[{}]", items.join(", "))));
    }
    let key = at.key.as_ref()?;
    let range = key.end..at.range.end;
    if values.is_empty() {
        return Some((range, ": []".to_owned()));
    }
    let begin_of_line = |at: usize| text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    if let Node::List { style: StructureStyle::Block, .. } = &at.node {
        // From its first dash on, so that what stands beside the key stays.
        let line = begin_of_line(at.range.start);
        let indent = text[line..at.range.start].find('-')?;
        let items: Vec<String> = values.iter().map(|value| format!("- {}", scalar(value, false))).collect();
        let separator = format!("\n{}", " ".repeat(indent));
        return Some((line + indent..at.range.end, items.join(&separator)));
    }
    let pad = " ".repeat(text[begin_of_line(key.start)..key.start].chars().count() + 2);
    let items: Vec<String> =
        values.iter().map(|value| format!("\n{pad}- {}", scalar(value, false))).collect();
    Some((range, format!(":{}", items.concat())))
}

/// A scalar as YAML, plain where that reads back as the same value.
fn scalar(value: &Value, in_flow: bool) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let fits = |c: char| c.is_alphanumeric() || " _./()+@=-".contains(c) || (!in_flow && ",[]{}".contains(c));
    let begins = text.starts_with(|c: char| c.is_alphanumeric() || c == '/' || c == '_');
    let plain = begins
        && !text.ends_with(' ')
        && text.chars().all(fits)
        && serde_saphyr::from_str::<Value>(text).is_ok_and(|read| read == *value);
    // JSON's strings are YAML's double-quoted ones.
    if plain { text.clone() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::json;

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
        let shown = match read.replacement(TEXT, &path, &value) {
            None => "not to be replaced\n".to_owned(),
            Some((range, new)) => {
                let text = format!("{}{new}{}", &TEXT[..range.start], &TEXT[range.end..]);
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
            +      writes: []
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
