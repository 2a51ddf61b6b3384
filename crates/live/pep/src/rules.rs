//! Packet filter and routes that divert connections to a proxy.
//!
//! On a TUN device policy routes lead TCP packets of the interfaces of both sides to the device, but for those to the router itself.
//!
//! By TPROXY the SYN of a connection that the route to its server leads from one side to the other is diverted to a listener. Later
//! packets of split connections are delivered to their sockets (`socket transparent`). All other packets are forwarded: connections to the
//! router itself, between two interfaces of one side, and those that opened before.
//!
//! A listener with many half-open connections answers with SYN cookies (RFC 4987, section 3.6). The ACK of a cookie has no socket, so the
//! filter keeps the SYNs of the last seconds in a set, and diverts their ACKs too. A SYN that has no place in a full set is forwarded.
//!
//! Failures leave traffic as it is without a proxy. A diversion without a listener does nothing (nft(8), `tproxy`), nor does a rule
//! to a table without routes (ip-rule(8)), and a [`Guard`] removes the rules when the process ends, also by a crash.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};

use std::os::unix::process::CommandExt;

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};

use crate::config::{Config, Mode, Side};
use crate::roster::{Roster, reset_commands};
use crate::sockets::addresses;

/// Shell commands that divert connections, and those that undo them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Commands before the proxy.
    pub set_up: String,
    /// Commands after it.
    pub remove: String,
}

/// Returns `true` if the loopback interface has an IPv6 address.
pub(crate) fn has_loopback_v6() -> bool {
    let addresses = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    addresses.lines().any(|line| line.starts_with("00000000000000000000000000000001 "))
}

/// Checks that the network namespace has an interface of this name.
///
/// # Errors
/// Returns an error that names the interface.
pub(crate) fn has_interface(name: &str) -> Result<(), String> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None);
    match socket.is_ok_and(|socket| name_to_index(socket, name).is_ok()) {
        true => Ok(()),
        false => Err(format!("no network interface is called \"{name}\"; help: `ip link` lists them")),
    }
}

/// Returns the name of the TUN device.
pub(crate) fn device(config: &Config) -> String {
    format!("pep{}", config.port)
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}

/// Returns the rules of a proxy, with those of IPv6 where the system has it.
pub fn rules(config: &Config) -> Rules {
    match config.mode {
        Mode::Tun => routing_rules(config),
        Mode::Tproxy => filter_rules(config),
    }
}

/// Returns the policy routes of a proxy on a TUN device.
fn routing_rules(config: &Config) -> Rules {
    let (device, table) = (device(config), config.port);
    let families = if has_loopback_v6() { &["-4", "-6"][..] } else { &["-4"] };
    let (mut set_up, mut remove) = (String::new(), String::new());
    for family in families {
        set_up += &format!("ip {family} route add default dev {device} table {table}\n");
        for name in config.ground.iter().chain(&config.satellite) {
            let rule = format!("iif {name} ipproto tcp lookup {table} priority {table}");
            set_up += &format!("ip {family} rule add {rule}\n");
            remove += &format!("ip {family} rule del {rule}\n");
        }
        remove += &format!("ip {family} route flush table {table}\n");
    }
    Rules { set_up, remove }
}

/// Time for which the answer to a SYN may take, with its repetitions.
const OFFERED: &str = "15s";

/// SYNs that are kept for each IP version: 8,700 a second.
const MAX_OFFERED: u32 = 131_072;

/// Parts of the packet filter that differ by IP version and side.
#[derive(Default)]
struct Parts {
    sets: String,
    /// Rules that note a SYN.
    notes: String,
    /// Rules that divert a packet of a noted SYN.
    diversions: String,
    /// Rules that forget a SYN, as no listener took it.
    removals: String,
}

impl Parts {
    fn new(config: &Config) -> Parts {
        let mut parts = Parts::default();
        for (family, address) in [("ip", "ipv4"), ("ip6", "ipv6")] {
            parts.sets += &format!(
                "  set offered_{address} {{
    type {address}_addr . inet_service . {address}_addr . inet_service
    flags dynamic, timeout
    timeout {OFFERED}
    size {MAX_OFFERED}
  }}
"
            );
            parts.removals += &format!(
                "    meta nfproto {address} delete @offered_{address} {{ {} }}\n",
                Parts::ends(family)
            );
        }
        addresses(config.port).into_iter().for_each(|(address, side)| parts.add(config, address, side));
        parts
    }

    /// Returns the expression of a packet's ends.
    fn ends(family: &str) -> String {
        format!("{family} saddr . tcp sport . {family} daddr . tcp dport")
    }

    fn add(&mut self, config: &Config, address: SocketAddr, side: Side) {
        let (from, to) = match side {
            Side::Ground => (&config.ground, &config.satellite),
            Side::Satellite => (&config.satellite, &config.ground),
        };
        let (family, version) = if address.is_ipv4() { ("ip", "ipv4") } else { ("ip6", "ipv6") };
        let (from, to, ends, mark) = (quoted(from), quoted(to), Parts::ends(family), config.port);
        let arrives = format!("iifname {{ {from} }} meta nfproto {version} meta l4proto tcp");
        self.notes +=
            &format!("    {arrives} fib daddr oifname {{ {to} }} update @offered_{version} {{ {ends} }}\n");
        self.diversions += &format!(
            "    {arrives} {ends} @offered_{version} tproxy {family} to {address} meta mark set {mark} accept\n"
        );
    }
}

