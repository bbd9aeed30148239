//! An expression over JSON values, for whoever wants to ask something of objects without a schema.

use serde_json::Value as Json;

use super::checker::{Checked, compile};
use super::eval::Evaluation;
use super::types::Type;
use super::value::Value;

/// The most that one evaluation may cost: as much as the server allows for all rules of an object.
const COST_MAX: u64 = 10_000_000;

/// A compiled rule. What it names has no type before it runs.
#[derive(Clone, Debug)]
pub struct Expression(Checked);

impl Expression {
    /// Compiles a rule that may name these values. The error is one line: `LINE:COLUMN: mistake`.
    pub fn compile(text: &str, names: &[&str]) -> Result<Self, String> {
        let variables: Vec<(&str, Type)> = names.iter().map(|name| (*name, Type::Dyn)).collect();
        let checked = compile(text, &variables).map_err(|report| {
            let first = report.lines().next().unwrap_or_default();
            let first = first.strip_prefix("ERROR: <input>:").unwrap_or(first);
            first.replace(" (in container '')", "")
        })?;
        match checked.ty.plain() {
            Type::Bool | Type::Dyn => Ok(Self(checked)),
            _ => Err("1:1: it is neither true nor false".to_owned()),
        }
    }

    /// Whether it holds for these values. An error says why that cannot be told: a field that is not there, types that do not
    /// go together.
    pub fn holds(&self, values: &[(&str, &Json)]) -> Result<bool, String> {
        let scope = values.iter().map(|(name, value)| (*name, Value::of(value, &Type::Dyn))).collect();
        match Evaluation::new(scope, COST_MAX).run(&self.0.expr)? {
            Value::Bool(holds) => Ok(holds),
            other => Err(format!("it is {} and neither true nor false", other.shown())),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(text: &str, snapshot: Expect) {
        let object = json!({"spec": {"replicas": 3, "a-b": 1}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let told = match Expression::compile(text, &["self", "now"]) {
            Err(mistake) => format!("refused: {mistake}"),
            Ok(rule) => match rule.holds(&[("self", &object), ("now", &json!("2026-01-01T00:00:00Z"))]) {
                Ok(holds) => holds.to_string(),
                Err(reason) => format!("cannot tell: {reason}"),
            },
        };
        snapshot.assert_eq(&told);
    }

    #[test]
    fn a_rule_holds_or_does_not() {
        check("self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", expect!["true"]);
        check("self.spec.replicas > 3", expect!["false"]);
        check("self.spec['a-b'] == 1 && !has(self.spec.other)", expect!["true"]);
        check("timestamp(now) > timestamp('2025-01-01T00:00:00Z')", expect!["true"]);
    }

    #[test]
    fn what_cannot_be_told_says_why() {
        check("self.spec.size > 3", expect!["cannot tell: no such key: size"]);
        check("self.spec.replicas", expect!["cannot tell: it is 3 and neither true nor false"]);
    }

    #[test]
    fn a_mistake_is_told_in_one_line_with_its_place() {
        check("me.spec", expect!["refused: 1:1: undeclared reference to 'me'"]);
        check("1 + 2", expect!["refused: 1:1: it is neither true nor false"]);
        check(
            "self.spec +",
            expect![[
                r#"refused: 1:12: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"#
            ]],
        );
    }
}
