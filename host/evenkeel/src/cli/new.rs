//! `evenkeel new`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use include_dir::{Dir, include_dir};

use super::Exit;
use crate::output::{say, word};

/// The SDK goes along until a registry serves it, so that a project builds wherever it is put.
static SDK: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../plugins/sdk");
static WIT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../wit");
const WORKSPACE: &str = include_str!("../../../../Cargo.toml");
/// The versions that the SDK was tested with. Cargo leaves those out that the project has no use for.
const LOCK: &str = include_str!("../../../../Cargo.lock");
const TEMPLATE: &[(&str, &str)] = &[
    ("src/lib.rs", include_str!("new/lib.rs.txt")),
    ("scenarios/greets.yaml", include_str!("new/greets.yaml.txt")),
    ("README.md", include_str!("new/README.md.txt")),
    (".gitignore", "/target\n"),
];

/// Create a plugin project
///
/// Makes a folder with a small working plugin in Rust, a test and a scenario.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel new greeter
  cd greeter && cargo test
  evenkeel build && evenkeel test .")]
pub struct NewArgs {
    /// Name of the plugin: 1 to 63 of a-z, 0-9 and -.
    name: String,
    /// Folder to make; the name where absent.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

pub fn run(args: NewArgs) -> anyhow::Result<Exit> {
    check_name(&args.name)?;
    let folder = args.path.unwrap_or_else(|| PathBuf::from(&args.name));
    if folder.exists() {
        bail!("{} exists already; choose another --path or remove it", folder.display());
    }
    create(&args.name, &folder)
        .with_context(|| format!("cannot make the project in {}", folder.display()))?;
    say!("Made the plugin {} in {}. Next:", args.name, folder.display())?;
    say!("  cd {}", quoted(&folder))?;
    say!("  cargo test         # the pass, natively, in milliseconds")?;
    say!("  evenkeel build     # the component")?;
    say!("  evenkeel test .    # the scenarios, on an embedded Kubernetes")?;
    Ok(Exit::Fine)
}

/// A path as `cd` takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let dashes = if text.starts_with('-') { "-- " } else { "" };
    format!("{dashes}{}", word(&text))
}

fn check_name(name: &str) -> anyhow::Result<()> {
    let fits = !name.is_empty()
        && name.len() <= 63
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-');
    if !fits {
        bail!(
            "{name:?} is no plugin name: use 1 to 63 of a-z, 0-9 and -, a letter first and no - at the end"
        );
    }
    // What a crate of that name would be in the way of: its own dependencies, the standard library, words of the language.
    if TAKEN.contains(&name) || is_used(name) {
        bail!(
            "{name:?} cannot be the name of a crate: it is one that the project itself uses; choose another"
        );
    }
    if KEYWORDS.contains(&name) {
        bail!("{name:?} cannot be the name of a crate: it is a word of Rust; choose another");
    }
    Ok(())
}

/// Whether the project uses a crate of that name: `serde-json` would be `serde_json` to Rust.
fn is_used(name: &str) -> bool {
    let of_crate = |name: &str| name.replace('-', "_");
    let manifest = manifest("");
    let used = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let mut used = used.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once(" = "));
    used.any(|(used, _)| of_crate(used) == of_crate(name))
}

/// Crates that each program has without naming them, and the one that the project is made of.
const TAKEN: &[&str] =
    &["alloc", "core", "evenkeel-sdk", "evenkeel-sdk-macros", "proc-macro", "proc_macro", "std", "test"];

/// The words of Rust that are written in small letters.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

fn create(name: &str, folder: &Path) -> anyhow::Result<()> {
    write(&folder.join("Cargo.toml"), &manifest(name))?;
    write(&folder.join("Cargo.lock"), LOCK)?;
    for (path, text) in TEMPLATE {
        write(
            &folder.join(path),
            &text.replace("{{name}}", name).replace("{{crate}}", &name.replace('-', "_")),
        )?;
    }
    // The SDK finds the contract at a place relative to its own, so both keep theirs.
    copy(&SDK, &folder.join("vendor/evenkeel/plugins/sdk"))?;
    copy(&WIT, &folder.join("vendor/evenkeel/wit"))
}

