//! Real hosts: their network namespaces and devices.

use std::fmt::Write;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use bentpipe_assemble::RealHost;
use bentpipe_emu::{Attached, Driver, Monotonic, Namespace, Setup, SetupError, Tap, TcpDiag, Tun};
use bentpipe_scenario::{Flow, Ip};
use bentpipe_sim::ElementId;
use bentpipe_units::Bytes;

use crate::Error;
use crate::attachment::{Attachment, Target};

/// Real hosts of an emulation, removed with the value.
pub(crate) struct Hosts {
    hosts: Vec<Host>,
}

struct Host {
    name: String,
    /// IPv4 and IPv6 address.
    addresses: [IpAddr; 2],
    place: Place,
    /// Names of the devices; the devices are moved to the driver.
    names: Vec<String>,
    devices: Vec<(ElementId, Device)>,
    /// Remark for the user.
    notice: Option<String>,
}

/// Host in a network namespace.
pub(crate) struct Inside<'a> {
    /// Namespace of the host.
    pub(crate) namespace: &'a Namespace,
    /// Name of its first device.
    pub(crate) device: &'a str,
    /// IPv4 and IPv6 address.
    addresses: [IpAddr; 2],
}

impl Inside<'_> {
    /// Returns the host's address of a version.
    pub(crate) fn address(&self, ip: Ip) -> IpAddr {
        let [v4, v6] = self.addresses;
        match ip {
            Ip::V4 => v4,
            Ip::V6 => v6,
        }
    }
}

/// Place of a host.
enum Place {
    /// Network namespace: an own one, or one that was there.
    Namespace(Namespace),
    /// Interface that was there.
    Interface(Attached),
}

/// Device of a host.
enum Device {
    Tun(Tun),
    Tap(Tap),
}

impl Hosts {
    /// Creates namespaces, devices, addresses and routes. The text says how far TCP's buffers may grow, for paths of `bdp`.
    pub(crate) fn create(
        hosts: &[RealHost],
        attachments: &[Attachment],
        bdp: Bytes,
    ) -> Result<(Hosts, String), SetupError> {
        let to = |host: &RealHost| attachments.iter().find(|attachment| attachment.host == host.name);
        let hosts = hosts.iter().map(|host| create(host, to(host))).collect::<Result<Vec<_>, _>>()?;
        let limit = tcp_buffer_limit(bdp);
        let own = hosts.iter().filter_map(Host::namespace).filter(|namespace| !namespace.is_foreign());
        let raised = own.into_iter().try_for_each(|namespace| raise_tcp_buffers(namespace, limit));
        let text = match raised {
            Ok(()) => format!("TCP buffers of the kernel may grow to {limit}"),
            Err(error) => format!("TCP buffers of the kernel stay as they are, for a path of {bdp}: {error}"),
        };
        Ok((Hosts { hosts }, text))
    }

    /// Returns remarks for the user.
    pub(crate) fn notices(&self) -> impl Iterator<Item = String> {
        self.hosts.iter().filter_map(|host| host.notice.clone())
    }

    /// Moves the devices to a driver.
    pub(crate) fn open(&mut self, driver: &mut Driver<Monotonic>) {
        for (gate, device) in self.hosts.iter_mut().flat_map(|host| host.devices.drain(..)) {
            match device {
                Device::Tun(tun) => driver.open(gate, tun),
                Device::Tap(tap) => driver.open(gate, tap),
            }
        }
    }

    /// Returns the readers of hosts' TCP connections, each with its first gate.
    ///
    /// Called before the devices are moved. A kernel without sock_diag has none.
    pub(crate) fn tcp_connections(&self) -> Vec<(ElementId, TcpDiag)> {
        let of = |host: &Host| {
            let (gate, _) = host.devices.first()?;
            let opened = host.namespace()?.within(TcpDiag::open).ok()?.ok()?;
            Some((*gate, opened))
        };
        self.hosts.iter().filter_map(of).collect()
    }

