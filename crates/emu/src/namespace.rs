//! Network namespaces, one a real host, and what is set up in them.

use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::{Tap, Tun};

const FOLDER: &str = "/run/netns";
const PREFIX: &str = "bentpipe-";
/// What a device holds for a program that does not read: at 300 000 packets/s, 13 ms, which a processor that is not the
/// machine's own is away now and then. The kernel's own value is 500.
pub(crate) const QUEUE_PACKETS: u32 = 4096;

/// Why a host could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The process may not do it.
    #[error(
        "making network namespaces needs {0}, which this process does not have; run it as root or give it that capability"
    )]
    Capability(&'static str),
    /// There is no TUN driver to be used.
    #[error("no TUN device can be made: {0}; is the `tun` kernel module there (/dev/net/tun)?")]
    Tun(io::Error),
    /// A step failed.
    #[error("`{command}` failed: {why}")]
    Command {
        /// The command as one could type it.
        command: String,
        /// What it said.
        why: String,
    },
    /// The namespace cannot be entered.
    #[error("cannot enter the network namespace {name}: {error}")]
    Enter {
        /// Its name.
        name: String,
        /// What the system said.
        error: io::Error,
    },
}

/// What a host's interface gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Addresses with their prefix lengths. What is outside is reached through the device.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The interface's MTU in bytes.
    pub mtu_bytes: u32,
}

/// A network namespace of this process's own, removed with the value. `ip netns` lists it too.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes the namespace of the host `host`: its name is `bentpipe-<process>-<host>`, so two emulations run side
    /// by side, and what a crash left behind is recognised.
    ///
    /// # Errors
    /// A missing capability by its name, or what the system said.
    pub fn create(host: &str) -> Result<Namespace, SetupError> {
        check_capabilities()?;
        let name = format!("{PREFIX}{}-{host}", std::process::id());
        ip(&["netns", "add", &name])?;
        let namespace = Namespace { name };
        namespace.ip(&["link", "set", "dev", "lo", "up"])?;
        Ok(namespace)
    }

    /// The name, as `ip netns exec` takes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes a TUN device inside, with its addresses, and with routes to everywhere.
    ///
    /// # Errors
    /// What the system said.
    pub fn attach(&self, device: &str, setup: &Setup) -> Result<Tun, SetupError> {
        let tun = self.within(|| Tun::create(device))?.map_err(SetupError::Tun)?;
        self.configure(device, setup)?;
        Ok(tun)
    }

    /// Makes a TAP device inside, an Ethernet interface, with its addresses, and with routes to everywhere; neighbours
    /// are found for the addresses `behind` it.
    ///
    /// # Errors
    /// What the system said.
    pub fn attach_ethernet(
        &self,
        device: &str,
        setup: &Setup,
        behind: Vec<IpAddr>,
    ) -> Result<Tap, SetupError> {
        let tap = self.within(|| Tap::create(device, behind))?.map_err(SetupError::Tun)?;
        // The kernel's limit leaves room for the frame's header.
        let mtu_bytes = setup.mtu_bytes.min(65_521);
        self.configure(device, &Setup { mtu_bytes, ..setup.clone() })?;
        Ok(tap)
    }

    fn configure(&self, device: &str, setup: &Setup) -> Result<(), SetupError> {
        self.within(|| quieten(device))?;
        let (mtu, queue) = (setup.mtu_bytes.to_string(), QUEUE_PACKETS.to_string());
        self.ip(&["link", "set", "dev", device, "mtu", &mtu, "txqueuelen", &queue])?;
        for (address, prefix_len) in &setup.addresses {
            let mut words = vec!["address", "add"];
            let address_text = format!("{address}/{prefix_len}");
            words.extend([address_text.as_str(), "dev", device]);
            // Duplicate address detection would keep an IPv6 address unusable for a second.
            words.extend(address.is_ipv6().then_some("nodad"));
            self.ip(&words)?;
        }
        self.ip(&["link", "set", "dev", device, "up"])?;
        for family in families(setup) {
            self.ip(&[family, "route", "replace", "default", "dev", device])?;
        }
        Ok(())
    }

    /// Leads packets for `to` out at `device`.
    ///
    /// # Errors
    /// What the system said.
    pub fn route(&self, to: IpAddr, device: &str) -> Result<(), SetupError> {
        let family = if to.is_ipv4() { "-4" } else { "-6" };
        self.ip(&[family, "route", "replace", &to.to_string(), "dev", device])
    }

    /// Lets TCP offer a receive window of `window_bytes` from the start on connections over the default route, and no
    /// more: 65 535 times a power of two is offered exactly. `mss` is a segment's length.
    ///
    /// # Errors
    /// What the system said.
    pub fn offer_window(&self, device: &str, window_bytes: u64, mss: u64) -> Result<(), SetupError> {
        let (window, segments) = (window_bytes.to_string(), window_bytes.div_ceil(mss.max(1)).to_string());
        let options = ["window", window.as_str(), "initrwnd", segments.as_str()];
        self.ip(&[&["route", "replace", "default", "dev", device], &options[..]].concat())
    }

    /// Sets a value below `/proc/sys` that a namespace has of its own: `net/ipv4/tcp_rmem`, say.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or the kernel does not take the value.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), SetupError> {
        let file = Path::new("/proc/sys").join(key);
        let written = self.within(|| fs::write(&file, value))?;
        let failed = |error: io::Error| SetupError::Command {
            command: format!("sysctl {key}={value}"),
            why: error.to_string(),
        };
        written.map_err(failed)
    }

    /// Lets the host pass packets on from one device to another.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or its settings not be written.
    pub fn forward_packets(&self) -> Result<(), SetupError> {
        let keys = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];
        keys.iter().try_for_each(|key| self.sysctl(key, "1"))
    }

    /// Runs a program inside and waits for it.
    ///
    /// # Errors
    /// If it does not start.
    pub fn run(&self, program: &str, args: &[String]) -> Result<ExitStatus, SetupError> {
        let status = self.command(program).args(args).status();
        status.map_err(|error| SetupError::Command { command: program.to_owned(), why: error.to_string() })
    }

    /// A program that will run inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Does something on a thread that is inside the namespace.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, SetupError> {
        let failed = |error| SetupError::Enter { name: self.name.clone(), error };
        let handle = File::open(Path::new(FOLDER).join(&self.name)).map_err(failed)?;
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| enter(&handle).map(|()| work()));
            inside.join().map_err(|_| io::Error::other("the thread inside it panicked"))?
        })
        .map_err(failed)
    }

    fn ip(&self, args: &[&str]) -> Result<(), SetupError> {
        ip(&[&["-n", &self.name], args].concat())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Nothing is left to do if this fails; the next start tries again (see `clean_up_after_crash`).
        let _ = ip(&["netns", "delete", &self.name]);
    }
}

