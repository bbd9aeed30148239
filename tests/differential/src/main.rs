//! Runs parts of the comparison by hand, for whoever mends the sandbox.

use anyhow::{Context, bail};
use evenkeel_differential::{Arena, compare_kubectl, generate, hand_written, shrink};
use evenkeel_test_cluster::Parts;
use futures::StreamExt;

const USAGE: &str = "\
usage: evenkeel-differential cases [FILTER]        the cases written by hand whose file or sentence contains FILTER
       evenkeel-differential seeds [FROM [COUNT]]  generated sequences; the first differences, shrunk, as cases
       evenkeel-differential kubectl [FILTER]      the scripts of kubectl commands";

/// Sequences under way at once: the real server waits for its store now and then.
const AT_ONCE: usize = 4;
/// Differences that are shrunk and shown; the rest is counted.
const SHOWN_MAX: usize = 12;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let parts = Parts::build()?;
    let found = match words.as_slice() {
        ["cases"] => cases(&Arena::start(&parts).await?, "").await?,
        ["cases", filter] => cases(&Arena::start(&parts).await?, filter).await?,
        ["seeds", rest @ ..] => {
            let number = |at: usize, default: u64| {
                rest.get(at).map_or(Ok(default), |text| text.parse()).context("seeds are numbers")
            };
            seeds(&Arena::start(&parts).await?, number(0, 0)?, number(1, 200)?).await?
        }
        ["kubectl"] => kubectl(&parts, "").await?,
        ["kubectl", filter] => kubectl(&parts, filter).await?,
        _ => bail!("{USAGE}"),
    };
    if found > 0 {
        bail!("{found} differences");
    }
    Ok(())
}

async fn cases(arena: &Arena, filter: &str) -> anyhow::Result<usize> {
    let mut found = 0;
    for (file, case) in hand_written()? {
        if !file.contains(filter) && !case.case.contains(filter) {
            continue;
        }
        for difference in arena.differences(&case, usize::MAX).await? {
            found += 1;
            println!("## {file}: {}\n{}", case.case, difference.text);
        }
    }
    Ok(found)
}

async fn seeds(arena: &Arena, from: u64, count: u64) -> anyhow::Result<usize> {
    let mut found = 0;
    let runs = futures::stream::iter(from..from + count).map(|seed| async move {
        let case = generate::case(seed);
        let difference = arena.run(&case).await;
        (seed, case, difference)
    });
    let mut runs = runs.buffer_unordered(AT_ONCE);
    while let Some((seed, case, difference)) = runs.next().await {
        let Some(difference) = difference.with_context(|| format!("seed {seed}"))? else { continue };
        found += 1;
        if found > SHOWN_MAX {
            continue;
        }
        let (case, difference) = shrink(arena, case, difference).await?;
        println!("## seed {seed}\n{}\n{}", case.to_text(), difference.text);
    }
    Ok(found)
}

async fn kubectl(parts: &Parts, filter: &str) -> anyhow::Result<usize> {
    let arena = Arena::start(parts).await?;
    let differences = compare_kubectl(&arena, parts, filter).await?;
    differences.iter().for_each(|text| println!("## {text}"));
    Ok(differences.len())
}
