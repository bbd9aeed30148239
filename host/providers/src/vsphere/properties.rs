//! Reads properties. Whatever is asked for while one read is under way goes into the next one together, so that many
//! machines cost one call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::data::{Data, MoRef, Object};
use super::limits::{OBJECTS_PER_READ_MAX, PAGES_PER_READ_MAX};
use super::session::Session;
use super::vcenter::{Call, CallError, Fault};

/// The properties of an object, by path; a path without a value is left out.
pub(crate) type Properties = BTreeMap<String, Data>;

/// Property paths.
pub(crate) type Paths = &'static [&'static str];

/// What reading one object came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Found(Properties),
    /// vCenter answered, and it is not there.
    Absent,
    /// It is there, and we may not see it.
    Refused(Fault),
}

impl Read {
    /// The properties, where it is there; being refused is an error.
    pub(crate) fn found(self) -> Result<Option<Properties>, CallError> {
        match self {
            Self::Found(properties) => Ok(Some(properties)),
            Self::Absent => Ok(None),
            Self::Refused(fault) => Err(CallError::Fault(fault)),
        }
    }
}

struct Want {
    object: MoRef,
    paths: Paths,
    reply: oneshot::Sender<Result<Read, CallError>>,
}

/// Hands reads to the task that bundles them.
pub(crate) struct Reader {
    wants: mpsc::UnboundedSender<Want>,
}

impl Reader {
    /// With the task that reads; it ends with the reader.
    pub(crate) fn new(session: Arc<Session>) -> (Self, impl Future<Output = ()> + Send) {
        // Each want belongs to a caller that waits for it: they are as many as there are callers.
        let (wants, mut wanted) = mpsc::unbounded_channel::<Want>();
        let task = async move {
            let mut batch = Vec::new();
            while wanted.recv_many(&mut batch, OBJECTS_PER_READ_MAX).await > 0 {
                read_batch(&session, std::mem::take(&mut batch)).await;
            }
        };
        (Self { wants }, task)
    }

    /// Reads properties of one object.
    pub(crate) async fn read(&self, object: &MoRef, paths: Paths) -> Result<Read, CallError> {
        let (reply, read) = oneshot::channel();
        let want = Want { object: object.clone(), paths, reply };
        let gone = || CallError::Unreachable("the connection was given up".to_owned());
        self.wants.send(want).map_err(|_| gone())?;
        read.await.map_err(|_| gone())?
    }

    /// Reads the same properties of several objects, in their order.
    pub(crate) async fn read_all(&self, objects: &[MoRef], paths: Paths) -> Result<Vec<Read>, CallError> {
        futures::future::try_join_all(objects.iter().map(|object| self.read(object, paths))).await
    }
}

async fn read_batch(session: &Session, batch: Vec<Want>) {
    let mut paths: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for want in &batch {
        paths.entry(&want.object.kind).or_default().extend(want.paths);
    }
    let objects: BTreeSet<&MoRef> = batch.iter().map(|want| &want.object).collect();
    let result = retrieve(session, &paths, &objects).await;
    let alone = objects.len() == 1;
    for want in batch {
        let read = match &result {
            Ok(found) => Ok(found.get(&want.object).cloned().unwrap_or(Read::Absent)),
            // Old servers tell of a single object's absence by a fault of the whole.
            Err(error) if alone && error.is_fault("ManagedObjectNotFound") => Ok(Read::Absent),
            Err(error) => Err(error.clone()),
        };
        // Whoever asked may have been given up.
        let _ = want.reply.send(read);
    }
}

async fn retrieve(
    session: &Session,
    paths: &BTreeMap<&str, BTreeSet<&str>>,
    objects: &BTreeSet<&MoRef>,
) -> Result<BTreeMap<MoRef, Read>, CallError> {
    let content = session.content().await?;
    let call = Call::new(&content.property_collector, "RetrievePropertiesEx")
        .with("specSet", vec![filter_spec(paths, objects)])
        .with("options", Object::new("RetrieveOptions"));
    let mut found = BTreeMap::new();
    let mut page = session.call(&call).await?;
    for _ in 0..PAGES_PER_READ_MAX {
        for object in page.items_of("objects") {
            let (reference, read) = object_content(object)?;
            found.insert(reference, read);
        }
        let token = page.text_of("token").into_owned();
        if token.is_empty() {
            return Ok(found);
        }
        let next =
            Call::new(&content.property_collector, "ContinueRetrievePropertiesEx").with("token", token);
        page = session.call(&next).await?;
    }
    Err(CallError::BadAnswer("a property read has no end".to_owned()))
}

/// Which properties of which kinds, as vCenter wants to be told.
pub(crate) fn property_specs(paths: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Object> {
    let specs = paths.iter().map(|(kind, paths)| {
        let paths: Vec<&str> = paths.iter().copied().collect();
        Object::new("PropertySpec").with("type", *kind).with("pathSet", paths)
    });
    specs.collect()
}

/// What to read of which objects.
fn filter_spec(paths: &BTreeMap<&str, BTreeSet<&str>>, objects: &BTreeSet<&MoRef>) -> Object {
    let objects: Vec<Object> =
        objects.iter().map(|object| Object::new("ObjectSpec").with("obj", *object)).collect();
    Object::new("PropertyFilterSpec")
        .with("propSet", property_specs(paths))
        .with("objectSet", objects)
        .with("reportMissingObjectsInResults", true)
}

fn object_content(content: &Data) -> Result<(MoRef, Read), CallError> {
    let reference = content
        .get("obj")
        .and_then(Data::reference)
        .ok_or_else(|| CallError::BadAnswer("an object of a property read has no reference".to_owned()))?;
    let properties: Properties = content
        .items_of("propSet")
        .iter()
        .filter_map(|property| Some((property.text_of("name").into_owned(), property.get("val")?.clone())))
        .collect();
    // An unset path is left out silently; only a refusal of everything is told of.
    let refused = content.items_of("missingSet").iter().find_map(|missing| {
        let fault = super::fault::read(missing.get("fault")?);
        (fault.kind == "NoPermission").then_some(fault)
    });
    let read = match refused {
        Some(fault) if properties.is_empty() => Read::Refused(fault),
        Some(_) | None => Read::Found(properties),
    };
    Ok((reference.clone(), read))
}
