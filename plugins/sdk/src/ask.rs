//! Questions of a pass.
//!
//! A question is put by `.ask()` and read by `.read()`. Several that are put before the first is read are sent to the
//! host together, so that a pass needs few rounds:
//!
//! ```
//! # use evenkeel_sdk::{Pass, Stop};
//! # use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
//! # fn f(pass: &Pass) -> Result<(), Stop> {
//! let namespace = pass.get::<Namespace>("team-a").ask();
//! let quota = pass.get::<ResourceQuota>(("team-a", "limits")).ask();
//! let (namespace, quota) = (namespace.read()?, quota.read()?); // One round, not two.
//! # Ok(())
//! # }
//! ```

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::{
    Answer, ExternalQuery, Failure, FieldMatch, GetQuery, Gvk, Kind, ListQuery, Pass, Place, Query, Stop,
    reference,
};

/// Whether the API server serves a kind at all. "Not served" is never mixed with "none there".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served<T> {
    /// It does, and this is the answer.
    Yes(T),
    /// It does not; the pass is run again once it does.
    No,
}

impl<T> Served<T> {
    /// Whether the kind is served.
    pub fn is_served(&self) -> bool {
        matches!(self, Self::Yes(_))
    }

    /// The answer, or none where the kind is not served: for callers to whom an uninstalled kind *is* nothing.
    pub fn ok(self) -> Option<T> {
        match self {
            Self::Yes(answer) => Some(answer),
            Self::No => None,
        }
    }
}

/// A question that was put; reading it ends the round where the answer is not known yet.
#[must_use = "a question that nobody reads was put for nothing"]
pub struct Asked<'p, T> {
    answer: Option<&'p Answer>,
    query: Query,
    decode: fn(&Query, &Answer) -> Result<T, Stop>,
}

impl<T> Asked<'_, T> {
    /// The answer; `Stop::Ask` where the host has still to give it.
    pub fn read(self) -> Result<T, Stop> {
        match self.answer {
            Some(answer) => (self.decode)(&self.query, answer),
            None => Err(Stop::Ask),
        }
    }
}

impl<'p, T> Asked<'p, T> {
    pub(crate) fn put(pass: &'p Pass, query: Query, decode: fn(&Query, &Answer) -> Result<T, Stop>) -> Self {
        let answer = pass.answer(&query);
        if answer.is_none() {
            pass.note_question(&query);
        }
        Self { answer, query, decode }
    }
}

/// A question for one object.
#[must_use = "a question is put by `ask` or `read`"]
pub struct Get<'p, K> {
    pass: &'p Pass,
    query: GetQuery,
    kind: PhantomData<K>,
}

impl<'p, K: Kind + DeserializeOwned> Get<'p, K> {
    pub(crate) fn new(pass: &'p Pass, place: Place) -> Self {
        let view = view(K::pointers());
        Self { pass, query: GetQuery { object: reference::<K>(place), view }, kind: PhantomData }
    }

    /// Only these parts matter (JSON pointers): a change elsewhere does not run the pass again.
    pub fn view(mut self, pointers: &[&str]) -> Self {
        self.query.view = view(pointers);
        self
    }

    /// Puts the question; a kind that is not served fails the pass.
    pub fn ask(self) -> Asked<'p, Option<K>> {
        Asked::put(self.pass, Query::Get(self.query), |query, answer| served(query, object(query, answer)?))
    }

    /// Puts the question; that the kind is not served is an answer too.
    pub fn ask_if_served(self) -> Asked<'p, Served<Option<K>>> {
        Asked::put(self.pass, Query::Get(self.query), object)
    }

    /// [`Get::ask`] and [`Asked::read`] in one.
    pub fn read(self) -> Result<Option<K>, Stop> {
        self.ask().read()
    }

    /// [`Get::ask_if_served`] and [`Asked::read`] in one.
    pub fn read_if_served(self) -> Result<Served<Option<K>>, Stop> {
        self.ask_if_served().read()
    }
}

/// A question for every object of a kind that matches all of the conditions given.
#[must_use = "a question is put by `ask` or `read`"]
pub struct List<'p, K> {
    pass: &'p Pass,
    query: ListQuery,
    kind: PhantomData<K>,
}

impl<'p, K: Kind + DeserializeOwned> List<'p, K> {
    pub(crate) fn new(pass: &'p Pass) -> Self {
        let query = ListQuery {
            gvk: K::gvk(),
            namespace: None,
            labels: String::new(),
            fields: Vec::new(),
            controlled_by: None,
            view: view(K::pointers()),
        };
        Self { pass, query, kind: PhantomData }
    }

