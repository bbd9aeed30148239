//! One answer for all who asked before the question was put.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::rest::lock;

/// Shares answers a key: a question that is under way answers nobody who came after it began, but the next one answers
/// all who wait for it.
pub(crate) struct Turns<K> {
    gates: Mutex<BTreeMap<K, Arc<Gate>>>,
}

#[derive(Default)]
struct Gate {
    came: AtomicU64,
    last: tokio::sync::Mutex<Last>,
}

#[derive(Default)]
struct Last {
    /// How many had come when the last question with an answer was put.
    answers: u64,
    answer: bool,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Turns { gates: Mutex::new(BTreeMap::new()) }
    }
}

impl<K: Ord + Clone> Turns<K> {
    /// The answer of a question that was put after this call began, by this call or by another.
    pub(crate) async fn ask<E>(&self, key: K, put: impl Future<Output = Result<bool, E>>) -> Result<bool, E> {
        let gate = lock(&self.gates).entry(key.clone()).or_default().clone();
        let ticket = gate.came.fetch_add(1, Ordering::SeqCst);
        let answer = {
            let mut last = gate.last.lock().await;
            if ticket < last.answers {
                Ok(last.answer)
            } else {
                let answers = gate.came.load(Ordering::SeqCst);
                let answer = put.await;
                if let Ok(answer) = answer {
                    *last = Last { answers, answer };
                }
                answer
            }
        };
        let mut gates = lock(&self.gates);
        drop(gate);
        if gates.get(&key).is_some_and(|gate| Arc::strong_count(gate) == 1) {
            gates.remove(&key);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_share_the_next_answer_and_never_an_earlier_one() {
        let turns: Arc<Turns<&str>> = Arc::default();
        let put = Arc::new(AtomicU64::new(0));
        let ask = || {
            let (turns, put) = (turns.clone(), put.clone());
            tokio::spawn(async move {
                let question = async {
                    put.fetch_add(1, Ordering::SeqCst);
                    sleep(Duration::from_secs(1)).await;
                    Ok::<_, Infallible>(true)
                };
                turns.ask("kind", question).await
            })
        };
        let first = ask();
        sleep(Duration::from_millis(500)).await;
        // The first question is under way: it answers none of these.
        let others = [ask(), ask(), ask()];
        for task in others.into_iter().chain([first]) {
            assert_eq!(task.await.expect("no panic"), Ok(true));
        }
        assert_eq!(put.load(Ordering::SeqCst), 2);
        assert!(lock(&turns.gates).is_empty());
    }
}
