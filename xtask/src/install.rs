//! Installation of test tools other than Rust.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::{output_of, sh};

/// A program the tests use as an oracle, and the Debian package that has it.
struct Tool {
    program: &'static str,
    package: &'static str,
    what_for: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { program: "tshark", package: "tshark", what_for: "reads every capture as an independent decoder" },
    Tool { program: "ffprobe", package: "ffmpeg", what_for: "finds programmes in transport streams" },
    Tool { program: "ip", package: "iproute2", what_for: "makes network namespaces for real hosts" },
    Tool { program: "nft", package: "nftables", what_for: "diverts connections to the proxy" },
    Tool { program: "ping", package: "iputils-ping", what_for: "measures emulated delays" },
    Tool { program: "ffmpeg", package: "ffmpeg", what_for: "makes and decodes MPEG-2 video" },
    Tool { program: "espeak-ng", package: "espeak-ng", what_for: "speaks, for codecs to code" },
    Tool { program: "sipp", package: "sip-tester", what_for: "places and answers SIP calls" },
    Tool { program: "kamailio", package: "kamailio", what_for: "is a SIP proxy and registrar" },
    Tool { program: "iaxmodem", package: "iaxmodem", what_for: "registers, places and answers IAX2 calls" },
    Tool { program: "baresip", package: "baresip-core", what_for: "places and answers SIP calls with media" },
    Tool { program: "iperf3", package: "iperf3", what_for: "sends with the kernel's own TCP" },
    Tool { program: "chromium", package: "chromium", what_for: "opens the controller's pages" },
    Tool { program: "node", package: "nodejs", what_for: "drives the browser" },
    Tool { program: "curl", package: "curl", what_for: "reaches the controller over TLS" },
    Tool { program: "openssl", package: "openssl", what_for: "judges certificates and versions of TLS" },
    Tool {
        program: "busybox",
        package: "busybox",
        what_for: "asks for addresses by DHCP, and fills containers",
    },
    Tool {
        program: "systemd-nspawn",
        package: "systemd-container",
        what_for: "runs containers at a satellite",
    },
    Tool { program: "runc", package: "runc", what_for: "runs containers at a satellite" },
    Tool { program: "eu-stack", package: "elfutils", what_for: "shows where a test hangs" },
    Tool { program: "kill", package: "procps", what_for: "ends programs as a user does" },
    Tool { program: "npm", package: "npm", what_for: "installs the browser's driver" },
];

/// Tries at the list of packages, whose lock has no timeout, and the time between two.
const UPDATES: usize = 10;
const BETWEEN_UPDATES: Duration = Duration::from_secs(20);

/// Installs missing tools where that is possible, and says which tests will be skipped otherwise.
///
/// # Errors
/// In CI (`CI` set), a tool that cannot be installed.
pub(crate) fn tools() -> Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !present(tool.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    if let Err(error) = install(&packages) {
        println!("could not install {}: {error:#}", packages.join(", "));
    }
    let still: Vec<&Tool> = missing.into_iter().filter(|tool| !present(tool.program)).collect();
    for tool in &still {
        println!("without {}: tests that need it are skipped ({})", tool.program, tool.what_for);
    }
    if !still.is_empty() && std::env::var_os("CI").is_some() {
        bail!("in CI no test may be skipped");
    }
    Ok(())
}

/// Returns `true` if the standard library for the Rust target `name` is installed. Installs it where that is
/// possible.
pub(crate) fn target(name: &str) -> bool {
    let has_it = || {
        let sysroot = output_of("rustc", &["--print", "sysroot"])?;
        Some(std::path::Path::new(sysroot.trim()).join("lib/rustlib").join(name).is_dir())
    };
    let is_there = has_it() == Some(true)
        || output_of("rustup", &["target", "add", name]).is_some() && has_it() == Some(true);
    if !is_there {
        println!("without the Rust target {name}: nothing is built for it");
    }
    is_there
}

fn present(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Installs Debian packages, after a wait for another installation.
///
/// # Errors
/// Returns an error if this is not a Debian, or the packages cannot be had.
#[allow(clippy::disallowed_methods, reason = "waits for another installation")]
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let Some(id) = output_of("id", &["-u"]) else { bail!("not a Unix") };
    if !present("apt-get") {
        bail!("no apt-get here; install them by hand");
    }
    let mut words = if id.trim() == "0" { vec![] } else { vec!["sudo", "-n"] };
    // Another installation may have the lock.
    words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=600"]);
    let apt = |args: &[&str]| sh(words[0], &[&words[1..], args].concat());
    let mut tries = 0;
    while let Err(error) = apt(&["update", "-qq"]) {
        tries += 1;
        if tries == UPDATES {
            return Err(error);
        }
        std::thread::sleep(BETWEEN_UPDATES);
    }
    apt(&[&["install", "-y", "-qq", "--no-install-recommends"], packages].concat())
}
