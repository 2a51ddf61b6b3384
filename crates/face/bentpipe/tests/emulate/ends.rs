//! Several emulations at once, and how they end.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use bentpipe_testkit::{Process, until};

use super::rig::{Running, bentpipe, emulate, namespaces, rtts_ms};

#[test]
fn two_emulations_run_side_by_side() {
    let Some(mut first) = Running::start("twin") else { return };
    let Some(second) = Running::start("twin") else { return };
    assert_eq!(first.set("link.hop.delay=20 ms").0, Some(0));
    assert!((40.0..70.0).contains(&first.rtt_ms()));
    assert!((400.0..430.0).contains(&second.rtt_ms()));
    let output = bentpipe().args(["shell", "twin", "--", "true"]).output().expect("starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("several emulations have a host \"twin\"") && errors.contains("--emulation"));
    assert_eq!(first.end().0, Some(0));
    assert_eq!(first.left(), [""; 0]);
    assert!((400.0..430.0).contains(&second.rtt_ms()), "the other goes on");
}

#[test]
fn what_a_killed_emulator_leaves_is_removed_at_the_next_start() {
    let Some(mut killed) = Running::start("killed") else { return };
    killed.kill_survivor();
    killed.signal("-KILL");
    assert_eq!(killed.finish().0, None);
    assert_eq!(killed.left().len(), 3, "two namespaces and a socket");
    let Some(mut next) = Running::start("next") else { return };
    assert_eq!(killed.left(), [""; 0]);
    assert_eq!(next.end().0, Some(0));
    assert_eq!(namespaces(), [""; 0]);
}

#[test]
fn programs_end_with_an_emulation_that_is_killed() {
    let Some(mut killed) = Running::start("struck") else { return };
    let mut shell = started(&killed, "left", "trap '' TERM HUP; sleep 600 & echo runs; sleep 600; wait");
    let mut sleeper = started(&killed, "struck", "echo runs; exec sleep 600");
    assert!(shell.is_running() && sleeper.is_running());
    killed.signal("-KILL");
    assert_eq!(killed.finish().0, None);
    until("nothing is left", || killed.left().is_empty());
    assert!(!shell.is_running() && !sleeper.is_running(), "programs outlive the emulation");
}

