//! Small hand-written guests: what each does is a few lines of WebAssembly text.

use evenkeel_core::contract::{Gvk, ObjectRef, Request};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// A guest in parts; each part is WebAssembly text.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Imports, which come first in a module.
    pub imports: String,
    /// Functions, globals and data besides those that every guest has.
    pub items: String,
    /// The body of `describe`; it leaves the address of a manifest.
    pub describe: String,
    /// The body of `reconcile`; it leaves the address of a result.
    pub reconcile: String,
    /// Pages of memory to begin with.
    pub pages: u32,
    /// The contract's version that it was made for.
    pub version: String,
}

/// Where the manifest lies: name, version and summary, and lists that are empty.
pub const MANIFEST: &str = "i32.const 64";
/// Where the result lies: success, `finish`, nothing to do.
pub const REPLY: &str = "i32.const 256";

impl Default for Guest {
    fn default() -> Self {
        Self {
            imports: String::new(),
            items: String::new(),
            describe: MANIFEST.to_owned(),
            reconcile: REPLY.to_owned(),
            pages: 2,
            version: "0.1.0".to_owned(),
        }
    }
}

/// A guest that does this in `reconcile` and then answers that there is nothing to do.
pub fn that(reconcile: &str) -> Guest {
    Guest { reconcile: format!("{reconcile}\n{REPLY}"), ..Guest::default() }
}

impl Guest {
    /// More functions, globals and data.
    pub fn with(self, items: &str) -> Self {
        Self { items: items.to_owned(), ..self }
    }

    /// The core module.
    pub fn module(&self) -> Vec<u8> {
        let Self { imports, items, describe, reconcile, pages, version } = self;
        let text = format!(
            r#"(module $guest
              {imports}
              (memory (export "memory") {pages})
              (global $heap (mut i32) (i32.const 4096))
              (data (i32.const 16) "trial0.1.0does little")
              (data (i32.const 64) "\10\00\00\00\05\00\00\00\15\00\00\00\05\00\00\00\1a\00\00\00\0b\00\00\00")
              (data (i32.const 264) "\02")
              {items}
              (func $alloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                (global.set $heap (i32.add (local.get $at) (local.get 3)))
                (block $fits
                  (br_if $fits (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
                  (br_if $fits (i32.ne (i32.const -1) (memory.grow
                    (i32.add (i32.const 1) (i32.div_u (local.get 3) (i32.const 65536))))))
                  unreachable)
                (local.get $at))
              (func $describe (export "evenkeel:reconciler/guest@{version}#describe") (result i32) {describe})
              (func $reconcile (export "evenkeel:reconciler/guest@{version}#reconcile") (param i32) (result i32)
                {reconcile}))"#
        );
        wat::parse_str(&text).expect("the text is a module")
    }

    /// The component of the contract's world.
    pub fn build(&self) -> Vec<u8> {
        let mut resolve = Resolve::default();
        let (package, _) =
            resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit")).expect("the contract parses");
        self.build_for(&resolve, package)
    }

    /// The component of another version of the same contract.
    pub fn build_version(&self, version: &str) -> Vec<u8> {
        let wit = contract().replace("reconciler@0.1.0", &format!("reconciler@{version}"));
        Self { version: version.to_owned(), ..self.clone() }.build_against(&wit)
    }

    /// A component of another contract, given as WIT, whose world is called `reconciler` too.
    pub fn build_against(&self, wit: &str) -> Vec<u8> {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("other.wit", wit).expect("the other contract parses");
        self.build_for(&resolve, package)
    }

    fn build_for(&self, resolve: &Resolve, package: wit_parser::PackageId) -> Vec<u8> {
        let world = resolve.select_world(&[package], Some("reconciler")).expect("there is a world");
        let mut module = self.module();
        embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8)
            .expect("it takes metadata");
        let mut encoder = ComponentEncoder::default().module(&module).expect("it is a guest").validate(true);
        encoder.encode().expect("it becomes a component")
    }
}

/// The contract's text in one piece, for variations of it.
pub fn contract() -> String {
    let read = |name: &str| {
        let path = format!("{}/../../wit/{name}.wit", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).expect("the contract is there")
    };
    let (world, guest, types) = (read("world"), read("guest"), read("types"));
    format!("{world}\n{types}\n{guest}")
}

/// A request about a small object.
pub fn request() -> Request {
    Request {
        controller: "trial".into(),
        key: ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("default"), "a"),
        primary: Some(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#.into()),
        last_seen: None,
        observations: vec![],
        performed: vec![],
        last_failure: None,
        config: "{}".into(),
    }
}
