use super::*;

fn shell(script: &str, timeout: Duration) -> Program {
    Program {
        argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()],
        env: BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]),
        folder: PathBuf::from("/"),
        timeout,
        keep: Keep::Tail(100),
    }
}

const LONG: Duration = Duration::from_secs(20);

async fn ran(script: &str) -> Ran {
    shell(script, LONG).run().await.expect("it runs")
}

fn lives(pid: &str) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.goes_on())
}

#[tokio::test]
async fn a_program_has_the_environment_that_it_is_given_and_nothing_to_read() {
    let ran = ran("cat; env | sort; exit 3").await;
    assert_eq!(ran.code, 3);
    let text = ran.text();
    assert!(text.starts_with("PATH=/usr/local/sbin") || text.contains("PATH="), "{text}");
    assert!(!text.contains("HOME="), "{text}");
}

#[tokio::test]
async fn of_much_output_the_end_is_kept() {
    let ran = ran("i=0; while [ $i -lt 50000 ]; do echo line $i; i=$((i+1)); done; echo the end").await;
    assert!(ran.succeeded() && ran.out.len() == 100 && ran.text().ends_with("the end\n"), "{}", ran.text());
    assert_eq!(ran.complaint(), "the end");
    let all = Program { keep: Keep::All(1000), ..shell("head -c 5000 /dev/zero", LONG) };
    assert!(all.run().await.is_err(), "more than is taken is an error where all is needed");
}

#[tokio::test]
async fn what_takes_too_long_is_ended_with_all_that_it_started() {
    let began = tokio::time::Instant::now();
    let script = "trap '' TERM; sleep 1000 & echo $!; sleep 1000 & echo $!; wait";
    let ran = shell(script, Duration::from_millis(300)).run().await.expect("it runs");
    assert_eq!((ran.code, ran.timed_out), (TIMED_OUT, true));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let children: Vec<String> = ran.text().lines().map(str::to_owned).collect();
    assert_eq!(children.len(), 2);
    for child in children {
        assert!(!lives(&child), "{child} goes on");
    }
}

#[tokio::test]
async fn a_program_that_ends_by_itself_leaves_nobody_behind() {
    let began = tokio::time::Instant::now();
    let ran = ran("sleep 1000 & echo $!; exit 0").await;
    assert!(ran.succeeded() && began.elapsed() < Duration::from_secs(5));
    assert!(!lives(ran.text().trim()), "its child goes on");
}

#[tokio::test]
async fn one_that_is_dropped_is_ended() {
    let running = shell("sleep 1000", LONG).start().expect("it starts");
    let pid = running.pid().as_raw_nonzero().to_string();
    assert!(lives(&pid) && started(running.pid()).is_some());
    drop(running);
    assert!(!lives(&pid));
}

#[tokio::test]
async fn one_that_is_dropped_takes_along_what_it_started() {
    let mut running = shell("sleep 1000 & echo $!; wait", LONG).start().expect("it starts");
    let mut said = String::new();
    let out = running.child.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut said).expect("a line");
    assert!(lives(said.trim()));
    drop(running);
    assert!(!lives(said.trim()), "its child goes on");
}

#[tokio::test]
async fn one_that_waits_to_be_reaped_is_not_waited_for() {
    let mut running = shell("exit 0", LONG).start().expect("it starts");
    running.end.comes().await;
    // The leader itself here, as nobody reaps it yet.
    assert!(rustix::process::test_kill_process_group(running.pid()).is_ok() && is_gone(running.pid()));
    let ran = running.finish(LONG, Keep::Tail(100)).await.expect("it ran");
    assert!(ran.succeeded());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told() {
    let none = Program { argv: vec!["/no/such/program".to_owned()], ..shell("", LONG) };
    assert_eq!(none.run().await.expect_err("it does not start").kind(), io::ErrorKind::NotFound);
    assert_eq!(find(Path::new("/"), "no-such-program"), None);
    assert_eq!(find(Path::new("/"), "sh").map(|path| path.ends_with("sh")), Some(true));
}
