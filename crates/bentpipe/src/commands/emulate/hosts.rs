//! Real hosts: their network namespaces and devices.

use std::fmt::Write;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use bentpipe_emu::{Driver, Monotonic, Namespace, Setup, SetupError, Tap, Tun};
use bentpipe_lab::build::RealHost;
use bentpipe_sim::ElementId;

use super::super::Failure;

/// The real hosts of an emulation. They are removed with the value.
pub(in super::super) struct Hosts {
    hosts: Vec<Host>,
}

struct Host {
    name: String,
    address: std::net::IpAddr,
    namespace: Namespace,
    /// Their names; what they are is given to the driver.
    names: Vec<String>,
    devices: Vec<(ElementId, Device)>,
}

/// What a host's packets go through.
enum Device {
    Tun(Tun),
    Tap(Tap),
}

impl Hosts {
    /// Makes namespaces, devices, addresses and routes.
    pub(in super::super) fn create(hosts: &[RealHost]) -> Result<Hosts, SetupError> {
        let hosts = hosts.iter().map(create);
        Ok(Hosts { hosts: hosts.collect::<Result<_, _>>()? })
    }

    /// Gives the devices to a driver.
    pub(in super::super) fn open(&mut self, driver: &mut Driver<Monotonic>) {
        for (gate, device) in self.hosts.iter_mut().flat_map(|host| host.devices.drain(..)) {
            match device {
                Device::Tun(tun) => driver.open(gate, tun),
                Device::Tap(tap) => driver.open(gate, tap),
            }
        }
    }

    /// A host's namespace, and the name of its first device.
    pub(in super::super) fn host(&self, name: &str) -> Option<(&Namespace, &str, std::net::IpAddr)> {
        let host = self.hosts.iter().find(|host| host.name == name)?;
        Some((&host.namespace, host.names.first()?, host.address))
    }

    /// A program to run at a host, the first if none is named.
    pub(super) fn command(&self, on: Option<&str>, program: &str) -> Result<Command, String> {
        let host = match on {
            None => self.hosts.first(),
            Some(name) => self.hosts.iter().find(|host| host.name == name),
        };
        let names = || self.hosts.iter().map(|host| &host.name[..]).collect::<Vec<_>>().join(", ");
        let host = host
            .ok_or_else(|| format!("{} is no real host: expected one of {}", on.unwrap_or("-"), names()))?;
        Ok(host.namespace.command(program))
    }

    /// What can be done with them.
    pub(super) fn usage(&self, socket: &Path) -> String {
        let mut text = String::from("real hosts:\n");
        for host in &self.hosts {
            let _ = writeln!(
                text,
                "  {:<16} {:<16} bentpipe shell {}",
                host.name,
                host.address.to_string(),
                host.name
            );
        }
        if let [first, .., last] = &self.hosts[..] {
            let _ = writeln!(
                text,
                "for example:  ip netns exec {} ping {}",
                first.namespace.name(),
                last.address
            );
        }
        let _ = writeln!(text, "change it:    bentpipe set KEY=VALUE   (socket {})", socket.display());
        text.push_str("end it:       Ctrl-C\n");
        text
    }
}

fn create(host: &RealHost) -> Result<Host, SetupError> {
    let namespace = Namespace::create(&harmless(&host.name))?;
    let mut devices = Vec::new();
    let mut names = Vec::new();
    for (n, interface) in host.interfaces.iter().enumerate() {
        let device = device_name(&interface.link, n);
        let addresses =
            host.addresses.iter().map(|&address| (address, if address.is_ipv4() { 32 } else { 128 }));
        let mtu_bytes = u32::try_from(interface.mtu.get()).unwrap_or(u32::MAX).clamp(68, 65_535);
        let setup = Setup { addresses: addresses.collect(), mtu_bytes };
        let attached = if host.ethernet {
            let behind = host.routes.iter().filter(|(_, by)| *by == n).map(|(to, _)| *to);
            Device::Tap(namespace.attach_ethernet(&device, &setup, behind.collect())?)
        } else {
            Device::Tun(namespace.attach(&device, &setup)?)
        };
        devices.push((interface.gate, attached));
        names.push(device);
    }
    if host.interfaces.len() > 1 {
        for (to, interface) in &host.routes {
            namespace.route(*to, &names[*interface])?;
        }
    }
    if host.forwards {
        namespace.forward_packets()?;
    }
    Ok(Host { name: host.name.clone(), address: host.addresses[0], namespace, names, devices })
}

/// A name that is a file name.
fn harmless(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

/// The link's name where Linux takes it as an interface's.
fn device_name(link: &str, number: usize) -> String {
    let fits = link.len() < 16
        && link.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        && link != "lo";
    if fits { link.to_owned() } else { format!("link{number}") }
}

/// `bentpipe shell`: replaces this program by a shell at a host of an emulation that runs.
pub(in super::super) fn shell(host: &str, emulation: Option<u32>, command: &[String]) -> Result<u8, Failure> {
    let namespace = find(host, emulation)?;
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
    let words = if command.is_empty() { vec![shell] } else { command.to_vec() };
    let error = Command::new("ip").args(["netns", "exec", &namespace]).args(words).exec();
    Err(Failure::bad(format!("ip: {error}")))
}

fn find(host: &str, emulation: Option<u32>) -> Result<String, Failure> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let wanted = harmless(host);
    let matches = |name: &String| {
        let rest = name.strip_prefix("bentpipe-").and_then(|rest| rest.split_once('-'));
        rest.is_some_and(|(process, name)| {
            name == wanted && emulation.is_none_or(|number| process == number.to_string())
        })
    };
    let found: Vec<String> = names.filter(matches).collect();
    match &found[..] {
        [name] => Ok(name.clone()),
        [] => Err(Failure::bad(format!("no emulation with a real host \"{host}\" runs"))),
        several => {
            let text = format!(
                "several emulations have a host \"{host}\": {}; choose with --emulation",
                several.join(", ")
            );
            Err(Failure::bad(text))
        }
    }
}
