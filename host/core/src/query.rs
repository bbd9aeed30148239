//! A query made ready once: its selector, pointers and view parsed, its limits checked.

use crate::canonical::canonical_text;
use crate::contract::{Failure, FailureKind, GetQuery, Gvk, Json, ListQuery, ObjectRef, Query};
use crate::fingerprint::{Fingerprint, Hasher};
use crate::limits::{ARGUMENTS_BYTES_MAX, FIELD_MATCHES_MAX, FIELD_VALUE_BYTES_MAX};
use crate::names::{self, NameError};
use crate::object::CachedObject;
use crate::pointer::{Pointer, PointerError};
use crate::selector::{Selector, SelectorError};
use crate::view::{View, ViewError};

/// Why a query is none that the host can answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryFault {
    /// A kind, name or namespace that no object can have.
    #[error("a query for {what} {text:?}: {cause}")]
    Name {
        /// Which of them.
        what: &'static str,
        /// What was given.
        text: String,
        /// What is wrong with it.
        cause: NameError,
    },
    /// Its view.
    #[error(transparent)]
    View(#[from] ViewError),
    /// Its label selector.
    #[error("a query with the label selector {text:?}: {cause}")]
    Selector {
        /// What was given.
        text: String,
        /// What is wrong with it.
        cause: SelectorError,
    },
    /// A field match's pointer.
    #[error("a query with the field {text:?}: {cause}")]
    Field {
        /// What was given.
        text: String,
        /// What is wrong with it.
        cause: PointerError,
    },
    /// A field match's value, or a provider's arguments.
    #[error("a query with a value that is no JSON or longer than {max} bytes")]
    Value {
        /// The most that is taken.
        max: usize,
    },
    /// Too many field matches.
    #[error("a query with {given} field matches, at most {FIELD_MATCHES_MAX} are allowed")]
    TooManyFields {
        /// So many were given.
        given: usize,
    },
}

impl QueryFault {
    /// The failure of the pass that asked: only another input or another plugin makes it better.
    pub fn failure(&self) -> Failure {
        Failure::new(FailureKind::Invalid, self.to_string())
    }
}

/// A query that is made ready.
#[derive(Clone, Debug)]
pub struct Prepared {
    query: Query,
    form: Form,
    id: Fingerprint,
}

#[derive(Clone, Debug)]
enum Form {
    Get { view: View },
    List { selector: Selector, fields: Vec<(Pointer, Json)>, view: View },
    Clock,
    External,
}

/// A missing field is matched by this value, as is one that is null.
const MISSING: &str = "null";

impl Prepared {
    /// Checks a query and makes it ready.
    pub fn new(query: Query) -> Result<Self, QueryFault> {
        let form = match &query {
            Query::Get(get) => {
                kind(&get.object.gvk)?;
                namespace(get.object.namespace.as_deref())?;
                name("object", &get.object.name, names::object_name)?;
                Form::Get { view: View::parse(&get.view)? }
            }
            Query::List(list) => list_form(list)?,
            Query::Clock => Form::Clock,
            Query::External(external) => {
                let arguments = &external.arguments;
                if arguments.len() > ARGUMENTS_BYTES_MAX || canonical_text(arguments).is_none() {
                    return Err(QueryFault::Value { max: ARGUMENTS_BYTES_MAX });
                }
                Form::External
            }
        };
        let id = id_of(&query);
        Ok(Self { query, form, id })
    }

    /// The host's own question, whether an object has drifted: a view may be about more than a plugin can ask for.
    ///
    /// # Errors
    /// If no object can have that name.
    pub fn watching(object: ObjectRef, view: View) -> Result<Self, QueryFault> {
        // The query itself says no more than how much of the object is to be watched.
        let pointers = view.pointers().iter().map(Pointer::as_str);
        let of_metadata = pointers.clone().all(|pointer| pointer.starts_with("/metadata/"));
        let pointers = pointers.filter(|_| of_metadata).map(str::to_owned).collect();
        let Self { query, form: _, id } = Self::new(Query::Get(GetQuery { object, view: pointers }))?;
        let mut hasher = Hasher::new("watching");
        hasher.number(id.0);
        hasher.number(view.id());
        Ok(Self { query, form: Form::Get { view }, id: hasher.finish() })
    }

