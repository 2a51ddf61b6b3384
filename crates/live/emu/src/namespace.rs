//! Network namespaces, one a real host, and what is set up in them.

use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::attached;
use crate::group::{self, Group};
use crate::interface::{TX_QUEUE_PACKETS, ip, keeping_neighbour, suppress_autoconfiguration};
use crate::occupants::{Identity, end_all};
use crate::setup::{Setup, SetupError};
use crate::{Tap, Tun};

const FOLDER: &str = "/run/netns";
const PREFIX: &str = "bentpipe-";
/// Prefix of names for other programs' namespaces.
const JOINED: &str = "joined-bentpipe-";
/// Metric of a default route that any other one beats.
const LAST_METRIC: &str = "4000000000";

/// Network namespace of this process, removed with the value and all programs inside. `ip netns` lists it too.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// Identity, which outlasts the name; `None` if the system hides it.
    identity: Option<Identity>,
    origin: Origin,
    /// Control group of the programs that the emulation starts inside.
    group: Option<Group>,
}

/// Origin of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Made here: it goes, with all programs inside.
    Made,
    /// Another program's, to which this one gave a name: the name goes.
    Named,
    /// Another program's: it stays as it is.
    Foreign,
}

impl Namespace {
    /// Creates the namespace of a host, named `bentpipe-<process>-<host>`. So emulations run side by side, and
    /// namespaces that a crash left are recognised.
    ///
    /// # Errors
    /// A missing capability by its name, or what the system said.
    pub fn create(host: &str) -> Result<Namespace, SetupError> {
        check_rights()?;
        let name = format!("{PREFIX}{}-{host}", std::process::id());
        ip(&["netns", "add", &name])?;
        let identity = Identity::of_file(&Path::new(FOLDER).join(&name));
        let group = Group::create(&name);
        let namespace = Namespace { name, identity, origin: Origin::Made, group };
        namespace.ip(&["link", "set", "dev", "lo", "up"])?;
        Ok(namespace)
    }

    /// Joins an existing namespace in the place of a host.
    ///
    /// `target` is the number of a process in it, or its name of `ip netns`. Devices in it go with the emulation; nothing else in it changes.
    ///
    /// # Errors
    /// A missing capability by its name, or what the system said.
    pub fn join(host: &str, target: &str) -> Result<Namespace, SetupError> {
        check_rights()?;
        let group = || Group::create(&format!("{PREFIX}{}-{host}", std::process::id()));
        if Path::new(FOLDER).join(target).is_file() && !target.contains('/') {
            let (name, origin) = (target.to_owned(), Origin::Foreign);
            return Ok(Namespace { name, identity: None, origin, group: group() });
        }
        let is_there =
            target.parse::<u32>().is_ok_and(|process| Path::new(&format!("/proc/{process}/ns/net")).exists());
        if !is_there {
            return Err(SetupError::NoNamespace(target.to_owned()));
        }
        let name = format!("{JOINED}{}-{host}", std::process::id());
        ip(&["netns", "attach", &name, target])?;
        Ok(Namespace { name, identity: None, origin: Origin::Named, group: group() })
    }

    /// Returns `true` if it was there before.
    pub fn is_foreign(&self) -> bool {
        self.origin != Origin::Made
    }

    /// The name, as `ip netns exec` takes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates a TUN device inside, with addresses and default routes.
    ///
    /// # Errors
    /// What the system said.
    pub fn attach(&self, device: &str, setup: &Setup) -> Result<Tun, SetupError> {
        let tun = self.within(|| Tun::create(device))?.map_err(SetupError::Tun)?;
        self.configure(device, setup)?;
        self.ip(&keeping_neighbour(device))?;
        Ok(tun)
    }

    /// Creates a TAP device inside, with addresses and default routes. Neighbours are found for the addresses
    /// `behind` it.
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
        self.within(|| suppress_autoconfiguration(device))?;
        let (mtu, queue) = (setup.mtu_bytes.to_string(), TX_QUEUE_PACKETS.to_string());
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
            if self.is_foreign() {
                // A default route that is there stays the better one.
                self.ip(&[family, "route", "append", "default", "dev", device, "metric", LAST_METRIC])?;
            } else {
                self.ip(&[family, "route", "replace", "default", "dev", device])?;
            }
        }
        Ok(())
    }

    /// Routes packets for `to` through `device`.
    ///
    /// # Errors
    /// What the system said.
    pub fn route(&self, to: IpAddr, device: &str) -> Result<(), SetupError> {
        let family = if to.is_ipv4() { "-4" } else { "-6" };
        self.ip(&[family, "route", "replace", &to.to_string(), "dev", device])
    }

    /// Sets the receive window that TCP offers from the start over the default route. It offers `window_bytes` and no
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

    /// Enables forwarding of packets between the devices.
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
        self.group.iter().for_each(|group| group.enclose(&mut command));
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
        match self.origin {
            Origin::Made => {
                self.identity.iter().for_each(end_all);
                self.group = None;
            }
            Origin::Named => {}
            Origin::Foreign => return,
        }
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