/// Returns the packet filter of a proxy by TPROXY.
fn filter_rules(config: &Config) -> Rules {
    let has_v6 = has_loopback_v6();
    let (mark, port) = (config.port, config.port);
    let table = format!("bentpipe_pep_{port}");
    let both = quoted(&[&config.ground[..], &config.satellite].concat());
    let Parts { sets, notes, diversions, removals } = Parts::new(config);
    let mut set_up = format!(
        "nft -f - <<'END'
table inet {table} {{
{sets}  chain answer {{
{diversions}  }}
  chain open {{
{notes}    jump answer
{removals}  }}
  chain divert {{
    type filter hook prerouting priority mangle; policy accept;
    iifname != {{ {both} }} return
    meta l4proto != tcp return
    fib daddr type local return
    tcp flags & (syn | ack | rst) == syn jump open
    socket transparent 1 meta mark set {mark} accept
    tcp flags & (syn | ack | rst) == ack jump answer
  }}
}}
END
ip rule add fwmark {mark} lookup {mark} priority {mark}
ip route add local default dev lo table {mark}
"
    );
    let mut remove = format!(
        "nft delete table inet {table}
ip rule del fwmark {mark} lookup {mark}
ip route flush table {mark}
"
    );
    if has_v6 {
        set_up += &format!(
            "ip -6 rule add fwmark {mark} lookup {mark} priority {mark}
ip -6 route add local default dev lo table {mark}
"
        );
        remove += &format!(
            "ip -6 rule del fwmark {mark} lookup {mark}
ip -6 route flush table {mark}
"
        );
    }
    Rules { set_up, remove }
}

/// Returns the commands that remove what killed proxies of either mode left, with any interfaces.
///
/// Rules are those of the port's priority and table: a proxy of the other mode, or between other interfaces, may have left them.
fn remove_leftovers(port: u16) -> String {
    let mut commands = format!("nft delete table inet bentpipe_pep_{port}\n");
    for family in ["-4", "-6"] {
        // Each call deletes one rule, and the last fails.
        commands += &format!(
            "while ip {family} rule del priority {port} lookup {port}; do :; done
ip {family} route flush table {port}
"
        );
    }
    commands
}

/// Rules that are set up. A shell waits for the end of a pipe, thus of this process, and removes them.
///
/// It also resets the connections of a roster that are left.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
    pipe: Option<ChildStdin>,
    remove: String,
}

impl Guard {
    /// Sets up the rules of a proxy, in place of leftovers on its port. After a crash the connections of a roster are reset.
    ///
    /// # Errors
    /// Returns an error that says which program is missing, or why a command failed.
    pub(crate) fn set_up(config: &Config, roster: Option<&Roster>) -> Result<Guard, String> {
        let Rules { set_up, remove } = &rules(config);
        for name in config.ground.iter().chain(&config.satellite) {
            has_interface(name)?;
        }
        for (program, package) in [("nft", "nftables"), ("ip", "iproute2")] {
            let is_used = set_up.lines().any(|line| line.starts_with(program));
            if is_used && Command::new(program).arg("-V").output().is_err() {
                return Err(format!("`{program}` is not installed; help: install the package `{package}`"));
            }
        }
        // A proxy that was ended together with its guard has left some; this one owns their port.
        shell(&remove_leftovers(config.port), false).ok();
        let guard = Guard::watch(remove, config.port, roster)?;
        shell(set_up, true)?;
        Ok(guard)
    }

    fn watch(remove: &str, port: u16, roster: Option<&Roster>) -> Result<Guard, String> {
        let resets = roster.map(|_| reset_commands(port)).unwrap_or_default();
        let file = roster.map(Roster::file).transpose().map_err(|error| format!("sh: {error}"))?;
        // Signals that end the proxy are not for the guard: it would leave before its work.
        let script = format!("trap '' HUP INT TERM\nexec 3>&1 >/dev/null\ncat >/dev/null\n{remove}{resets}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).process_group(0);
        command
            .stdin(Stdio::piped())
            .stdout(file.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::null());
        let mut shell = command.spawn().map_err(|error| format!("sh: {error}"))?;
        let pipe = shell.stdin.take();
        Ok(Guard { shell, pipe, remove: remove.to_owned() })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let has_removed = self.shell.wait().is_ok_and(|status| status.code().is_some());
        if !has_removed {
            // Something ended the guard.
            shell(&self.remove, false).ok();
        }
    }
}

/// Runs shell commands, to the first that fails if they are strict.
fn shell(commands: &str, is_strict: bool) -> Result<(), String> {
    let mut command = Command::new("sh");
    command.arg(if is_strict { "-e" } else { "-s" }).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut shell = command.spawn().map_err(|error| format!("sh: {error}"))?;
    if let Some(mut pipe) = shell.stdin.take() {
        let _ = pipe.write_all(commands.as_bytes());
    }
    let output = shell.wait_with_output().map_err(|error| format!("sh: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("the rules cannot be set up: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
