//! Custom resources from end to end: definition in, bodies in, errors out.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Type, aggregate, crd};

/// A definition with the given schema of `spec` and `status`, in YAML.
fn definition(properties: &str) -> Value {
    let mut schema = json!({"type": "object"});
    schema["properties"] = serde_saphyr::from_str(properties).expect("YAML");
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    crd::prepare(&mut definition);
    definition
}

fn kind(properties: &str) -> Type {
    match crd::compile(&definition(properties)) {
        Ok(compiled) => compiled.versions[0].ty.clone(),
        Err(errors) => panic!("{}", aggregate(&errors)),
    }
}

fn widget(rest: &str) -> Value {
    let mut body: Value = serde_saphyr::from_str(rest).expect("YAML");
    body["apiVersion"] = json!("example.com/v1");
    body["kind"] = json!("Widget");
    let mut meta = json!({"name": "a", "namespace": "ns", "resourceVersion": "1"});
    if let (Some(meta), Some(given)) = (meta.as_object_mut(), body["metadata"].as_object()) {
        meta.extend(given.clone());
    }
    body["metadata"] = meta;
    body
}

/// Decodes, defaults and validates a new object.
fn check(properties: &str, body: &str, expect: Expect) {
    let ty = kind(properties);
    let mut body = widget(body);
    let mut lines = match ty.decode(&mut body) {
        Ok(unknown) => unknown,
        Err(error) => vec![error.to_string()],
    };
    ty.default(&mut body);
    lines.extend(ty.validate_create(&body).iter().map(ToString::to_string));
    if let Some(fields) = body.as_object_mut() {
        ["apiVersion", "kind", "metadata"].iter().for_each(|name| {
            fields.remove(*name);
        });
    }
    lines.push(body.to_string());
    expect.assert_eq(&lines.join("\n"));
}

/// Validates an update.
fn check_update(properties: &str, old: &str, new: &str, expect: Expect) {
    let errors = kind(properties).validate_update(&widget(new), &widget(old), None);
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    expect.assert_eq(&lines.join("\n"));
}

/// What is wrong with a definition.
fn check_definition(properties: &str, expect: Expect) {
    let lines: Vec<String> =
        crd::check_create(&definition(properties)).iter().map(ToString::to_string).collect();
    expect.assert_eq(&lines.join("\n"));
}

const SPEC: &str = "
spec:
  type: object
  required: [cpu]
  properties:
    cpu: {type: integer, minimum: 1, maximum: 128}
    power: {type: string, enum: ['On', 'Off'], default: 'Off'}
    name: {type: string, maxLength: 5, pattern: '^[a-z]+$'}
    tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
    disks:
      type: array
      maxItems: 2
      x-kubernetes-list-type: map
      x-kubernetes-list-map-keys: [name]
      items:
        type: object
        required: [name]
        properties: {name: {type: string}, size: {type: string, default: 1Gi}}
    port: {x-kubernetes-int-or-string: true}
    free: {type: object, x-kubernetes-preserve-unknown-fields: true}
    labels: {type: object, additionalProperties: {type: string}}
    note: {type: string, nullable: true}
";