fn enter(handle: &File) -> io::Result<()> {
    let kind = rustix::thread::LinkNameSpaceType::Network;
    Ok(rustix::thread::move_into_link_name_space(handle.as_fd(), Some(kind))?)
}

/// Removes namespaces of emulations whose process is gone, and returns their names. Programs inside end too.
pub fn clean_up_after_crash() -> Vec<String> {
    let mut gone = remove_if(orphaned);
    group::end_if(orphaned);
    gone.extend(remove_names_if(|process| !Path::new(&format!("/proc/{process}")).exists()));
    gone.extend(attached::put_back_after_crash());
    gone
}

/// Number of checks for the end of a process that was killed.
const MAX_CHECKS: u32 = 40;

/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Removes the namespaces of a process that was killed, with the programs inside.
///
/// Its end closes its files a moment before it is gone, so that this waits for two seconds at most.
pub fn clean_up_after_kill(process: u32) {
    for _ in 0..MAX_CHECKS {
        if !Path::new(&format!("/proc/{process}")).exists() {
            break;
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    clean_up_of(process);
}

/// Removes the namespaces of a process, with the programs inside.
pub fn clean_up_of(process: u32) {
    remove_if(|name| owner(name) == Some(process));
    group::end_if(|name| owner(name) == Some(process));
    remove_names_if(|owner| owner == process);
    attached::put_back_of(process);
}

/// Removes names that were given to other programs' namespaces, which stay.
fn remove_names_if(is_meant: impl Fn(u32) -> bool) -> Vec<String> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let given = names.filter(|name| {
        let process = name.strip_prefix(JOINED).and_then(|rest| rest.split_once('-')?.0.parse().ok());
        process.is_some_and(&is_meant)
    });
    given.filter(|name| ip(&["netns", "delete", name]).is_ok()).collect()
}

fn remove_if(is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_meant(name)).filter(|name| remove(name)).collect()
}

fn remove(name: &str) -> bool {
    // Another program may remove it too. A new namespace would get its number, and lose its programs here.
    let held = File::open(Path::new(FOLDER).join(name)).ok();
    held.as_ref().and_then(Identity::of_open).iter().for_each(end_all);
    ip(&["netns", "delete", name]).is_ok()
}

/// Returns the process that made a namespace of this name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

fn orphaned(name: &str) -> bool {
    owner(name).is_some_and(|process| !PathBuf::from(format!("/proc/{process}")).exists())
}

/// Capabilities required for a namespace and its device, by their bit in `CapEff` (capabilities(7)).
const CAPABILITIES: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN")];

fn check_rights() -> Result<(), SetupError> {
    let Some(effective) = effective_capabilities() else { return Ok(()) };
    match CAPABILITIES.iter().find(|(bit, _)| effective >> bit & 1 == 0) {
        Some((_, name)) => Err(SetupError::Capability(name)),
        None => check_root(),
    }
}

/// Returns an error where `ip netns exec` would fail.
///
/// It changes how mounts below / propagate, which only a mount point has.
fn check_root() -> Result<(), SetupError> {
    let Ok(mounts) = fs::read_to_string("/proc/self/mountinfo") else { return Ok(()) };
    if has_mounted_root(&mounts) { Ok(()) } else { Err(SetupError::RootNotMounted) }
}

/// Returns `true` if / is among mount points as of `/proc/PID/mountinfo` (proc(5)).
fn has_mounted_root(mounts: &str) -> bool {
    mounts.lines().any(|line| line.split(' ').nth(4) == Some("/"))
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
    fn a_root_that_is_a_plain_folder_is_recognised() {
        let root = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";
        let proc = "30 22 0:5 / /proc rw - proc proc rw\n";
        assert!(has_mounted_root(&format!("{proc}{root}")));
        assert!(!has_mounted_root(proc));
    }

    #[test]
    fn only_namespaces_of_dead_processes_are_orphans() {
        assert!(!orphaned("somebody-elses"));
        assert!(!orphaned("bentpipe-client"));
        assert!(!orphaned(&format!("{PREFIX}{}-client", std::process::id())));
        assert!(orphaned(&format!("{PREFIX}4294967294-client")));
    }
}
