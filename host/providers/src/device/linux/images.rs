//! Images in the storage of containers: which are there, and pulls of those that are wanted, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::contract::{Failure, FailureKind};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::answer::error;
use super::apps::Podman;
use super::config::Clock;
use super::image_name::ImageName;
use super::process::Ran;
use super::trouble::{denied, invalid, not_found, transient};
use crate::device::words::{
    AskImages, Error, ImageKind, ImageRef, ImageSeen, ImagesSeen, PullPolicy, PullState,
};

/// One pull.
const PULL_TIMEOUT: Duration = Duration::from_secs(600);
/// Before the second try.
const BACKOFF_FIRST: Duration = Duration::from_secs(10);
/// Before any later one, at most.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Tries after which the wait does not grow any more.
const BACKOFF_STEPS: u32 = 8;
/// What the machine's own images are pulled with.
const OS_CREDENTIALS: &str = "etc/ostree/auth.json";

/// The images of a machine.
pub(super) struct Images {
    podman: Podman,
    credentials: PathBuf,
    wanted: Mutex<BTreeMap<ImageRef, Pull>>,
    changed: Notify,
    clock: Clock,
}

#[derive(Clone, Debug)]
struct Pull {
    state: PullState,
    digest: String,
    tries: u32,
    /// When it is tried again; none where it is not.
    next: Option<Instant>,
    next_try: Option<String>,
    error: Option<Error>,
}

impl Images {
    pub(super) fn new(podman: Option<PathBuf>, root: &Path, clock: Clock) -> Self {
        Self {
            podman: Podman::new(podman),
            credentials: root.join(OS_CREDENTIALS),
            wanted: Mutex::default(),
            changed: Notify::new(),
            clock,
        }
    }

    /// Wants exactly these from now on; a pull of another one is cut off.
    pub(super) fn want(&self, refs: Vec<ImageRef>) {
        let mut wanted = self.lock();
        let refs: BTreeSet<ImageRef> = refs.into_iter().collect();
        wanted.retain(|image, _| refs.contains(image));
        for image in refs {
            wanted.entry(image).or_insert_with(|| Pull {
                state: PullState::Queued,
                digest: String::new(),
                tries: 0,
                next: Some(Instant::now()),
                next_try: None,
                error: None,
            });
        }
        drop(wanted);
        self.changed.notify_one();
    }

    /// How images stand.
    pub(super) async fn see(&self, ask: &AskImages) -> ImagesSeen {
        let mut images = Vec::new();
        for image in &ask.refs {
            let pull = self.lock().get(image).cloned();
            images.push(match pull {
                Some(pull) => seen(image, &pull),
                None => self.look(image).await,
            });
        }
        ImagesSeen { images }
    }

    /// An image that nobody wants: whether it is there.
    async fn look(&self, image: &ImageRef) -> ImageSeen {
        let mut pull = Pull {
            state: PullState::Absent,
            digest: String::new(),
            tries: 0,
            next: None,
            next_try: None,
            error: None,
        };
        match self.digest(image).await {
            Ok(Some(digest)) => (pull.state, pull.digest) = (PullState::Present, digest),
            Ok(None) => {}
            Err(failure) => (pull.state, pull.error) = (PullState::Failed, Some(error(&failure))),
        }
        seen(image, &pull)
    }

    /// Does what is to be done next, and returns once something has changed.
    pub(super) async fn work(&self) {
        loop {
            let next = self.next();
            let Some((image, due)) = next else {
                self.changed.notified().await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = self.changed.notified() => continue,
            }
            self.change(&image, |pull| pull.state = PullState::Pulling);
            let outcome = tokio::select! {
                outcome = self.bring(&image) => Some(outcome),
                () = self.unwanted(&image) => None,
            };
            if let Some(outcome) = outcome {
                self.ended(&image, outcome);
            }
            return;
        }
    }