fn families(setup: &Setup) -> impl Iterator<Item = &'static str> {
    let has = |v6| setup.addresses.iter().any(|(address, _)| address.is_ipv6() == v6);
    [("-4", has(false)), ("-6", has(true))]
        .into_iter()
        .filter_map(|(family, wanted)| wanted.then_some(family))
}

/// Keeps the kernel from sending what nobody asked for: IPv6 gets no link-local address (so no multicast listener
/// reports, no router solicitations, no duplicate address detection), the host's own addresses are given below.
pub(crate) fn quieten(device: &str) {
    let settings =
        [("addr_gen_mode", "1"), ("router_solicitations", "0"), ("accept_ra", "0"), ("accept_dad", "0")];
    for (name, value) in settings {
        // A kernel without IPv6 has no such file, and then nothing to quieten either.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{device}/{name}"), value);
    }
}

fn enter(handle: &File) -> io::Result<()> {
    // SAFETY: `setns` takes an open descriptor and changes the namespace of this thread only.
    match unsafe { libc::setns(handle.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(crate) fn ip(args: &[&str]) -> Result<(), SetupError> {
    let failed = |why: String| SetupError::Command { command: format!("ip {}", args.join(" ")), why };
    let output = Command::new("ip").args(args).output().map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Removes the namespaces of emulations whose process is gone, and says which they were.
pub fn clean_up_after_crash() -> Vec<String> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| orphaned(name)).filter(|name| ip(&["netns", "delete", name]).is_ok()).collect()
}

fn orphaned(name: &str) -> bool {
    let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')).map(|(process, _)| process);
    let Some(process) = process.and_then(|text| text.parse::<u32>().ok()) else { return false };
    !PathBuf::from(format!("/proc/{process}")).exists()
}

/// The capabilities that making a namespace and a device in it needs, by their bit in `CapEff` (capabilities(7)).
const CAPABILITIES: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN")];

fn check_capabilities() -> Result<(), SetupError> {
    let Some(effective) = effective_capabilities() else { return Ok(()) };
    match CAPABILITIES.iter().find(|(bit, _)| effective >> bit & 1 == 0) {
        Some((_, name)) => Err(SetupError::Capability(name)),
        None => Ok(()),
    }
}

fn effective_capabilities() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_dead_processes_are_orphans() {
        assert!(!orphaned("somebody-elses"));
        assert!(!orphaned("bentpipe-client"));
        assert!(!orphaned(&format!("{PREFIX}{}-client", std::process::id())));
        assert!(orphaned(&format!("{PREFIX}4294967294-client")));
    }
}
