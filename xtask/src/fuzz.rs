//! One fuzz target under libFuzzer, from the inputs that its crate keeps.

use anyhow::{Result, bail};

use super::{root, sh};

/// Runs `target` for `seconds`. What it finds new goes to `fuzz/corpus/`, what fails to `fuzz/artifacts/`; both are ignored by git.
pub(crate) fn run(target: &str, seconds: &str) -> Result<()> {
    let Some((krate, name)) = target.split_once('_').filter(|_| is_target(target)) else {
        bail!("no target {target}: expected one of fuzz/fuzz_targets");
    };
    let corpus = format!("fuzz/corpus/{target}");
    std::fs::create_dir_all(root().join(&corpus))?;
    // Scenarios are their own corpus.
    let kept = format!("crates/{krate}/tests/corpus/{name}");
    let seeds = if ["lab_scenario", "lab_run"].contains(&target) { "scenarios".to_owned() } else { kept };
    let time = format!("-max_total_time={seconds}");
    let mut words = vec!["+nightly", "fuzz", "run", "-s", "none", target, &corpus];
    words.extend(root().join(&seeds).is_dir().then_some(&seeds[..]));
    words.extend(["--", "-timeout=10", "-rss_limit_mb=2048", &time]);
    sh("cargo", &words)
}

fn is_target(target: &str) -> bool {
    root().join("fuzz/fuzz_targets").join(format!("{target}.rs")).is_file()
}