    fn next(&self) -> Option<(ImageRef, Instant)> {
        let wanted = self.lock();
        let due = wanted.iter().filter_map(|(image, pull)| Some((image.clone(), pull.next?)));
        due.min_by_key(|(_, due)| *due)
    }

    /// Returns when nobody wants it any more.
    async fn unwanted(&self, image: &ImageRef) {
        loop {
            self.changed.notified().await;
            if !self.lock().contains_key(image) {
                return;
            }
        }
    }

    /// Makes sure that it is there.
    async fn bring(&self, image: &ImageRef) -> Result<String, Failure> {
        let there = self.digest(image).await?;
        match (there, image.pull_policy) {
            (Some(digest), PullPolicy::IfNotPresent | PullPolicy::Never) => return Ok(digest),
            (None, PullPolicy::Never) => {
                return Err(not_found(format!("{} is not there, and must not be pulled", image.reference)));
            }
            (_, PullPolicy::Always) | (None, PullPolicy::IfNotPresent) => {}
        }
        let name = name(image)?;
        let mut words = kind_words(image, "pull")?;
        words.push("--quiet".to_owned());
        if image.kind == ImageKind::Os && self.credentials.is_file() {
            words.push(format!("--authfile={}", self.credentials.display()));
        }
        words.push(name);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = self.podman.run(image.user.as_deref(), &words, PULL_TIMEOUT).await?;
        if !ran.succeeded() {
            return Err(refusal(&image.reference, &ran));
        }
        let digest = self.digest(image).await?;
        digest.ok_or_else(|| transient(format!("{} was pulled and is not there", image.reference)))
    }