    /// As it was put.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Names the query: equal queries have equal ids.
    pub fn id(&self) -> Fingerprint {
        self.id
    }

    /// The kind that it is about; none for the clock and for providers.
    pub fn gvk(&self) -> Option<&Gvk> {
        match &self.query {
            Query::Get(get) => Some(&get.object.gvk),
            Query::List(list) => Some(&list.gvk),
            Query::Clock | Query::External(_) => None,
        }
    }

    /// The part of each object that it is about.
    pub fn view(&self) -> Option<&View> {
        match &self.form {
            Form::Get { view } | Form::List { view, .. } => Some(view),
            Form::Clock | Form::External => None,
        }
    }

    /// Whether the answer holds this object of the query's kind.
    pub fn selects(&self, object: &CachedObject) -> bool {
        match (&self.query, &self.form) {
            (Query::Get(get), Form::Get { .. }) => {
                get.object.name == object.head().name && get.object.namespace == object.head().namespace
            }
            (Query::List(list), Form::List { selector, fields, .. }) => {
                let head = object.head();
                (list.namespace.is_none() || list.namespace == head.namespace)
                    && list
                        .controlled_by
                        .as_deref()
                        .is_none_or(|uid| head.controller_uid.as_deref() == Some(uid))
                    && selector.matches(&head.labels)
                    && fields.iter().all(|(pointer, value)| value_at(object, pointer) == *value)
            }
            _ => false,
        }
    }

    /// Its field matches, the values canonical.
    pub fn fields(&self) -> &[(Pointer, Json)] {
        match &self.form {
            Form::List { fields, .. } => fields,
            Form::Get { .. } | Form::Clock | Form::External => &[],
        }
    }

    /// Its label selector, where it has one.
    pub fn selector(&self) -> Option<&Selector> {
        match &self.form {
            Form::List { selector, .. } => Some(selector),
            Form::Get { .. } | Form::Clock | Form::External => None,
        }
    }
}

/// The canonical value of an object's field, as field matches compare it: a missing one is null.
pub fn value_at(object: &CachedObject, pointer: &Pointer) -> Json {
    object.field(pointer).unwrap_or_else(|| MISSING.into())
}

fn list_form(list: &ListQuery) -> Result<Form, QueryFault> {
    kind(&list.gvk)?;
    namespace(list.namespace.as_deref())?;
    if list.fields.len() > FIELD_MATCHES_MAX {
        return Err(QueryFault::TooManyFields { given: list.fields.len() });
    }
    let selector = Selector::parse(&list.labels)
        .map_err(|cause| QueryFault::Selector { text: list.labels.clone(), cause })?;
    let mut fields = Vec::with_capacity(list.fields.len());
    for field in &list.fields {
        let pointer = Pointer::parse(&field.pointer)
            .map_err(|cause| QueryFault::Field { text: field.pointer.clone(), cause })?;
        let value = Some(&field.value).filter(|value| value.len() <= FIELD_VALUE_BYTES_MAX);
        let value = value.and_then(|value| canonical_text(value));
        fields.push((pointer, value.ok_or(QueryFault::Value { max: FIELD_VALUE_BYTES_MAX })?.into()));
    }
    Ok(Form::List { selector, fields, view: View::parse(&list.view)? })
}

fn kind(gvk: &Gvk) -> Result<(), QueryFault> {
    names::kind(gvk).map_err(|cause| QueryFault::Name { what: "kind", text: gvk.to_string(), cause })
}

fn namespace(namespace: Option<&str>) -> Result<(), QueryFault> {
    namespace.map_or(Ok(()), |text| name("namespace", text, names::dns_label))
}

fn name(
    what: &'static str,
    text: &str,
    check: impl Fn(&str) -> Result<(), NameError>,
) -> Result<(), QueryFault> {
    check(text).map_err(|cause| QueryFault::Name { what, text: text.to_owned(), cause })
}

