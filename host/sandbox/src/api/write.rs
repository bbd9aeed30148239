//! create, update, patch, apply and delete.

use super::read::aim;
use super::{Call, json_bytes, json_value, refusal, warn};
use crate::audit::WriteRecord;
use crate::body::ApiBody;
use crate::error::{ApiError, Subject};
use crate::faults::Effect;
use crate::list;
use crate::negotiate::{self, IncludeObject};
use crate::sandbox::Inner;
use crate::schema::FieldError;
use crate::show::View;
use crate::turn::{FieldValidation, Target, Turn, WriteOptions};
use crate::verbs::bind;
use crate::verbs::delete::{DeleteOptions, Deleted, success};
use crate::verbs::patch::PatchKind;
use crate::verbs::scale;
use crate::verbs::update::Written;
use http::Response;
use std::sync::Arc;

/// Longest name of a field manager.
const MANAGER_MAX: usize = 128;

pub(super) fn answer(
    inner: &Arc<Inner>,
    call: &Call,
    target: &Target,
    verb: &str,
) -> Result<Response<ApiBody>, ApiError> {
    let fault = inner.hit(&aim(target, verb));
    let before = inner.read().store.revision();
    let mut record = record(call, target, verb);
    let lost = fault.as_ref().filter(|fault| fault.effect == Effect::None).map(|fault| fault.error());
    let mut warnings = Vec::new();
    let result = match lost {
        Some(error) => Err(error),
        None => carry_out(inner, call, target, verb, &mut record, &mut warnings),
    };
    let result = match fault {
        Some(fault) if fault.effect == Effect::Written && result.is_ok() => Err(fault.error()),
        _ => result,
    };
    let mut response = result.unwrap_or_else(|error| refusal(&error));
    warn(&mut response, &warnings);
    record.code = response.status().as_u16();
    record.revision = inner.read().store.revision();
    record.changed = record.revision != before;
    inner.audit().add(record);
    Ok(response)
}

fn record(call: &Call, target: &Target, verb: &str) -> WriteRecord {
    WriteRecord {
        verb: verb.to_owned(),
        group: target.resource.group.clone(),
        version: target.served().name.clone(),
        kind: target.resource.kind.clone(),
        resource: target.resource.plural.clone(),
        subresource: target.subresource.clone(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        field_manager: manager(call),
        user_agent: call.user_agent().to_owned(),
        content_type: negotiate::content_type(&call.headers).to_owned(),
        force: call.query.flag("force"),
        dry_run: call.query.get("dryRun").is_some(),
        body: String::from_utf8_lossy(&call.body).into_owned(),
        ..WriteRecord::default()
    }
}

/// The field manager: what the client says, else its user agent up to the slash.
fn manager(call: &Call) -> String {
    if let Some(manager) = call.query.get("fieldManager") {
        return manager.to_owned();
    }
    let agent = call.user_agent().split('/').next().unwrap_or_default();
    let mut out = String::new();
    for c in agent.chars().filter(|c| !c.is_control()) {
        if out.len() + c.len_utf8() > MANAGER_MAX {
            break;
        }
        out.push(c);
    }
    out
}

/// Reads and checks the options of a write.
fn options(call: &Call, verb: &str) -> Result<WriteOptions, ApiError> {
    let kind = match verb {
        "create" => "CreateOptions",
        "update" => "UpdateOptions",
        _ => "PatchOptions",
    };
    let query = &call.query;
    let mut errors = Vec::new();
    let apply = verb == "apply";
    if apply && query.get("fieldManager").is_none() {
        errors.push(FieldError::required("fieldManager", "is required for apply patch"));
    }
    if verb == "patch" && query.has("force") {
        errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
    }
    let dry_run: Vec<&str> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
    if dry_run.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported("dryRun", serde_json::json!(dry_run), &["All"]));
    }
    if query.get("fieldManager").is_some_and(|manager| manager.len() > MANAGER_MAX) {
        errors.push(FieldError::too_long("fieldManager", 128));
    }
    let validation = match query.get("fieldValidation") {
        Some("Strict") => FieldValidation::Strict,
        Some("Ignore") => FieldValidation::Ignore,
        None | Some("Warn") => FieldValidation::Warn,
        Some(other) => {
            errors.push(FieldError::not_supported(
                "fieldValidation",
                other,
                &["", "Ignore", "Strict", "Warn"],
            ));
            FieldValidation::Warn
        }
    };
    if !errors.is_empty() {
        return Err(ApiError::invalid(Subject { group: "meta.k8s.io", kind }, "", &errors));
    }
    Ok(WriteOptions {
        manager: manager(call),
        dry_run: !dry_run.is_empty(),
        validation,
        force: query.flag("force"),
    })
}

