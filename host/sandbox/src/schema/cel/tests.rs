//! Expressions by what they are worth, and mistakes by what cel-go says of them.

use expect_test::{Expect, expect};
use serde_json::json;

use super::checker::compile;
use super::eval::Evaluation;
use super::types::{Type, declare};
use super::value::Value;
use crate::schema::Schema;

fn self_schema() -> Schema {
    Schema::parse(&json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "f": {"type": "number"},
            "s": {"type": "string", "maxLength": 20},
            "b": {"type": "boolean"},
            "port": {"x-kubernetes-int-or-string": true},
            "list": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "when": {"type": "string", "format": "date-time"},
            "for": {"type": "string", "format": "duration"},
            "a-b": {"type": "string"},
            "namespace": {"type": "string"},
            "many": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        },
    }))
}

/// Evaluates against a fixed object.
fn check(text: &str, expect: Expect) {
    let object = json!({
        "n": 3, "f": 1.5, "s": "hello", "b": true, "port": "http", "list": ["a", "b"], "map": {"x": 1, "y": 2},
        "when": "2026-01-02T03:04:05Z", "for": "90m", "a-b": "dash", "namespace": "ns",
        "many": [{"name": "one"}, {"name": "two"}],
    });
    let schema = self_schema();
    let ty = declare(&schema, "object").expect("a type").ty;
    let shown = match compile(text, &[("self", ty.clone())]) {
        Err(report) => report,
        Ok(compiled) => {
            let mut run = Evaluation::new(vec![("self", Value::of(&object, &ty))], 1_000_000);
            run.run(&compiled.expr).map_or_else(|failure| format!("failed: {failure}"), |value| value.shown())
        }
    };
    expect.assert_eq(&shown);
}