#[test]
fn each_rule_has_the_words_of_the_real_server() {
    check(
        SPEC,
        "spec: {cpu: 0}",
        expect![[r#"
        spec.cpu: Invalid value: 0: spec.cpu in body should be greater than or equal to 1
        {"spec":{"cpu":0,"power":"Off"}}"#]],
    );
    check(
        SPEC,
        "spec: {cpu: 200, power: maybe, name: TOO-LONG}",
        expect![[r#"
        spec.cpu: Invalid value: 200: spec.cpu in body should be less than or equal to 128
        spec.name: Too long: may not be more than 5 bytes
        spec.power: Unsupported value: "maybe": supported values: "On", "Off"
        {"spec":{"cpu":200,"name":"TOO-LONG","power":"maybe"}}"#]],
    );
    check(
        SPEC,
        "spec: {cpu: '2', name: A}",
        expect![[r#"
        spec.cpu: Invalid value: "string": spec.cpu in body must be of type integer: "string"
        spec.name: Invalid value: "A": spec.name in body should match '^[a-z]+$'
        {"spec":{"cpu":"2","name":"A","power":"Off"}}"#]],
    );
    check(
        SPEC,
        "spec: {}",
        expect![[r#"
        spec.cpu: Required value
        {"spec":{"power":"Off"}}"#]],
    );
    check(
        SPEC,
        "spec: {cpu: 1, tags: [a, b, a], disks: [{name: x}, {name: x}]}",
        expect![[r#"
        spec.disks[1]: Duplicate value: {"name":"x"}
        spec.tags[2]: Duplicate value: "a"
        {"spec":{"cpu":1,"disks":[{"name":"x","size":"1Gi"},{"name":"x","size":"1Gi"}],"power":"Off","tags":["a","b","a"]}}"#]],
    );
    check(
        SPEC,
        "spec: {cpu: 1, disks: [{name: x}, {name: y}, {name: z}]}",
        expect![[r#"
        spec.disks[1].name: Invalid value: "boolean": spec.disks[1].name in body must be of type string: "boolean"
        spec.disks: Too many: 3: must have at most 2 items
        {"spec":{"cpu":1,"disks":[{"name":"x","size":"1Gi"},{"name":true,"size":"1Gi"},{"name":"z","size":"1Gi"}],"power":"Off"}}"#]],
    );
    check(
        SPEC,
        "spec: {cpu: 1.5, port: [80], labels: {a: 1}}",
        expect![[r#"
        spec.cpu: Invalid value: "number": spec.cpu in body must be of type integer: "number"
        spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type string: "integer"
        spec.port: Invalid value: "array": spec.port in body must be of type integer,string: "array"
        {"spec":{"cpu":1.5,"labels":{"a":1},"port":[80],"power":"Off"}}"#]],
    );
    check(
        SPEC,
        "spec: {cpu: 1, disks: [{size: 2Gi}]}",
        expect![[r#"
        spec.disks[0].name: Required value
        {"spec":{"cpu":1,"disks":[{"size":"2Gi"}],"power":"Off"}}"#]],
    );
}

#[test]
fn unknown_fields_fall_away_and_are_told() {
    check(
        SPEC,
        "spec: {cpu: 1, colour: red, free: {any: [1]}, disks: [{name: a, speed: 3}]}\nextra: 1",
        expect![[r#"
        unknown field "extra"
        unknown field "spec.colour"
        unknown field "spec.disks[0].speed"
        {"spec":{"cpu":1,"disks":[{"name":"a","size":"1Gi"}],"free":{"any":[1]},"power":"Off"}}"#]],
    );
}

#[test]
fn nulls_mean_nothing_unless_the_schema_says_so() {
    check(
        SPEC,
        "spec: {cpu: 1, note: null, name: null, power: null}",
        expect![[r#"{"spec":{"cpu":1,"note":null,"power":"Off"}}"#]],
    );
}

#[test]
fn metadata_is_checked_like_any_objects() {
    check(
        SPEC,
        "metadata: {name: Bad_Name, labels: {'a b': 'x y'}}\nspec: {cpu: 1}",
        expect![[r#"
        metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        metadata.labels: Invalid value: "x y": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        {"spec":{"cpu":1,"power":"Off"}}"#]],
    );
    check(
        SPEC,
        "metadata: {labels: {a: 1}}\nspec: {cpu: 1}",
        expect![[r#"
            json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string
            {"spec":{"cpu":1,"power":"Off"}}"#]],
    );
    check(
        SPEC,
        "metadata: {colour: red, finalizers: [x y]}\nspec: {cpu: 1}",
        expect![[r#"
        unknown field "metadata.colour"
        metadata.finalizers: Invalid value: "x y": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        {"spec":{"cpu":1,"power":"Off"}}"#]],
    );
}

const RULES: &str = "
spec:
  type: object
  x-kubernetes-validations:
  - rule: self.min <= self.max
    messageExpression: \"'min ' + string(self.min) + ' is above max ' + string(self.max)\"
    fieldPath: .min
  - rule: self.name.startsWith('w')
    reason: FieldValueForbidden
    message: names begin with w
  properties:
    min: {type: integer, default: 0}
    max: {type: integer, default: 9}
    name: {type: string, maxLength: 20, default: widget}
    image:
      type: string
      x-kubernetes-validations: [{rule: self == oldSelf, message: image is immutable}]
    count:
      type: integer
      x-kubernetes-validations: [{rule: 'self < 10'}]
    once:
      type: string
      maxLength: 10
      x-kubernetes-validations:
      - {rule: '!oldSelf.hasValue() || oldSelf.value() == self', optionalOldSelf: true, message: set once}
";

#[test]
fn rules_are_run_and_say_what_they_want() {
    check(
        RULES,
        "spec: {min: 5, max: 3}",
        expect![[r#"
        spec.min: Invalid value: min 5 is above max 3
        {"spec":{"max":3,"min":5,"name":"widget"}}"#]],
    );
    check(
        RULES,
        "spec: {name: x, count: 12}",
        expect![[r#"
        spec: Forbidden: names begin with w
        spec.count: Invalid value: 12: failed rule: self < 10
        {"spec":{"count":12,"max":9,"min":0,"name":"x"}}"#]],
    );
    check(
        RULES,
        "spec: {image: a, once: b}",
        expect![[r#"{"spec":{"image":"a","max":9,"min":0,"name":"widget","once":"b"}}"#]],
    );
    check(
        RULES,
        "spec: {name: 5}",
        expect![[r#"
        spec.name: Invalid value: "integer": spec.name in body must be of type string: "integer"
        <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
        {"spec":{"max":9,"min":0,"name":5}}"#]],
    );
}

#[test]
fn transition_rules_look_back() {
    check_update(
        RULES,
        "spec: {min: 0, max: 1, name: w, image: a}",
        "spec: {min: 0, max: 1, name: w, image: b}",
        expect![[r#"spec.image: Invalid value: "b": image is immutable"#]],
    );
    check_update(
        RULES,
        "spec: {min: 0, max: 1, name: w}",
        "spec: {min: 0, max: 1, name: w, image: b}",
        expect![""],
    );
    check_update(
        RULES,
        "spec: {min: 0, max: 1, name: w, once: a}",
        "spec: {min: 0, max: 1, name: w, once: b}",
        expect![[r#"spec.once: Invalid value: "b": set once"#]],
    );
}

#[test]
fn what_an_update_left_alone_is_not_held_against_it() {
    check_update(SPEC, "spec: {cpu: 0, name: a}", "spec: {cpu: 0, name: b}", expect![""]);
    check_update(
        SPEC,
        "spec: {cpu: 0}",
        "spec: {cpu: -1}",
        expect!["spec.cpu: Invalid value: -1: spec.cpu in body should be greater than or equal to 1"],
    );
    check_update(
        RULES,
        "spec: {min: 0, max: 1, name: w, count: 12}",
        "spec: {min: 0, max: 2, name: w, count: 12}",
        expect![""],
    );
    check_update(
        RULES,
        "spec: {min: 0, max: 1, name: w, count: 12}",
        "spec: {min: 0, max: 2, name: w, count: 13}",
        expect!["spec.count: Invalid value: 13: failed rule: self < 10"],
    );
}

#[test]
fn alternatives_are_told_by_the_one_that_came_furthest() {
    let schema = "
spec:
  type: object
  oneOf:
  - required: [a]
  - required: [b]
  properties: {a: {type: string}, b: {type: string}}
";
    check(
        schema,
        "spec: {}",
        expect![[r#"
        <nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid
        spec.a: Required value
        {"spec":{}}"#]],
    );
    check(
        schema,
        "spec: {a: x, b: y}",
        expect![[r#"
        <nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives
        spec.b: Invalid value: "boolean": spec.b in body must be of type string: "boolean"
        {"spec":{"a":"x","b":true}}"#]],
    );
    check(schema, "spec: {a: x}", expect![[r#"{"spec":{"a":"x"}}"#]]);
}

#[test]
fn a_definition_must_be_structural() {
    check_definition(
        "spec: {type: object, properties: {a: {}}}",
        expect![
            "spec.validation.openAPIV3Schema.properties[spec].properties[a].type: Required value: must not be empty for specified object fields"
        ],
    );
    check_definition(
        "spec: {type: array}",
        expect!["spec.validation.openAPIV3Schema.properties[spec].items: Required value: must be specified"],
    );
    check_definition(
        "spec: {type: object, anyOf: [{type: object}]}",
        expect![
            "spec.validation.openAPIV3Schema.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural"
        ],
    );
    check_definition(
        "spec: {type: string, pattern: 'a('}",
        expect![[
            r#"spec.validation.openAPIV3Schema.properties[spec].pattern: Invalid value: "a(": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `a(`"#
        ]],
    );
    check_definition(
        "spec: {type: integer, default: a}",
        expect![[
            r#"spec.validation.openAPIV3Schema.properties[spec].default: Invalid value: "string":  in body must be of type integer: "string""#
        ]],
    );
    check_definition(
        "spec: {type: thing}",
        expect![[
            r#"spec.validation.openAPIV3Schema.properties[spec].type: Unsupported value: "thing": supported values: "array", "boolean", "integer", "number", "object", "string""#
        ]],
    );
    check_definition(
        "spec: {type: array, x-kubernetes-list-type: map, items: {type: object}}",
        expect![
            "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"
        ],
    );
    check_definition(
        "spec: {type: object, uniqueItems: true, properties: {a: {type: string}}, additionalProperties: {type: string}}",
        expect![[r#"
        spec.validation.openAPIV3Schema.properties[spec].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic
        spec.validation.openAPIV3Schema.properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"#]],
    );
}

#[test]
fn rules_that_do_not_compile_are_refused() {
    let rule = |rule: &str| {
        format!(
            "spec: {{type: object, properties: {{n: {{type: integer}}, l: {{type: array, items: {{type: string}}}}}}, x-kubernetes-validations: [{{rule: \"{rule}\"}}]}}"
        )
    };
    check_definition(
        &rule("self.n > 'a'"),
        expect![[r#"
        spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.n \u003e 'a'","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:8: found no matching overload for '_>_' applied to '(int, string)'
         | self.n > 'a'
         | .......^"#]],
    );
    check_definition(
        &rule("self.m > 1"),
        expect![[r#"
        spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.m \u003e 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: undefined field 'm'
         | self.m > 1
         | ....^"#]],
    );
    check_definition(
        &rule("self.n + 1"),
        expect![[
            r#"spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.n + 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: cel expression must evaluate to a bool"#
        ]],
    );
    check_definition(
        &rule("self.n >"),
        expect![[r#"
        spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.n \u003e","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
         | self.n >
         | ........^"#]],
    );
    check_definition(
        &rule("self.l.all(x, self.l.all(y, x == y))"),
        expect![[r#"
        spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)
        spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema
        spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"#]],
    );
    check_definition(&rule("self.n > 1"), expect![""]);
}

#[test]
fn names_and_versions_are_checked() {
    let mut bad = definition("spec: {type: object}");
    bad["metadata"]["name"] = json!("gadgets.example.com");
    bad["spec"]["group"] = json!("example");
    bad["spec"]["scope"] = json!("World");
    bad["spec"]["names"]["plural"] = json!("Widgets");
    bad["spec"]["versions"][0]["storage"] = json!(false);
    bad["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{"name": "N", "type": "text", "jsonPath": "spec.n"}]);
    let lines: Vec<String> = crd::check_create(&bad)
        .iter()
        .map(|error| {
            let text = error.to_string();
            if text.len() > 300 { format!("{}: … {}", error.field, error.detail) } else { text }
        })
        .collect();
    expect![[r#"
        metadata.name: Invalid value: "gadgets.example.com": must be spec.names.plural+"."+spec.group
        spec.group: Invalid value: "example": should be a domain with at least one dot
        spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced"
        spec.versions[0].additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string
        spec.versions[0].additionalPrinterColumns[0].JSONPath: Invalid value: "spec.n": must be a simple json path starting with .
        spec.versions: … must have exactly one version marked as storage version
        spec.names.plural: Invalid value: "Widgets": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"#]].assert_eq(&lines.join("\n"));
}

fn bodies() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..200).prop_map(Value::from),
        "[a-z]{0,6}".prop_map(Value::from),
    ];
    let names = prop_oneof![
        Just("cpu"),
        Just("power"),
        Just("name"),
        Just("tags"),
        Just("disks"),
        Just("port"),
        Just("free"),
        Just("labels"),
        Just("note"),
        Just("size"),
        Just("other"),
    ];
    let tree = leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..5).prop_map(|map| {
                Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    });
    tree.prop_map(|spec| {
        let mut body = widget("{}");
        body["spec"] = spec;
        body
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoding_and_defaulting_twice_is_once(mut body in bodies()) {
        let ty = kind(SPEC);
        ty.decode(&mut body).expect("bodies have good metadata");
        ty.default(&mut body);
        let mut again = body.clone();
        let unknown = ty.decode(&mut again).expect("as before");
        prop_assert_eq!(unknown, Vec::<String>::new());
        ty.default(&mut again);
        prop_assert_eq!(&again, &body);
    }

    #[test]
    fn what_is_valid_stays_valid_with_its_defaults(mut body in bodies()) {
        let ty = kind(SPEC);
        ty.decode(&mut body).expect("bodies have good metadata");
        let before = ty.validate_create(&body).is_empty();
        ty.default(&mut body);
        prop_assert!(!before || ty.validate_create(&body).is_empty());
    }

    #[test]
    fn what_may_be_created_may_be_kept(mut body in bodies()) {
        let ty = kind(SPEC);
        ty.decode(&mut body).expect("bodies have good metadata");
        let errors = ty.validate_update(&body, &body, None);
        prop_assert!(!ty.validate_create(&body).is_empty() || errors.is_empty(), "{}", aggregate(&errors));
    }
}