    async fn digest(&self, image: &ImageRef) -> Result<Option<String>, Failure> {
        let name = name(image)?;
        let mut words = kind_words(image, "inspect")?;
        words.extend(["--format".to_owned(), "{{.Digest}}".to_owned(), name]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = self.podman.run(image.user.as_deref(), &words, Duration::from_secs(60)).await?;
        if ran.succeeded() {
            return Ok(Some(ran.text().trim().to_owned()));
        }
        let said = ran.complaint().to_lowercase();
        let absent = ["no such", "not known", "not found", "does not exist", "unable to find"];
        if absent.iter().any(|words| said.contains(words)) {
            return Ok(None);
        }
        Err(transient(format!("podman cannot look at {}: {}", image.reference, ran.complaint())))
    }

    fn ended(&self, image: &ImageRef, outcome: Result<String, Failure>) {
        let now = (self.clock)();
        self.change(image, |pull| {
            (pull.next, pull.next_try, pull.error) = (None, None, None);
            match outcome {
                Ok(digest) => (pull.state, pull.digest) = (PullState::Present, digest),
                Err(failure) => {
                    pull.state = PullState::Failed;
                    pull.tries = pull.tries.saturating_add(1);
                    pull.error = Some(error(&failure));
                    if failure.kind == FailureKind::Transient {
                        let wait = backoff(pull.tries);
                        pull.next = Some(Instant::now() + wait);
                        pull.next_try = jiff::SignedDuration::try_from(wait)
                            .ok()
                            .and_then(|wait| now.checked_add(wait).ok())
                            .map(|at| at.to_string());
                    }
                }
            }
        });
    }

    /// Removes images that are not named; those that are in use stay by themselves.
    pub(super) async fn prune(&self, keep: &[String]) -> Result<(), Failure> {
        if !self.podman.is_there() {
            return Ok(());
        }
        let keep: BTreeSet<String> =
            keep.iter().filter_map(|image| Some(ImageName::parse(image)?.single())).collect();
        let gone: Vec<ImageRef> = {
            let wanted = self.lock();
            let done = wanted.iter().filter(|(_, pull)| pull.state == PullState::Present);
            let known = done.filter(|(image, _)| {
                ImageName::parse(&image.reference).is_none_or(|name| !keep.contains(&name.single()))
            });
            known.map(|(image, _)| image.clone()).collect()
        };
        // Only what was wanted once and pulled by us: other images of the machine are nobody's business.
        for image in gone {
            let Ok(mut words) = kind_words(&image, "rm") else { continue };
            words.push(name(&image)?);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            self.podman.run(image.user.as_deref(), &words, Duration::from_secs(60)).await?;
            self.lock().remove(&image);
        }
        Ok(())
    }

    fn change(&self, image: &ImageRef, change: impl FnOnce(&mut Pull)) {
        if let Some(pull) = self.lock().get_mut(image) {
            change(pull);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ImageRef, Pull>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seen(image: &ImageRef, pull: &Pull) -> ImageSeen {
    ImageSeen {
        reference: image.reference.clone(),
        state: pull.state,
        digest: pull.digest.clone(),
        tries: pull.tries,
        next_try: pull.next_try.clone(),
        error: pull.error.clone(),
    }
}

fn name(image: &ImageRef) -> Result<String, Failure> {
    let name = ImageName::parse(&image.reference);
    name.map(|name| name.single())
        .ok_or_else(|| invalid(format!("{:?} is no image reference", image.reference)))
}

fn kind_words(image: &ImageRef, verb: &str) -> Result<Vec<String>, Failure> {
    match image.kind {
        ImageKind::Os | ImageKind::Image => Ok(vec!["image".to_owned(), verb.to_owned()]),
        ImageKind::Artifact => Ok(vec!["artifact".to_owned(), verb.to_owned()]),
        ImageKind::Chart => {
            Err(invalid(format!("{} is a Helm chart, which this host does not handle", image.reference)))
        }
    }
}

/// What a registry or podman said, as a failure of the right kind.
fn refusal(image: &str, ran: &Ran) -> Failure {
    let said = ran.complaint();
    let lower = format!("{} {}", said, String::from_utf8_lossy(&ran.err)).to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let message = format!("cannot pull {image}: {said}");
    if ran.timed_out {
        transient(format!("cannot pull {image}: it took too long"))
    } else if has(&[
        "timeout",
        "timed out",
        "connection refused",
        "no such host",
        "reset by peer",
        "eof",
        "temporary",
    ]) {
        transient(message)
    } else if has(&[
        "unauthorized",
        "authentication required",
        "access to the resource is denied",
        "forbidden",
    ]) {
        denied(message)
    } else if has(&["manifest unknown", "name unknown", "not found"]) {
        not_found(message)
    } else if has(&["invalid reference", "no space left"]) {
        invalid(message)
    } else {
        transient(message)
    }
}

fn backoff(tries: u32) -> Duration {
    let steps = tries.saturating_sub(1).min(BACKOFF_STEPS);
    (0..steps).fold(BACKOFF_FIRST, |wait, _| wait * 3 / 2).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_says_decides_whether_it_is_asked_again() {
        let kind = |said: &str| {
            refusal("x", &Ran { code: 125, err: said.as_bytes().to_vec(), ..Ran::default() }).kind
        };
        assert_eq!(kind("Error: initializing source: unauthorized: access denied"), FailureKind::Denied);
        assert_eq!(kind("Error: reading manifest 1 in quay.io/x: manifest unknown"), FailureKind::NotFound);
        assert_eq!(kind("dial tcp 127.0.0.1:1: connect: connection refused"), FailureKind::Transient);
        assert_eq!(kind("Error: invalid reference format"), FailureKind::Invalid);
        assert_eq!(kind("something nobody foresaw"), FailureKind::Transient);
    }

    #[test]
    fn a_pull_waits_longer_from_try_to_try_up_to_a_minute() {
        let waits: Vec<u64> = [1, 2, 3, 6, 100].into_iter().map(|tries| backoff(tries).as_secs()).collect();
        assert_eq!(waits, [10, 15, 22, 60, 60]);
    }
}