#[test]
fn operators_do_what_they_say() {
    check("self.n + 2 * 3 - 1", expect!["8"]);
    check("7 / 2 + 7 % 2", expect!["4"]);
    check("-7 / 2", expect!["-3"]);
    check("self.f * 2.0", expect!["3"]);
    check("self.s + ' world'", expect!["hello world"]);
    check("self.n > 2 && !(self.s == 'x') || false", expect!["true"]);
    check("self.b ? 'yes' : 'no'", expect!["yes"]);
    check("'a' in self.list && 'x' in self.map && !('z' in self.map)", expect!["true"]);
    check("self.list[1] + string(self.map['y'])", expect!["b2"]);
    check("[1, 2] + [3]", expect!["[1, 2, 3]"]);
    check("{'a': 1}.a == 1 && {'a': 1} == {'a': 1}", expect!["true"]);
    check(
        "1 == 1.0 || 1u < 2",
        expect![[r#"
        ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, double)'
         | 1 == 1.0 || 1u < 2
         | ..^"#]],
    );
    check("9223372036854775807 + 1", expect!["failed: integer overflow"]);
    check("1 / 0 == 1", expect!["failed: division by zero"]);
    check("1 / 0 == 1 || true", expect!["true"]);
}

#[test]
fn macros_walk_lists_and_maps() {
    check("self.list.all(x, x.size() == 1)", expect!["true"]);
    check("self.list.exists(x, x == 'b') && self.list.exists_one(x, x == 'a')", expect!["true"]);
    check("self.list.map(x, x + x).filter(x, x != 'aa')", expect!["[bb]"]);
    check("self.map.all(k, self.map[k] > 0)", expect!["true"]);
    check("self.many.map(m, m.name)", expect!["[one, two]"]);
    check("self.list.all(i, x, i < 2 && x != '')", expect!["true"]);
    check("has(self.n) && !has(self.many[0].name) == false", expect!["true"]);
    check("cel.bind(x, self.n * 2, x + x)", expect!["12"]);
}

#[test]
fn texts_have_their_functions() {
    check("self.s.startsWith('he') && self.s.endsWith('lo') && self.s.contains('ell')", expect!["true"]);
    check("self.s.matches('^h.*o$')", expect!["true"]);
    check("self.s.upperAscii() + self.s.substring(1, 3) + self.s.charAt(0)", expect!["HELLOelh"]);
    check("'a,b,c'.split(',').join('-') + 'x'.replace('x', 'y')", expect!["a-b-cy"]);
    check("self.s.indexOf('l') + self.s.lastIndexOf('l')", expect!["5"]);
    check("'abc123'.find('[0-9]+') + string('a1b2'.findAll('[0-9]').size())", expect!["1232"]);
    check("'%s has %d'.format([self.s, self.n])", expect!["hello has 3"]);
    check("self.s.substring(9)", expect!["failed: index out of range: 9"]);
}

#[test]
fn kubernetes_libraries_are_there() {
    check("quantity('1.5Gi').isGreaterThan(quantity('1Gi')) && isQuantity('1x') == false", expect!["true"]);
    check("quantity('500m').add(quantity('1500m')).asInteger()", expect!["2"]);
    check(
        "url('https://example.com:80/a?b=c').getHost() + url('https://h/a').getEscapedPath()",
        expect!["example.com:80/a"],
    );
    check(
        "isIP('1.2.3.4') && ip('::1').isLoopback() && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
        expect!["true"],
    );
    check("cidr('10.1.0.0/16').masked() == cidr('10.1.0.0/16')", expect!["true"]);
    check("format.dns1123Label().validate('A').hasValue()", expect!["true"]);
    check("!format.named('dns1123Label').value().validate('a').hasValue()", expect!["true"]);
    check("sets.contains([1, 2], [2]) && sets.intersects(['a'], self.list)", expect!["true"]);
    check("[3, 1, 2].sum() + [3, 1].min() + [3, 1].max()", expect!["10"]);
    check("[1, 2].isSorted() && semver('1.2.3').isLessThan(semver('1.10.0'))", expect!["true"]);
    check("optional.of(1).orValue(2) + optional.none().orValue(2)", expect!["3"]);
    check("self.map[?'z'].orValue(7)", expect!["7"]);
    check("self.__for__.getMinutes()", expect!["90"]);
    check(
        "self.when > timestamp('2026-01-01T00:00:00Z') && self.when.getFullYear() == 2026",
        expect!["true"],
    );
    check("self.when - timestamp('2026-01-02T03:04:00Z') == duration('5s')", expect!["true"]);
    check("type(self.port) == string ? self.port : 'number'", expect!["http"]);
    check("self.a__dash__b + self.__namespace__", expect!["dashns"]);
}

#[test]
fn what_is_missing_at_run_time_has_cel_gos_words() {
    check("self.map['q'] == 1", expect!["failed: no such key: q"]);
    check("self.list[7] == 'a'", expect!["failed: index out of bounds: 7"]);
    check("self.port > 3", expect!["failed: no such overload"]);
    check("int('x') == 1", expect![[r#"failed: strconv.ParseInt: parsing "x": invalid syntax"#]]);
}

#[test]
fn mistakes_of_types_are_told_with_their_place() {
    check(
        "self.nope > 1",
        expect![[r#"
        ERROR: <input>:1:5: undefined field 'nope'
         | self.nope > 1
         | ....^"#]],
    );
    check(
        "self.n == 'a'",
        expect![[r#"
        ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'
         | self.n == 'a'
         | .......^"#]],
    );
    check(
        "foo",
        expect![[r#"
        ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')
         | foo
         | ^"#]],
    );
    check(
        "self.s.frob()",
        expect![[r#"
        ERROR: <input>:1:12: undeclared reference to 'frob' (in container '')
         | self.s.frob()
         | ...........^"#]],
    );
    check(
        "self.n.startsWith('a')",
        expect![[r#"
        ERROR: <input>:1:18: found no matching overload for 'startsWith' applied to 'int.(string)'
         | self.n.startsWith('a')
         | .................^"#]],
    );
}

#[test]
fn mistakes_of_form_are_told_with_their_place() {
    check(
        "self.n >",
        expect![[r#"
        ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
         | self.n >
         | ........^"#]],
    );
    check(
        "self.n > 1)",
        expect![[r#"
        ERROR: <input>:1:11: Syntax error: extraneous input ')' expecting <EOF>
         | self.n > 1)
         | ..........^"#]],
    );
    check(
        "self.n.all(x, x)",
        expect![[r#"
        ERROR: <input>:1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)
         | self.n.all(x, x)
         | ....^"#]],
    );
    check(
        "self.list.all(x, x)",
        expect![[r#"
        ERROR: <input>:1:14: found no matching overload for '_&&_' applied to '(bool, string)'
         | self.list.all(x, x)
         | .............^"#]],
    );
    check(
        "has(self)",
        expect![[r#"
        ERROR: <input>:1:5: invalid argument to has() macro
         | has(self)
         | ....^"#]],
    );
    check(
        "self.n + self.f > 1.0",
        expect![[r#"
        ERROR: <input>:1:8: found no matching overload for '_+_' applied to '(int, double)'
         | self.n + self.f > 1.0
         | .......^"#]],
    );
}

/// The most that an expression may cost, as estimated.
fn cost(text: &str) -> u64 {
    let ty = declare(&self_schema(), "object").expect("a type").ty;
    compile(text, &[("self", ty), ("oldSelf", Type::Dyn)]).expect("a good expression").cost
}

#[test]
fn what_nothing_bounds_is_estimated_as_expensive() {
    let bounded = cost("self.list.all(x, self.list.all(y, x != y || x == y))");
    let unbounded = cost("self.many.all(x, self.many.all(y, x.name != y.name))");
    assert!(bounded < 1_000, "{bounded}");
    assert!(unbounded > 10_000_000, "{unbounded}");
}

#[test]
fn a_run_is_cut_off_at_its_limit() {
    let object = json!({"list": ["a", "b", "c"]});
    let ty = declare(&self_schema(), "object").expect("a type").ty;
    let compiled =
        compile("self.list.all(x, self.list.all(y, x.size() == 1))", &[("self", ty.clone())]).expect("good");
    let mut run = Evaluation::new(vec![("self", Value::of(&object, &ty))], 20);
    let failure = run.run(&compiled.expr).expect_err("too expensive");
    assert_eq!(failure, "operation cancelled: actual cost limit exceeded");
}
