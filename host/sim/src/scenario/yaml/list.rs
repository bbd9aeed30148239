//! Lists of scalars with other items in them: each line stays as it was whose item stays, and so does each comment.

use std::ops::Range;

use serde_json::Value;

use super::{Edit, Placed, read_as, scalar};

/// An item of a block list.
struct Line {
    dash: usize,
    item: Range<usize>,
}

/// A block list becomes these values, an item a line. None where its items do not stand so.
pub(super) fn block(text: &str, at: &Placed, items: &[Placed], values: &[Value]) -> Option<Vec<Edit>> {
    let lines: Vec<Line> = items.iter().map(|item| line(text, &item.range)).collect::<Option<_>>()?;
    if values.is_empty() {
        let mut edits: Vec<Edit> = lines.iter().map(|line| removal(text, line)).collect();
        let colon = after_colon(text, at.key.as_ref()?)?;
        let beside = text[colon..end_of_line(text, colon)].trim();
        if !beside.is_empty() && !beside.starts_with('#') {
            return None;
        }
        edits.push((colon..colon, " []".to_owned()));
        return Some(edits);
    }
    let mut edits = Vec::new();
    let (mut old, mut new) = (0, 0);
    let end = (lines.len(), values.len(), 0);
    for (old_at, new_at, len) in kept(text, &lines, values).into_iter().chain([end]) {
        between(text, &lines, old..old_at, &values[new..new_at], &mut edits);
        (old, new) = (old_at + len, new_at + len);
    }
    Some(edits)
}

/// Runs of items that stay: where they begin among the old and the new, and how many they are.
fn kept(text: &str, lines: &[Line], values: &[Value]) -> Vec<(usize, usize, usize)> {
    let read = |line: &Line| read_as::<Value>(&text[line.item.clone()]).ok();
    let old: Vec<String> =
        lines.iter().map(|line| read(line).map_or_else(String::new, |value| value.to_string())).collect();
    let new: Vec<String> = values.iter().map(Value::to_string).collect();
    let runs = similar::capture_diff_slices(similar::Algorithm::Myers, &old, &new);
    let equal = runs.into_iter().filter_map(|run| match run {
        similar::DiffOp::Equal { old_index, new_index, len } => Some((old_index, new_index, len)),
        _ => None,
    });
    equal.collect()
}

/// Items between two runs that stay: one in the place of another, and then those that are left over.
fn between(text: &str, lines: &[Line], old: Range<usize>, new: &[Value], edits: &mut Vec<Edit>) {
    let end = old.end;
    let old = &lines[old];
    edits.extend(old.iter().zip(new).map(|(line, value)| (line.item.clone(), scalar(value, false))));
    edits.extend(old.iter().skip(new.len()).map(|line| removal(text, line)));
    let Some(more) = new.get(old.len()..).filter(|more| !more.is_empty()) else { return };
    let more = more.iter().map(|value| format!("- {}", scalar(value, false)));
    let Some(first) = lines.first() else { return };
    let separator = format!("{}{}", newline(text), " ".repeat(first.dash - begin_of_line(text, first.dash)));
    edits.push(match end.checked_sub(1).and_then(|before| lines.get(before)) {
        Some(before) => {
            let at = end_of_line(text, before.item.end);
            (at..at, more.map(|item| format!("{separator}{item}")).collect())
        }
        None => (first.dash..first.dash, more.map(|item| format!("{item}{separator}")).collect()),
    });
}

/// A list between brackets that is the value of a block's key becomes one with an item a line.
pub(super) fn opened(text: &str, at: &Placed, values: &[Value]) -> Option<Vec<Edit>> {
    if values.is_empty() {
        return Some(vec![(at.range.clone(), "[]".to_owned())]);
    }
    let key = at.key.as_ref()?;
    let colon = after_colon(text, key)?;
    if !text[colon..at.range.start].trim().is_empty() {
        return None;
    }
    let pad = " ".repeat(text[begin_of_line(text, key.start)..key.start].chars().count() + 2);
    let newline = newline(text);
    let items = values.iter().map(|value| format!("{newline}{pad}- {}", scalar(value, false))).collect();
    // What stands beside it stays beside its key.
    let end = end_of_line(text, at.range.end);
    Some(vec![(colon..at.range.end, String::new()), (end..end, items)])
}

fn line(text: &str, item: &Range<usize>) -> Option<Line> {
    let begin = begin_of_line(text, item.start);
    let (indent, rest) = text[begin..item.start].split_once('-')?;
    let alone = indent.trim().is_empty() && rest.trim().is_empty();
    alone.then(|| Line { dash: begin + indent.len(), item: item.clone() })
}

/// Takes an item away with its line, but for a comment beside it.
fn removal(text: &str, line: &Line) -> Edit {
    let end = end_of_line(text, line.item.end);
    let beside = &text[line.item.end..end];
    let comment = beside.trim_start();
    if comment.is_empty() {
        let next = text[end..].find('\n').map_or(text.len(), |newline| end + newline + 1);
        return (begin_of_line(text, line.dash)..next, String::new());
    }
    (line.dash..end - comment.len(), String::new())
}

fn after_colon(text: &str, key: &Range<usize>) -> Option<usize> {
    let rest = &text[key.end..];
    let beside = rest.trim_start_matches(' ');
    beside.starts_with(':').then(|| key.end + rest.len() - beside.len() + 1)
}

fn begin_of_line(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Where the line ends, before what ends it.
fn end_of_line(text: &str, at: usize) -> usize {
    let line = text[at..].split('\n').next().unwrap_or_default();
    at + line.strip_suffix('\r').unwrap_or(line).len()
}

/// What ends the lines of a text.
fn newline(text: &str) -> &'static str {
    if text.split('\n').next().is_some_and(|line| line.ends_with('\r')) { "\r\n" } else { "\n" }
}
