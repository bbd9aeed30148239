//! The Containerfile builds what the Deployment runs. No image can be pulled where these tests run, so it is read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout is there")
}

/// An instruction of the file, such as `FROM`, with what stands behind it; lines that go on are joined.
struct Instruction {
    word: String,
    rest: String,
}

fn instructions() -> Vec<Instruction> {
    let text = fs::read_to_string(root().join("deploy/Containerfile")).expect("deploy/Containerfile");
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (word, rest) = line.split_once(' ').expect("an instruction and its arguments");
            Instruction { word: word.to_owned(), rest: rest.trim().to_owned() }
        })
        .collect()
}

fn of(word: &str) -> Vec<String> {
    instructions().into_iter().filter(|one| one.word == word).map(|one| one.rest).collect()
}

/// What is copied from the checkout, without what comes from another stage.
fn copied() -> Vec<String> {
    let from_here = of("COPY").into_iter().filter(|rest| !rest.contains("--from="));
    from_here
        .flat_map(|rest| {
            let words: Vec<String> = rest
                .split_whitespace()
                .filter(|word| !word.starts_with("--"))
                .map(|word| word.trim_end_matches('/').to_owned())
                .collect();
            words[..words.len() - 1].to_vec()
        })
        .collect()
}

#[test]
fn every_instruction_is_one_that_is_known_here() {
    let known = ["FROM", "WORKDIR", "COPY", "ENV", "RUN", "USER", "EXPOSE", "ENTRYPOINT", "CMD"];
    let strange: Vec<_> =
        instructions().into_iter().map(|one| one.word).filter(|word| !known.contains(&&**word)).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

#[test]
fn bases_have_a_version_and_stages_are_built_on_what_is_there() {
    let mut stages = BTreeSet::new();
    for from in of("FROM") {
        let (base, stage) = from.split_once(" AS ").expect("each stage has a name");
        if !stages.contains(base) {
            let (_, tag) = base.rsplit_once(':').unwrap_or_else(|| panic!("{base} has no tag"));
            assert_ne!(tag, "latest", "{base}");
            assert!(base.matches('/').count() >= 2, "{base} says from which registry it comes");
        }
        stages.insert(stage.to_owned());
    }
    assert_eq!(stages.into_iter().collect::<Vec<_>>(), ["build", "host", "plugins"]);
}

#[test]
fn it_is_built_with_the_compiler_that_the_workspace_asks_for_and_the_locked_versions() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let version = workspace.split("rust-version = \"").nth(1).and_then(|rest| rest.split('"').next());
    let version = version.expect("a version");
    assert!(of("FROM")[0].contains(&format!("rust:{version}-")), "{}", of("FROM")[0]);
    assert!(of("RUN")[0].contains("cargo build --locked --release"), "{}", of("RUN")[0]);
}

#[test]
fn what_it_copies_is_there_and_is_given_to_it() {
    let ignore = fs::read_to_string(root().join(".containerignore")).expect(".containerignore");
    let given: BTreeSet<&str> = ignore.lines().filter_map(|line| line.strip_prefix('!')).collect();
    for path in copied() {
        assert!(given.contains(&*path), ".containerignore keeps {path} back");
        // Plugins are built before, by whoever builds the stage that holds them.
        assert!(path == "target/plugins" || root().join(&path).exists(), "there is no {path}");
    }
}

#[test]
fn every_file_that_sources_include_is_copied() {
    let copied = copied();
    let mut sources = Vec::new();
    for folder in ["host", "plugins"] {
        collect(&root().join(folder), &mut sources);
    }
    let mut found = 0;
    for source in sources {
        let text = fs::read_to_string(&source).expect("a readable source");
        for path in included(&text, &source) {
            let inside = path.strip_prefix(root()).expect("it lies in the checkout").display().to_string();
            let is_copied = copied.iter().any(|one| inside == *one || inside.starts_with(&format!("{one}/")));
            assert!(is_copied, "{} includes {inside}, which the build does not have", source.display());
            found += 1;
        }
    }
    assert!(found > 5, "{found} were found");
}

fn collect(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("tests") {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
}

/// The files that `include_str!` and its like name with a path that leads upwards.
fn included(text: &str, source: &Path) -> Vec<PathBuf> {
    let manifest = source.ancestors().find(|folder| folder.join("Cargo.toml").exists()).expect("a crate");
    let words = text.match_indices("include_").filter_map(|(at, _)| {
        let (head, rest) = text[at..].split_once("!(\"")?;
        ["include_str", "include_bytes", "include_dir"].contains(&head).then(|| rest.split('"').next())?
    });
    words
        .filter(|path| path.contains(".."))
        .map(|path| match path.strip_prefix("$CARGO_MANIFEST_DIR/") {
            Some(path) => manifest.join(path),
            None => source.parent().expect("a folder").join(path),
        })
        .map(|path| path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        .collect()
}

#[test]
fn it_runs_what_was_built_as_the_user_of_the_deployment() {
    let deployment = fs::read_to_string(root().join("deploy/base/deployment.yaml")).expect("the Deployment");
    for user in of("USER") {
        let (user, group) = user.split_once(':').expect("user and group");
        assert!(deployment.contains(&format!("runAsUser: {user}")), "{user}");
        assert!(deployment.contains(&format!("runAsGroup: {group}")), "{group}");
    }
    let entry: Vec<String> =
        serde_json::from_str(&of("ENTRYPOINT")[0]).expect("in the form that starts no shell");
    assert_eq!(entry, ["/usr/local/bin/evenkeel"]);
    assert!(of("RUN")[0].contains(&format!("/out{}", entry[0])), "it is installed there");
    let ports: BTreeSet<String> =
        of("EXPOSE").iter().flat_map(|rest| rest.split(' ')).map(str::to_owned).collect();
    for port in ports {
        assert!(deployment.contains(&format!("containerPort: {port}")), "{port}");
    }
}