    /// Returns a host whose programs are on this machine.
    pub(crate) fn host(&self, name: &str) -> Option<Inside<'_>> {
        let host = self.hosts.iter().find(|host| host.name == name)?;
        let (namespace, device) = (host.namespace()?, host.names.first()?);
        Some(Inside { namespace, device, addresses: host.addresses })
    }

    /// Returns the hosts that a flow is from and to.
    ///
    /// # Errors
    /// Returns an error if one of them is not a real host.
    pub(crate) fn ends(&self, flow: &Flow) -> Result<[Inside<'_>; 2], String> {
        let end = |name: &str| self.host(name).ok_or_else(|| format!("{name} is not a real host"));
        Ok([end(&flow.from)?, end(&flow.to)?])
    }

    /// Returns a program to run at a host, the first if none is named.
    pub(crate) fn command(&self, on: Option<&str>, program: &str) -> Result<Command, String> {
        let mut places = self.hosts.iter().filter_map(|host| Some((&host.name, host.namespace()?)));
        let names = || {
            let inside = self.hosts.iter().filter(|host| host.namespace().is_some());
            inside.map(|host| &host.name[..]).collect::<Vec<_>>().join(", ")
        };
        let place = places.find(|(name, _)| on.is_none_or(|on| on == *name));
        let (_, namespace) = place.ok_or_else(|| {
            format!("{} is not a real host: expected one of {}", on.unwrap_or("-"), names())
        })?;
        Ok(namespace.command(program))
    }

    /// Describes the hosts, what was adapted for them, and their use.
    pub(crate) fn usage(&self, socket: &Path, notices: &[String]) -> String {
        let mut text = String::from("real hosts:\n");
        for host in &self.hosts {
            let _ =
                writeln!(text, "  {:<16} {:<16} {}", host.name, host.addresses[0].to_string(), host.access());
        }
        for notice in notices {
            let _ = writeln!(text, "  note: {notice}");
        }
        let from = self.hosts.iter().find_map(|host| Some((host, host.namespace()?)));
        if let Some((from, namespace)) = from
            && let Some(to) = self.hosts.iter().rfind(|host| host.name != from.name)
        {
            let _ =
                writeln!(text, "for example:  ip netns exec {} ping {}", namespace.name(), to.addresses[0]);
        }
        let _ = writeln!(text, "change it:    bentpipe set KEY=VALUE   (socket {})", socket.display());
        text.push_str("end it:       Ctrl-C\n");
        text
    }
}

impl Host {
    /// Returns the network namespace of the host, if its programs are on this machine.
    fn namespace(&self) -> Option<&Namespace> {
        match &self.place {
            Place::Namespace(namespace) => Some(namespace),
            Place::Interface(_) => None,
        }
    }

    /// Describes how to get at the host.
    fn access(&self) -> String {
        match &self.place {
            Place::Namespace(namespace) if namespace.is_foreign() => {
                format!("ip netns exec {}", namespace.name())
            }
            Place::Namespace(_) => format!("bentpipe shell {}", self.name),
            Place::Interface(interface) => format!("attached at {}", interface.name()),
        }
    }
}

/// Least limit of the kernel's TCP buffers in a real host.
const MIN_TCP_LIMIT: Bytes = Bytes::new(64_000_000);

/// Returns the limit of TCP buffers for paths of that bandwidth-delay product. It is twice as much, as the kernel
/// counts its own structures too (`tcp_adv_win_scale`).
fn tcp_buffer_limit(bdp: Bytes) -> Bytes {
    Bytes::new(bdp.get().saturating_mul(2).clamp(MIN_TCP_LIMIT.get(), i32::MAX as u64))
}

/// Raises the limits of the kernel's TCP buffers.
///
/// # Errors
/// Returns an error if the kernel does not allow it.
fn raise_tcp_buffers(namespace: &Namespace, limit: Bytes) -> Result<(), SetupError> {
    for (key, initial) in [("net/ipv4/tcp_rmem", 131_072), ("net/ipv4/tcp_wmem", 16_384)] {
        namespace.sysctl(key, &format!("4096 {initial} {}", limit.get()))?;
    }
    Ok(())
}

