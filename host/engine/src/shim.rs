#![allow(missing_docs)]
pub mod record {
    use evenkeel_core::contract::*;
    use serde::{Serialize, Deserialize};
    #[derive(Clone, Debug, Serialize, Deserialize)]
    pub enum Trigger { Changed{object: ObjectRef}, Synced{gvk: Gvk}, Serving{gvk: Gvk, served: bool}, Enqueued{by: ObjectRef}, Retry, Requeue, Resync, Loaded }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    pub struct PassRecord { pub key: ObjectRef }
    impl PassRecord { pub fn bytes(&self) -> usize { 100 } }
}
pub mod admit {
    use evenkeel_core::contract::*;
    use evenkeel_core::object::CachedObject;
    use serde_json::{json, Value};
    pub use evenkeel_cluster::admit_shim::Write;
    pub enum Verdict { Send(Write), Skip(()), Fail(Failure), Elsewhere }
    pub struct Circumstances<'a> { pub manager: &'a str, pub primary: Option<&'a CachedObject>, pub seen: Option<&'a CachedObject>, pub answered: &'a Answered }
    #[derive(Default)]
    pub struct Answered;
    pub fn admit(t: &evenkeel_core::target::ActionTarget<'_>, c: &Circumstances<'_>) -> Verdict {
        let manager = c.manager.to_owned();
        let object = t.object().cloned();
        let mut body = Value::Object(t.body().clone());
        let own = |apply: &Apply, body: &mut Value| {
            if apply.controlled && let Some(p) = c.primary {
                body["metadata"]["ownerReferences"] = json!([{"apiVersion": p.gvk().api_version(), "kind": p.gvk().kind, "name": p.head().name, "uid": p.head().uid, "controller": true, "blockOwnerDeletion": true}]);
            }
        };
        let guard = |body: &mut Value| if let Some(s) = c.seen { body["metadata"]["resourceVersion"] = json!(s.head().resource_version); body["metadata"]["uid"] = json!(s.head().uid); };
        let finalizers = |f: Vec<String>| { let mut b = json!({"metadata": {"finalizers": f}}); guard(&mut b); b };
        match t.action() {
            Action::Create(a) => { own(a, &mut body); Verdict::Send(Write::Create { object: object.unwrap(), body: body.to_string().into(), manager }) }
            Action::Apply(a) | Action::ApplyStatus(a) => {
                own(a, &mut body);
                let subresource = matches!(t.action(), Action::ApplyStatus(_)).then_some("status");
                if let Some(s) = c.seen { body["metadata"]["uid"] = json!(s.head().uid);
                    let whole: Value = serde_json::from_str(s.json()).unwrap();
                    let mut merged = whole.clone(); json_merge(&mut merged, &body);
                    if merged == whole && s.managed(&manager, subresource).is_some() { return Verdict::Skip(()); }
                }
                Verdict::Send(Write::Apply { object: object.unwrap(), body: body.to_string().into(), manager, force: a.force, subresource })
            }
            Action::Delete(d) => match c.seen { None => Verdict::Skip(()), Some(s) => Verdict::Send(Write::Delete { object: d.object.clone(), uid: d.uid.clone().or(Some(s.head().uid.clone())), resource_version: None, propagation: d.propagation }) },
            Action::AddFinalizer(f) => { let s = c.seen.unwrap(); let mut list: Vec<String> = s.head().finalizers.iter().map(|x| x.to_string()).collect(); if list.contains(&f.name) { return Verdict::Skip(()); } list.push(f.name.clone()); Verdict::Send(Write::Patch { object: f.object.clone(), body: finalizers(list).to_string().into(), manager, subresource: None }) }
            Action::RemoveFinalizer(f) => { let Some(s) = c.seen else { return Verdict::Skip(()) }; let mut list: Vec<String> = s.head().finalizers.iter().map(|x| x.to_string()).collect(); if !list.contains(&f.name) { return Verdict::Skip(()); } list.retain(|x| *x != f.name); Verdict::Send(Write::Patch { object: f.object.clone(), body: finalizers(list).to_string().into(), manager, subresource: None }) }
            Action::Patch(p) => { guard(&mut body); Verdict::Send(Write::Patch { object: p.object.clone(), body: body.to_string().into(), manager, subresource: None }) }
            Action::Publish(e) => Verdict::Send(Write::Publish(e.clone())),
            Action::Enqueue(_) | Action::External(_) => Verdict::Elsewhere,
        }
    }
    fn json_merge(a: &mut Value, b: &Value) {
        match (a, b) { (Value::Object(a), Value::Object(b)) => for (k, v) in b { json_merge(a.entry(k.clone()).or_insert(Value::Null), v) }, (a, b) => *a = b.clone() }
    }
}
pub mod manifest {
    use evenkeel_core::contract::*;
    #[derive(Debug, thiserror::Error)]
    #[error("bad")]
    pub struct ManifestFault;
    pub fn check(_: &Manifest) -> Result<(), Vec<ManifestFault>> { Ok(()) }
}