    /// Only this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.query.namespace = Some(namespace.to_owned());
        self
    }

    /// Only objects that match this label selector, as kubectl writes it.
    pub fn labels(mut self, selector: &str) -> Self {
        self.query.labels = selector.to_owned();
        self
    }

    /// Only objects whose field at `pointer` equals `value`. The host keeps an index, so this is cheap.
    pub fn field(mut self, pointer: &str, value: impl Into<serde_json::Value>) -> Self {
        let value = value.into().to_string();
        self.query.fields.push(FieldMatch { pointer: pointer.to_owned(), value });
        self
    }

    /// Only objects whose controller owner reference has this UID.
    pub fn controlled_by(mut self, uid: &str) -> Self {
        self.query.controlled_by = Some(uid.to_owned());
        self
    }

    /// Only these parts matter (JSON pointers): a change elsewhere does not run the pass again.
    pub fn view(mut self, pointers: &[&str]) -> Self {
        self.query.view = view(pointers);
        self
    }

    /// Puts the question; a kind that is not served fails the pass.
    pub fn ask(self) -> Asked<'p, Vec<K>> {
        Asked::put(self.pass, Query::List(self.query), |query, answer| served(query, objects(query, answer)?))
    }

    /// Puts the question; that the kind is not served is an answer too.
    pub fn ask_if_served(self) -> Asked<'p, Served<Vec<K>>> {
        Asked::put(self.pass, Query::List(self.query), objects)
    }

    /// [`List::ask`] and [`Asked::read`] in one.
    pub fn read(self) -> Result<Vec<K>, Stop> {
        self.ask().read()
    }

    /// [`List::ask_if_served`] and [`Asked::read`] in one.
    pub fn read_if_served(self) -> Result<Served<Vec<K>>, Stop> {
        self.ask_if_served().read()
    }
}

/// A question to a provider of the host.
#[must_use = "a question is put by `ask` or `read`"]
pub struct External<'p, T> {
    pass: &'p Pass,
    query: ExternalQuery,
    kind: PhantomData<T>,
}

impl<'p, T: DeserializeOwned> External<'p, T> {
    pub(crate) fn new(
        pass: &'p Pass,
        provider: &str,
        question: &str,
        arguments: &impl serde::Serialize,
    ) -> Self {
        let query = ExternalQuery {
            provider: provider.to_owned(),
            question: question.to_owned(),
            arguments: crate::act::json(arguments),
        };
        Self { pass, query, kind: PhantomData }
    }

    /// Puts the question. The inner error is the provider's word why there is no answer.
    pub fn ask(self) -> Asked<'p, Result<T, Failure>> {
        Asked::put(self.pass, Query::External(self.query), |query, answer| match answer {
            Answer::External(Ok(text)) => Ok(Ok(parse(query, text)?)),
            Answer::External(Err(failure)) => Ok(Err(failure.clone())),
            Answer::Object(_) | Answer::Objects(_) | Answer::Unserved | Answer::Time(_) => {
                Err(mismatch(query))
            }
        })
    }

    /// [`External::ask`] and [`Asked::read`] in one.
    pub fn read(self) -> Result<Result<T, Failure>, Stop> {
        self.ask().read()
    }
}

/// What a query asks about, for error texts.
pub(crate) fn query_text(query: &Query) -> String {
    match query {
        Query::Get(get) => crate::failure::object_text(&get.object),
        Query::List(list) => format!("list of {}", list.gvk.kind),
        Query::Clock => "clock".to_owned(),
        Query::External(external) => format!("{} of {}", external.question, external.provider),
    }
}

pub(crate) fn mismatch(query: &Query) -> Stop {
    Stop::transient(format!("the host gave another kind of answer to {}", query_text(query)))
}

/// The pointers of a view as the contract has them, one a line.
pub(crate) fn view(pointers: &[&str]) -> String {
    pointers.join("\n")
}

fn parse<T: DeserializeOwned>(query: &Query, text: &str) -> Result<T, Stop> {
    // The error of serde may quote a value, and the object may be a Secret: only its place in the text is told.
    serde_json::from_str(text).map_err(|cause| {
        let (line, column) = (cause.line(), cause.column());
        Stop::invalid(format!("{} has an unexpected shape (line {line}, column {column})", query_text(query)))
    })
}

fn object<K: DeserializeOwned>(query: &Query, answer: &Answer) -> Result<Served<Option<K>>, Stop> {
    match answer {
        Answer::Object(None) => Ok(Served::Yes(None)),
        Answer::Object(Some(text)) => Ok(Served::Yes(Some(parse(query, text)?))),
        Answer::Unserved => Ok(Served::No),
        Answer::Objects(_) | Answer::Time(_) | Answer::External(_) => Err(mismatch(query)),
    }
}

fn objects<K: DeserializeOwned>(query: &Query, answer: &Answer) -> Result<Served<Vec<K>>, Stop> {
    match answer {
        Answer::Objects(texts) => {
            texts.iter().map(|text| parse(query, text)).collect::<Result<_, _>>().map(Served::Yes)
        }
        Answer::Unserved => Ok(Served::No),
        Answer::Object(_) | Answer::Time(_) | Answer::External(_) => Err(mismatch(query)),
    }
}

fn kind_text(gvk: &Gvk) -> String {
    if gvk.group.is_empty() { gvk.kind.clone() } else { format!("{}.{}", gvk.kind, gvk.group) }
}

fn served<T>(query: &Query, answer: Served<T>) -> Result<T, Stop> {
    let gvk: &Gvk = match query {
        Query::Get(get) => &get.object.gvk,
        Query::List(list) => &list.gvk,
        Query::Clock | Query::External(_) => return Err(mismatch(query)),
    };
    match answer {
        Served::Yes(answer) => Ok(answer),
        Served::No => Err(Stop::not_found(format!("the API server does not serve {}", kind_text(gvk)))),
    }
}