fn id_of(query: &Query) -> Fingerprint {
    let mut hasher = Hasher::new("query");
    let kind = |hasher: &mut Hasher, gvk: &Gvk| {
        [&gvk.group, &gvk.version, &gvk.kind].into_iter().for_each(|part| hasher.text(part));
    };
    let view = |hasher: &mut Hasher, view: &[String]| {
        hasher.number(view.len() as u64);
        view.iter().for_each(|pointer| hasher.text(pointer));
    };
    match query {
        Query::Get(get) => {
            hasher.text("get");
            kind(&mut hasher, &get.object.gvk);
            hasher.maybe(get.object.namespace.as_deref());
            hasher.text(&get.object.name);
            view(&mut hasher, &get.view);
        }
        Query::List(list) => {
            hasher.text("list");
            kind(&mut hasher, &list.gvk);
            hasher.maybe(list.namespace.as_deref());
            hasher.text(&list.labels);
            hasher.number(list.fields.len() as u64);
            for field in &list.fields {
                hasher.text(&field.pointer);
                hasher.text(&field.value);
            }
            hasher.maybe(list.controlled_by.as_deref());
            view(&mut hasher, &list.view);
        }
        Query::Clock => hasher.text("clock"),
        Query::External(external) => {
            hasher.text("external");
            hasher.text(&external.provider);
            hasher.text(&external.question);
            hasher.text(&external.arguments);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{object, query};

    #[test]
    fn a_query_selects_by_every_condition_at_once() {
        let vm = object(
            "kind: VirtualMachine, ns: a, name: x, labels: {app: web}, owner: u1, spec: {size: 2, host: n1}",
        );
        for (text, selects) in [
            ("get VirtualMachine a/x", true),
            ("get VirtualMachine a/y", false),
            ("get VirtualMachine x", false),
            ("list VirtualMachine", true),
            ("list VirtualMachine ns=a labels=app=web owner=u1 /spec/size=2", true),
            ("list VirtualMachine ns=b", false),
            ("list VirtualMachine labels=app!=web", false),
            ("list VirtualMachine owner=u2", false),
            ("list VirtualMachine /spec/size=2.0", true),
            ("list VirtualMachine /spec/size=\"2\"", false),
            ("list VirtualMachine /spec/host=\"n1\" /spec/size=3", false),
            ("list VirtualMachine /spec/none=null", true),
            ("list VirtualMachine /spec/host=null", false),
            ("clock", false),
        ] {
            assert_eq!(query(text).selects(&vm), selects, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_answered_is_refused_in_words() {
        let check = |query: Query, text: &str| {
            assert_eq!(Prepared::new(query).expect_err("a fault").to_string(), text);
        };
        let list = |change: fn(&mut ListQuery)| {
            let Query::List(mut list) = query("list Pod").query().clone() else { panic!("a list") };
            change(&mut list);
            Query::List(list)
        };
        let mut get = query("get Pod a/x").query().clone();
        if let Query::Get(get) = &mut get {
            get.object.name = "../x".into();
        }
        check(get, "a query for object \"../x\": '/' may not stand there");
        check(list(|list| list.namespace = Some("".into())), "a query for namespace \"\": it is empty");
        check(
            list(|list| list.labels = "a=".repeat(2)),
            "a query with the label selector \"a=a=\": expected ',' or the end, found '=' at byte 3",
        );
        check(list(|list| list.view = vec!["x".into()]), "\"x\" is no JSON pointer");
        let field = |pointer: &str, value: &str| crate::contract::FieldMatch {
            pointer: pointer.into(),
            value: value.into(),
        };
        let mut bad = list(|_| {});
        if let Query::List(list) = &mut bad {
            list.fields = vec![field("/a", "{")];
        }
        check(bad.clone(), "a query with a value that is no JSON or longer than 1024 bytes");
        if let Query::List(list) = &mut bad {
            list.fields = vec![field("a", "1")];
        }
        check(bad.clone(), "a query with the field \"a\": a JSON pointer starts with '/'");
        if let Query::List(list) = &mut bad {
            list.fields = vec![field("/a", "1"); 9];
        }
        check(bad, "a query with 9 field matches, at most 8 are allowed");
    }

    #[test]
    fn different_queries_have_different_ids() {
        let texts = [
            "get Pod a/x",
            "get Pod x",
            "list Pod",
            "list Pod ns=a",
            "list Pod labels=a",
            "list Pod owner=a",
            "clock",
        ];
        let ids: std::collections::BTreeSet<_> = texts.iter().map(|text| query(text).id()).collect();
        assert_eq!(ids.len(), texts.len());
        assert_eq!(query("list Pod ns=a").id(), query("list Pod ns=a").id());
    }
}
