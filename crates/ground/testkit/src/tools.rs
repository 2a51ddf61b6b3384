//! Tools that tests need, and what happens where they are missing.

use std::fs::File;
use std::io::Write;
use std::net::{Ipv6Addr, UdpSocket};
use std::process::{Command, Stdio};

/// Variable with the path of a list of skipped tests, for `cargo xtask test`.
const SKIPPED: &str = "BENTPIPE_SKIPPED";

/// Reports that a test is skipped.
///
/// # Panics
/// In CI, where no test may be skipped.
pub fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "no test may be skipped in CI: {reason}");
    eprintln!("skipped: {reason}");
    let open = |path| File::options().create(true).append(true).open(path).ok();
    if let Some(mut list) = std::env::var_os(SKIPPED).and_then(open) {
        let (thread, reason) = (std::thread::current(), reason.replace('\n', " "));
        let line = format!("{}\t{}\n", thread.name().unwrap_or("a test"), reason.trim());
        // In one piece: other tests write too. Without a list there is the message.
        let _ = list.write_all(line.as_bytes());
    }
}

/// Returns `true` if loopback has an address of IPv6.
///
/// Docker's default network has none.
///
/// # Panics
/// In CI, if it has none.
pub fn has_ipv6() -> bool {
    let found = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !found {
        skip("loopback has no address of IPv6");
    }
    found
}

/// Returns `true` if a tool is installed. Without it a test has nothing to compare with.
///
/// # Panics
/// In CI, if it is not installed.
pub fn has(tool: &str) -> bool {
    let mut command = Command::new(tool);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let found = command.status().is_ok();
    if !found {
        skip(&format!("{tool} is not installed"));
    }
    found
}