fn carry_out(
    inner: &Arc<Inner>,
    call: &Call,
    target: &Target,
    verb: &str,
    record: &mut WriteRecord,
    warnings: &mut Vec<String>,
) -> Result<Response<ApiBody>, ApiError> {
    if let Some(error) = not_offered(target, verb) {
        return error;
    }
    match verb {
        "delete" | "deletecollection" => return delete(inner, call, target, verb),
        _ => {}
    }
    let patch = match verb {
        "patch" | "apply" => Some(patch_kind(call, target)?),
        _ => None,
    };
    let view =
        View { target: target.clone(), form: negotiate::form(&call.headers, IncludeObject::default())? };
    let yaml = patch.is_none() && negotiate::body_is_yaml(&call.headers)?;
    let options = options(call, verb)?;
    let now = inner.now();
    let mut state = inner.write();
    let mut turn = Turn::new(&mut state, now, options);
    if bind::is_for(target) {
        let bound = turn.bind(target, &call.body, yaml);
        turn.settle();
        warnings.append(&mut turn.warnings);
        let kept = state.keep();
        record.name = bound?;
        kept?;
        return Ok(json_bytes(201, bind::DONE));
    }
    let result = match (verb, target.subresource.as_str(), patch) {
        (_, "scale", patch) => turn.write_scale(target, patch, &call.body, yaml),
        ("create", _, _) => {
            turn.create(target, &call.body, yaml).map(|stored| Written { stored, created: true })
        }
        ("update", _, _) => turn.replace(target, &call.body, yaml),
        (_, _, Some(kind)) => turn.patch(target, kind, &call.body),
        _ => Err(ApiError::method_not_supported(target.resource.subject(), verb)),
    };
    turn.settle();
    // A request that is refused is warned of as well.
    warnings.append(&mut turn.warnings);
    let kept = state.keep();
    drop(state);
    let written = result?;
    kept?;
    record.name = written.stored.head.name.to_string();
    let code = if written.created { 201 } else { 200 };
    let response = if target.subresource == "scale" {
        json_value(scale::read(target, &written.stored)?)
    } else if view.is_verbatim() {
        json_bytes(code, written.stored.json.clone())
    } else {
        json_bytes(code, view.object(&written.stored, now))
    };
    Ok(response)
}

/// Subresources and verbs that the resource does not have.
fn not_offered(target: &Target, verb: &str) -> Option<Result<Response<ApiBody>, ApiError>> {
    let version = target.served();
    let known = match target.subresource.as_str() {
        "" => true,
        "status" => version.status,
        "scale" => version.scale.is_some(),
        "finalize" => target.resource.is("", "namespaces"),
        "binding" => target.resource.is("", "pods"),
        _ => false,
    };
    if !known {
        let custom = target.resource.is_custom();
        return Some(Err(if custom { target.not_found() } else { ApiError::no_resource() }));
    }
    let on_collection = target.name.is_empty();
    let allowed = match verb {
        "create" => {
            if on_collection {
                target.subresource.is_empty()
            } else {
                target.subresource == "binding"
            }
        }
        _ if target.subresource == "binding" => false,
        "update" => !on_collection,
        "patch" | "apply" => !on_collection && target.subresource != "finalize",
        "delete" => target.subresource.is_empty(),
        "deletecollection" => !target.resource.traits.no_collection_delete,
        _ => false,
    };
    let custom = target.resource.is_custom();
    if !allowed {
        return Some(Err(match custom {
            true => ApiError::method_not_supported(target.resource.subject(), verb),
            false => ApiError::no_method(),
        }));
    }
    // Only lists and watches go across namespaces.
    let homeless = verb == "create" && target.resource.namespaced && target.namespace.is_empty();
    homeless.then(|| if custom { Ok(super::not_found()) } else { Err(ApiError::no_method()) })
}

fn patch_kind(call: &Call, target: &Target) -> Result<PatchKind, ApiError> {
    let kind = PatchKind::of(negotiate::content_type(&call.headers));
    // Custom resources know no strategic merge.
    let custom = target.resource.is_custom() || target.subresource == "scale" && target.resource.is_custom();
    match kind {
        Some(PatchKind::Strategic) if custom => Err(unsupported_patch(true)),
        Some(kind) => Ok(kind),
        None if target.resource.is_custom() => Err(unsupported_patch(custom)),
        None => Err(ApiError::by_route(415, "UnsupportedMediaType", "415: Unsupported Media Type")),
    }
}

fn unsupported_patch(custom: bool) -> ApiError {
    let mut accepted = vec!["application/json-patch+json", "application/merge-patch+json"];
    if !custom {
        accepted.push("application/strategic-merge-patch+json");
    }
    accepted.push("application/apply-patch+yaml");
    ApiError::unsupported_media_type(&accepted)
}

fn delete(
    inner: &Arc<Inner>,
    call: &Call,
    target: &Target,
    verb: &str,
) -> Result<Response<ApiBody>, ApiError> {
    let view =
        View { target: target.clone(), form: negotiate::form(&call.headers, IncludeObject::default())? };
    let options = DeleteOptions::read(&call.body, &call.query)?;
    let now = inner.now();
    if verb == "deletecollection" {
        return delete_collection(inner, call, &view, &options);
    }
    let mut state = inner.write();
    let mut turn = Turn::new(&mut state, now, WriteOptions::default());
    let deleted = turn.delete(target, &options);
    turn.settle();
    let kept = state.keep();
    drop(state);
    let deleted = deleted?;
    kept?;
    let (code, stored) = match deleted {
        Deleted::Gone(last) if !target.resource.traits.returns_deleted => {
            return Ok(json_value(success(target, &last.head.uid)));
        }
        Deleted::Gone(last) => (200, last),
        Deleted::Pending(stored) => (if options.orphan == Some(false) { 202 } else { 200 }, stored),
    };
    Ok(json_bytes(code, view.object(&stored, now)))
}

fn delete_collection(
    inner: &Arc<Inner>,
    call: &Call,
    view: &View,
    options: &DeleteOptions,
) -> Result<Response<ApiBody>, ApiError> {
    let target = &view.target;
    let now = inner.now();
    let mut state = inner.write();
    let page = list::list(&state.store, target, &call.query)?;
    let mut turn = Turn::new(&mut state, now, WriteOptions::default());
    for stored in &page.items {
        let one = Target {
            namespace: stored.head.namespace.to_string(),
            name: stored.head.name.to_string(),
            ..target.clone()
        };
        match turn.delete(&one, options) {
            Ok(_) => {}
            Err(error) if error.code == 404 => {}
            Err(error) => {
                turn.settle();
                state.keep()?;
                return Err(error);
            }
        }
    }
    turn.settle();
    state.keep()?;
    drop(state);
    Ok(json_bytes(200, view.list(&page.metadata, &page.items, now)))
}