#[test]
fn programs_that_leave_the_namespace_end_too() {
    for (host, is_killed) in [("fled", true), ("strayed", false)] {
        let Some(mut running) = Running::start(host) else { return };
        let group = format!("/run/bentpipe/{}.group", running.namespace("left"));
        if !std::path::Path::new(&group).exists() {
            assert!(std::env::var_os("CI").is_none(), "no control groups in CI");
            return;
        }
        let script = "unshare --net setsid sh -c 'trap \"\" TERM HUP; echo $$; exec sleep 600' & wait";
        let mut shell = running.shell("left", &["sh", "-c", script]);
        let mut shell = Process::start(shell.stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
        let sleeper = format!("/proc/{}", line.trim());
        let is_there = || std::path::Path::new(&sleeper).exists();
        assert!(is_there(), "{line}");
        match is_killed {
            true => {
                running.signal("-KILL");
                assert_eq!(running.finish().0, None);
            }
            false => assert_eq!(running.end().0, Some(0)),
        }
        until("the program in a namespace of its own ends", || !is_there());
        until("nothing is left", || running.left().is_empty() && !std::path::Path::new(&group).exists());
    }
}

/// Starts a script at a host that prints a line once it has started what it is to start.
fn started(running: &Running, host: &str, script: &str) -> Process {
    let mut shell = running.shell(host, &["sh", "-c", script]);
    let mut shell = Process::start(shell.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut line = String::new();
    BufReader::new(shell.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
    assert_eq!(line, "runs\n");
    shell
}

#[test]
fn programs_of_a_shell_end_with_the_emulation() {
    let Some(mut running) = Running::start("shelled") else { return };
    // Interactive shells ignore SIGTERM, and so does this one.
    let mut shell = started(&running, "left", "trap '' TERM HUP; sleep 600 & echo runs; sleep 600; wait");
    let mut sleeper = started(&running, "shelled", "echo runs; exec sleep 600");
    assert!(shell.is_running() && sleeper.is_running());
    assert_eq!(running.end().0, Some(0));
    assert!(!shell.is_running() && !sleeper.is_running(), "programs outlive the emulation");
}

#[test]
fn programs_that_a_killed_emulator_leaves_end_at_the_next_start() {
    let Some(mut killed) = Running::start("abandoned") else { return };
    let mut sleeper = started(&killed, "left", "echo runs; exec sleep 600");
    killed.kill_survivor();
    killed.signal("-KILL");
    killed.finish();
    assert!(sleeper.is_running());
    let Some(mut next) = Running::start("heir") else { return };
    assert!(!sleeper.is_running(), "a program outlives the next start");
    assert_eq!(next.end().0, Some(0));
}

#[test]
fn two_requests_at_once_are_one_and_a_late_one_leaves_nothing() {
    for _ in 0..4 {
        let Some(mut running) = Running::start("asked") else { return };
        // As `timeout` does: the process, and then its group.
        let twice = format!("kill -TERM {0}; kill -TERM {0}", running.process());
        assert!(std::process::Command::new("sh").args(["-c", &twice]).status().expect("starts").success());
        assert_eq!((running.finish().0, running.left()), (Some(0), Vec::new()));
    }
}

#[test]
fn a_namespace_deleted_from_outside_goes_on_until_the_end() {
    let Some(mut running) = Running::start("unnamed") else { return };
    // For the last answer `ping` waits no longer than its interval.
    let mut ping = running.shell("left", &["ping", "-n", "-c", "41", "-i", "0.05", "-W", "2", "10.0.0.2"]);
    let mut ping = Process::start(ping.stdout(Stdio::piped()));
    let mut lines = BufReader::new(ping.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut text = lines.by_ref().find(|line| line.contains("time=")).expect("an answer");
    for host in ["left", "unnamed"] {
        let namespace = running.namespace(host);
        let deleted = std::process::Command::new("ip").args(["netns", "delete", &namespace]).status();
        assert!(deleted.expect("starts").success());
    }
    lines.for_each(|line| text += &format!("\n{line}"));
    ping.finish();
    assert!(rtts_ms(&text).len() >= 40, "{text}");
    let (code, errors) = running.end();
    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn when_its_devices_are_gone_it_ends_and_says_so() {
    let Some(mut running) = Running::start("gone") else { return };
    for host in ["left", "gone"] {
        let namespace = running.namespace(host);
        let mut delete = std::process::Command::new("ip");
        let deleted = delete.args(["-n", &namespace, "link", "delete", "hop"]).status().expect("starts");
        // The last device ends the emulation, and that ends what is in its namespaces: this very command.
        assert!(deleted.success() || host == "gone" && deleted.signal().is_some(), "{deleted}");
    }
    let (code, errors) = running.finish();
    assert_eq!(code, Some(0), "{errors}");
    let text = Running::timing(running.folder.path());
    assert!(text.contains("the device of node/left/gate/hop was lost after"), "{text}");
    assert_eq!(running.left(), [""; 0]);
}

#[test]
fn without_a_capability_it_says_which() {
    // Whoever cannot emulate at all has nothing to take away.
    let Some((_, folder)) = emulate("rightless", &["true"]) else { return };
    let scenario = folder.path().join("rightless.toml");
    for capability in ["net_admin", "sys_admin"] {
        let mut program = std::process::Command::new("setpriv");
        program.args(["--bounding-set", &format!("-{capability}"), "--inh-caps", &format!("-{capability}")]);
        program.arg(env!("CARGO_BIN_EXE_bentpipe")).arg("emulate").arg(&scenario);
        let output = program.arg("--out").arg(folder.path()).output().expect("setpriv starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(&format!("needs CAP_{}", capability.to_uppercase())), "{errors}");
    }
}
