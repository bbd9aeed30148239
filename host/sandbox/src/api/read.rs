//! get, list and watch.

use super::{Call, json_bytes};
use crate::body::ApiBody;
use crate::error::ApiError;
use crate::faults::{Aim, Effect};
use crate::list;
use crate::negotiate::{self, IncludeObject};
use crate::resources::Offers;
use crate::sandbox::Inner;
use crate::show::View;
use crate::turn::Target;
use crate::verbs::scale;
use crate::watch;
use http::{Response, header};
use std::sync::Arc;

pub(super) fn answer(
    inner: &Arc<Inner>,
    call: &Call,
    target: &Target,
    verb: &str,
) -> Result<Response<ApiBody>, ApiError> {
    let include = match call.query.get("includeObject") {
        Some("None") => IncludeObject::None,
        Some("Object") => IncludeObject::Object,
        _ => IncludeObject::Metadata,
    };
    let view = View { target: target.clone(), form: negotiate::form(&call.headers, include)? };
    if view.form == negotiate::Form::Metadata && verb != "watch" {
        let list = verb == "list";
        negotiate::check_metadata_form(&call.headers, list, &go_type(target, list))?;
    }
    let aim = aim(target, verb);
    if let Some(fault) = inner.hit(&aim).filter(|fault| fault.effect == Effect::None) {
        return Err(fault.error());
    }
    match verb {
        "get" => get(inner, call, target, &view),
        "list" => {
            let mut page = list::list(&inner.read().store, target, &call.query)?;
            if target.resource.traits.offers == Offers::Reads {
                // What is not stored has no version.
                page.metadata = serde_json::json!({});
            }
            Ok(json_bytes(200, view.list(&page.metadata, &page.items, inner.now())))
        }
        _ => {
            let stream = watch::start(inner, &mut inner.write(), target, view, &call.query)?;
            let mut response = Response::new(ApiBody::stream(stream));
            super::set(&mut response, header::CONTENT_TYPE, "application/json");
            Ok(response)
        }
    }
}

/// The Go type of an object or a list of a kind: messages name it.
fn go_type(target: &Target, list: bool) -> String {
    let resource = &target.resource;
    let package = crate::resources::go_package(&resource.group);
    match (resource.is_custom(), list) {
        (true, true) => "*unstructured.UnstructuredList".to_owned(),
        (true, false) => "*unstructured.Unstructured".to_owned(),
        (false, true) => format!("*{package}.{}", resource.list_kind),
        (false, false) => format!("*{package}.{}", resource.kind),
    }
}

pub(super) fn aim<'a>(target: &'a Target, verb: &'a str) -> Aim<'a> {
    Aim {
        verb,
        kind: &target.resource.kind,
        plural: &target.resource.plural,
        subresource: &target.subresource,
        namespace: &target.namespace,
        name: &target.name,
    }
}

fn get(inner: &Arc<Inner>, call: &Call, target: &Target, view: &View) -> Result<Response<ApiBody>, ApiError> {
    let version = target.served();
    match target.subresource.as_str() {
        "" => {}
        "status" if version.status => {}
        "scale" if version.scale.is_some() => {}
        "binding" if target.resource.is("", "pods") => return Err(ApiError::no_method()),
        _ if target.resource.is_custom() => return Err(target.not_found()),
        _ => return Err(ApiError::no_resource()),
    }
    let (stored, current) = {
        let state = inner.read();
        let stored = state.store.get(target.resource.table, &target.key()).cloned();
        (stored, state.store.revision())
    };
    if let Some(asked) = list::revision(&call.query)?.filter(|asked| *asked > current) {
        return Err(list::too_new(asked, current));
    }
    let stored = stored.ok_or_else(|| target.not_found())?;
    if target.subresource == "scale" {
        return Ok(super::json_value(scale::read(target, &stored)?));
    }
    if view.is_verbatim() {
        return Ok(json_bytes(200, stored.json.clone()));
    }
    Ok(json_bytes(200, view.object(&stored, inner.now())))
}
