//! The printer of results, on one scenario.

use std::process::Command;

use anyhow::{Context, Result};

#[test]
fn a_scenario_gives_the_committed_results() -> Result<()> {
    let name = "scenarios/first-look";
    let output = Command::new(env!("CARGO_BIN_EXE_golden")).arg(name).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let committed = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/scenarios.txt"))?;
    let is_of = |line: &&str| line.split([' ', '#']).next() == Some(name);
    let expected: Vec<&str> = committed.lines().filter(is_of).collect();
    let printed = String::from_utf8(output.stdout).context("text")?;
    assert!(expected.len() > 10, "{expected:?}");
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    Ok(())
}
