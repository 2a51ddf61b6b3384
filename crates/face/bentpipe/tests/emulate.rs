//! `bentpipe emulate`, `shell` and `set` as a user runs them. Needs root, `ip` and `ping`; without them the tests say so
//! and pass, but never in CI.
#![allow(clippy::print_stderr, reason = "says why a test is skipped")]
#![allow(clippy::disallowed_methods, reason = "waits for a program in real time")]

mod attach;
mod disk;
mod ends;
mod ethernet;
mod flows;
mod join;
mod kernel;
mod multicast;
mod prometheus;
mod rig;
mod set;

use rig::{emulate, emulate_with, namespaces};

#[test]
fn a_command_runs_inside_from_its_first_packet_and_nothing_is_left_but_the_report() {
    let Some((output, folder)) = emulate("pinged", &["ping", "-n", "-c", "5", "-i", "0.2", "10.0.0.2"])
    else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let rtts = rig::rtts_ms(&text);
    assert_eq!(rtts.len(), 5, "{text}");
    assert!((400.0..430.0).contains(&rig::shortest(&rtts)), "{rtts:?} ms over 400 ms");
    let report =
        std::fs::read_dir(&folder).expect("there").flatten().map(|entry| entry.path().join("report.html"));
    assert_eq!(report.filter(|path| path.is_file()).count(), 1);
    assert_eq!(namespaces(), [""; 0]);
}

#[test]
fn the_exit_code_is_the_command_s() {
    let Some((output, _folder)) = emulate("exited", &["sh", "-c", "exit 7"]) else { return };
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn a_program_at_each_host_runs_beside_the_command_and_ends_with_it() {
    let scratch = tempfile::tempdir().expect("a folder");
    let heard = scratch.path().join("heard");
    // The far host listens, and would for a minute; the shell that waits for it leaves a mark when it is ended.
    let listen = format!("listening=trap 'echo ended >> {0}; exit' TERM; sleep 60 & wait", heard.display());
    let address = format!("left=ip -4 -o address show > {}", scratch.path().join("left").display());
    let arguments =
        ["--background", &listen, "--at", &address, "--", "ping", "-n", "-c", "3", "-i", "0.2", "10.0.0.2"];
    let Some((output, _folder)) = emulate_with("listening", &arguments) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!((output.status.code(), rig::rtts_ms(&text).len()), (Some(0), 3), "{text}");
    assert_eq!(std::fs::read_to_string(heard).expect("it ran"), "ended\n");
    let left = std::fs::read_to_string(scratch.path().join("left")).expect("it ran");
    assert!(left.contains("10.0.0.1/32"), "{left}");
}

#[test]
fn programs_at_each_host_alone_end_it_when_all_have_ended() {
    let arguments = ["--at", "left=ping -n -c 3 -i 0.2 10.0.0.2", "--at", "alone=exit 3"];
    let Some((output, _folder)) = emulate_with("alone", &arguments) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!((output.status.code(), rig::rtts_ms(&text).len()), (Some(3), 3), "{text}");
    for (at, problem) in [
        ("left", "--background left: expected HOST=COMMAND"),
        ("nobody=true", "nobody is not a real host: expected one of left, alone"),
    ] {
        let Some((output, _folder)) = emulate_with("alone", &["--at", at]) else { return };
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(problem), "{errors}");
    }
}

/// Without `linger` a packet that is on its way when the command ends never arrives.
#[test]
fn packets_in_flight_at_the_end_of_the_command_arrive() {
    for (linger, expected) in [(&[][..], 1), (&["--linger", "0 ms"][..], 0)] {
        let command = ["--pcap", "lingered:hop", "--", "ping", "-n", "-c", "1", "-W", "0.02", "10.0.0.2"];
        let Some((output, folder)) = emulate_with("lingered", &[linger, &command].concat()) else { return };
        assert_eq!(output.status.code(), Some(1), "no answer within 20 ms: {output:?}");
        assert_eq!(rig::echo_requests(folder.path()), expected, "{linger:?}");
    }
}

/// A ring has its files from the start, none longer than allowed, and the latest packets.
#[test]
fn a_capture_is_a_ring_of_bounded_files() {
    let ping = ["--", "ping", "-n", "-q", "-c", "400", "-i", "0.002", "-s", "1400", "10.0.0.2"];
    let ring = [&["--pcap", "ringed:hop", "--capture-ring", "300 kB,2"], &ping[..]].concat();
    let Some((output, folder)) = emulate_with("ringed", &ring) else { return };
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let files = rig::captures(folder.path());
    let names: Vec<_> =
        files.iter().map(|path| path.file_name().expect("a name").to_string_lossy()).collect();
    assert_eq!(names, ["ringed-hop-1.pcap", "ringed-hop-2.pcap"]);
    for path in &files {
        let len = std::fs::metadata(path).expect("it is there").len();
        assert!((200_000..=300_000).contains(&len), "{}: {len} B", path.display());
        let Some(tshark) = bentpipe_testkit::Tshark::on(path) else { return };
        assert!(tshark.count("icmp") > 100, "{}", path.display());
    }
}

/// Sleeping between packets takes less of a processor than waking for each, and both report their lateness.
#[test]
fn low_power_takes_less_of_a_processor() {
    let calls = [env!("CARGO_BIN_EXE_bentpipe"), "rtp", "send", "10.0.0.2:5004"];
    let calls = [&["--"], &calls[..], &["--streams", "50", "--duration", "3 s"]].concat();
    let mut shares = Vec::new();
    for pace in ["low-power", "precise"] {
        let arguments = [&["--pace", pace], &calls[..]].concat();
        let Some((output, _folder)) = emulate_with("slept", &arguments) else { return };
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().find(|line| line.contains(" packets left, half of them within "));
        let last = last.unwrap_or_else(|| panic!("{output:?}"));
        let packets: u32 = last.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
        assert!(packets >= 7500, "{last}");
        let share = last.split("; CPU ").nth(1).and_then(|rest| rest.split(' ').next());
        shares.push(share.and_then(|percent| percent.parse::<u32>().ok()).expect("a number"));
    }
    assert!(shares[0] < shares[1], "{shares:?} %");
}

#[test]
fn the_kernel_s_tcp_may_fill_a_long_path() {
    let Some((output, _folder)) = emulate("buffered", &["cat", "/proc/sys/net/ipv4/tcp_rmem"]) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("64000000"), "{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("note: TCP buffers of the kernel may grow to 64 MB"), "{errors}");
    let set = ["--set", "link.hop.rate=5 Gbit/s", "--", "cat", "/proc/sys/net/ipv4/tcp_wmem"];
    let Some((output, _folder)) = emulate_with("buffered", &set) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    // Twice 5 Gbit/s over 400 ms.
    assert!(text.contains("500000000"), "{text}");
}