fn copy(from: &Dir<'_>, to: &Path) -> anyhow::Result<()> {
    for entry in from.entries() {
        match entry {
            include_dir::DirEntry::Dir(dir) => copy(dir, to)?,
            include_dir::DirEntry::File(file) => {
                let path = to.join(file.path());
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
                fs::write(&path, file.contents())
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The project's Cargo.toml: its own crate, and the workspace that the SDK's manifest refers to, with the very versions that
/// the SDK was tested with.
fn manifest(name: &str) -> String {
    let sdk = SDK.get_file("Cargo.toml").and_then(|file| file.contents_utf8()).unwrap_or_default();
    let used: Vec<&str> = sdk
        .lines()
        .filter_map(|line| line.split_once(".workspace").or_else(|| line.split_once(" = { workspace")))
        .map(|(dependency, _)| dependency)
        .collect();
    let section = |head: &str| {
        let lines = WORKSPACE.lines().skip_while(move |line| *line != head).skip(1);
        lines
            .take_while(|line| !line.starts_with('['))
            .filter(|line| !line.trim().is_empty())
            .collect::<Vec<_>>()
    };
    let dependencies: Vec<_> = section("[workspace.dependencies]")
        .into_iter()
        .filter(|line| line.split_once(" = ").is_some_and(|(dependency, _)| used.contains(&dependency)))
        .collect();
    let guest = section("[profile.guest]").join("\n");
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n\
         [lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n\n\
         [dependencies]\nevenkeel-sdk = {{ path = \"vendor/evenkeel/plugins/sdk\" }}\n\
         k8s-openapi.workspace = true\nserde.workspace = true\nserde_json.workspace = true\n\n\
         # Below: what the SDK's own manifest refers to.\n\
         [workspace]\nresolver = \"3\"\nmembers = [\".\", \"vendor/evenkeel/plugins/sdk\"]\n\n\
         [workspace.package]\n{}\n\n[workspace.dependencies]\n{}\n\n[workspace.lints.rust]\nunsafe_code = \"deny\"\n\n\
         # Small, and with function names so that a trap can be read.\n[profile.guest]\n{guest}\n",
        section("[workspace.package]").join("\n"),
        dependencies.join("\n"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_a_plugins_are_refused() {
        for name in ["", "Greeter", "-a", "a-", "a_b", "a/b", "1a", &"a".repeat(64)] {
            assert!(check_name(name).is_err(), "{name}");
        }
        for name in ["core", "std", "test", "evenkeel-sdk", "serde", "serde-json", "fn", "gen", "yield"] {
            let error = check_name(name).expect_err(name).to_string();
            assert!(error.contains("choose another"), "{error}");
        }
        for name in ["greeter-2", "version", "panic", "tokio-watcher"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_path_is_shown_as_cd_takes_it() {
        for (path, shown) in
            [("greeter", "greeter"), ("/tmp/a b", "'/tmp/a b'"), ("-x", "-- -x"), ("-a b", "-- '-a b'")]
        {
            assert_eq!(quoted(Path::new(path)), shown);
        }
    }

    #[test]
    fn a_project_has_all_that_its_manifest_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let project = folder.path().join("greeter");
        create("greeter", &project).expect("a project");
        for file in [
            "Cargo.toml",
            "Cargo.lock",
            "src/lib.rs",
            "scenarios/greets.yaml",
            "vendor/evenkeel/wit/world.wit",
        ] {
            assert!(project.join(file).is_file(), "{file}");
        }
        let manifest = fs::read_to_string(project.join("Cargo.toml")).expect("a manifest");
        for dependency in ["wit-bindgen", "k8s-openapi", "serde_json", "schemars"] {
            assert!(manifest.contains(&format!("\n{dependency} = ")), "{dependency} is missing:\n{manifest}");
        }
    }
}