fn create(host: &RealHost, attachment: Option<&Attachment>) -> Result<Host, SetupError> {
    let name = file_name(&host.name);
    let namespace = match attachment.map(|attachment| &attachment.to) {
        None => Namespace::create(&name)?,
        Some(Target::Namespace(target)) => Namespace::join(&name, target)?,
        Some(Target::Interface(interface)) => {
            return at_interface(host, interface, attachment.is_some_and(|attachment| attachment.dhcp));
        }
    };
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
    if host.interfaces.len() > 1 || namespace.is_foreign() {
        for (to, interface) in &host.routes {
            namespace.route(*to, &names[*interface])?;
        }
    }
    if host.forwards && !namespace.is_foreign() {
        namespace.forward_packets()?;
    }
    let place = Place::Namespace(namespace);
    Ok(Host { name: host.name.clone(), addresses: host.addresses, place, names, devices, notice: None })
}

/// Attaches an interface of this machine in the place of a host with one link.
fn at_interface(host: &RealHost, name: &str, dhcp: bool) -> Result<Host, SetupError> {
    let refused = |why: String| SetupError::Attach { host: host.name.clone(), to: name.to_owned(), why };
    let [interface] = &host.interfaces[..] else {
        let links: Vec<&str> = host.interfaces.iter().map(|interface| &interface.link[..]).collect();
        return Err(refused(format!("it has the links {}: expected a host with one", links.join(", "))));
    };
    let attached = Attached::take(name)?;
    let own = attached.addresses();
    let notice = (!own.is_empty()).then(|| {
        format!(
            "{name} has addresses of this machine ({}), which answers there as well: expected an interface without",
            own.join(", ")
        )
    });
    let (mtu, most) = (interface.mtu.get(), u64::from(attached.mtu_bytes()?));
    if mtu > most {
        let why = format!(
            "its MTU of {most} B is less than the link's, {mtu} B: expected `link.{}.mtu`",
            interface.link
        );
        return Err(refused(why));
    }
    let behind = host.routes.iter().map(|(to, _)| *to).collect();
    let mut tap = Tap::open(name, behind).map_err(|error| refused(error.to_string()))?;
    if let (true, IpAddr::V4(address)) = (dhcp, host.addresses[0]) {
        tap.serve_address(address, u16::try_from(mtu).unwrap_or(u16::MAX));
    }
    Ok(Host {
        name: host.name.clone(),
        addresses: host.addresses,
        names: vec![name.to_owned()],
        devices: vec![(interface.gate, Device::Tap(tap))],
        notice,
        place: Place::Interface(attached),
    })
}

/// Returns a name that is a file name.
fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

/// Returns the link's name if Linux takes it as an interface's.
fn device_name(link: &str, number: usize) -> String {
    let fits = link.len() < 16
        && link.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        && link != "lo";
    if fits { link.to_owned() } else { format!("link{number}") }
}

/// Returns the network namespace of a real host. `emulation` is the process if several have such a host.
///
/// # Errors
/// Returns an error if there is none, or several.
pub fn namespace_of(host: &str, emulation: Option<u32>) -> Result<String, Error> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let wanted = file_name(host);
    let matches = |name: &String| {
        let own = name.strip_prefix("bentpipe-").or_else(|| name.strip_prefix("joined-bentpipe-"));
        let rest = own.and_then(|rest| rest.split_once('-'));
        rest.is_some_and(|(process, name)| {
            name == wanted && emulation.is_none_or(|number| process == number.to_string())
        })
    };
    let found: Vec<String> = names.filter(matches).collect();
    match &found[..] {
        [name] => Ok(name.clone()),
        [] => Err(Error::other(format!("no emulation with a real host \"{host}\" runs"))),
        several => {
            let text = format!(
                "several emulations have a host \"{host}\": {}; choose with --emulation",
                several.join(", ")
            );
            Err(Error::other(text))
        }
    }
}
