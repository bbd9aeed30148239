//! Runs parts of the comparison by hand, for whoever mends the sandbox.

use anyhow::{Context, bail};
use evenkeel_differential::{
    Arena, Examples, compare_client_go, compare_kubectl, generate, hand_written, shrink, speed,
};
use evenkeel_test_cluster::Parts;
use futures::{StreamExt, TryStreamExt};

const USAGE: &str = "\
usage: evenkeel-differential cases [FILTER]        the cases written by hand whose file or sentence contains FILTER
       evenkeel-differential seeds [FROM [COUNT]]  generated sequences; the first differences, shrunk, as cases
       evenkeel-differential kubectl [FILTER]      the scripts of kubectl commands
       evenkeel-differential client-go             the examples of client-go
       evenkeel-differential speed                 requests a second, watchers, memory, of both";

/// Sequences under way at once: most of them wait for a watch to end, or for the garbage collector.
const AT_ONCE: usize = 32;
/// Differences that are shrunk and shown; the rest is counted.
const SHOWN_MAX: usize = 24;

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
        ["client-go"] => client_go(&parts).await?,
        ["speed"] => speed::measure(&Arena::start(&parts).await?).await?,
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
    let runs = futures::stream::iter(from..from + count).map(|seed| async move {
        let case = generate::case(seed);
        let difference = arena.run(&case).await.with_context(|| format!("seed {seed}"))?;
        anyhow::Ok(difference.map(|difference| (seed, case, difference)))
    });
    let found: Vec<_> = runs.buffer_unordered(AT_ONCE).try_collect().await?;
    let found: Vec<_> = found.into_iter().flatten().collect();
    let count = found.len();
    let shorter = found.into_iter().take(SHOWN_MAX).map(|(seed, case, difference)| async move {
        let (case, difference) = shrink(arena, case, difference).await?;
        println!("## seed {seed}\n{}\n{}", case.to_text(), difference.text);
        anyhow::Ok(())
    });
    futures::stream::iter(shorter).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    Ok(count)
}

async fn client_go(parts: &Parts) -> anyhow::Result<usize> {
    let Some(examples) = Examples::build_or_skip()? else { return Ok(0) };
    let [real, sandbox] = compare_client_go(&Arena::start(parts).await?, &examples).await?;
    println!("{sandbox}");
    if real != sandbox {
        println!("## the real server\n{real}");
    }
    Ok(usize::from(real != sandbox))
}

async fn kubectl(parts: &Parts, filter: &str) -> anyhow::Result<usize> {
    let arena = Arena::start(parts).await?;
    let differences = compare_kubectl(&arena, parts, filter).await?;
    differences.iter().for_each(|text| println!("## {text}"));
    Ok(differences.len())
}
