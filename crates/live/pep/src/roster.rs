//! Connections of a proxy on a TUN device, for the shell that outlives it.
//!
//! The kernel resets the connections of sockets whose process is killed. Those of the own TCP it does not know: their ends would send to
//! each other with numbers that the other one does not accept. A file in memory, which the shell inherits, has a line for each connection,
//! a command of nft. After a crash the shell runs those lines, and the kernel answers the next segment of each end with a reset, whose
//! number is the one that it acknowledges.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

/// Client and server of a connection.
type Ends = (SocketAddr, SocketAddr);

/// Length of a line: that of the longest addresses of IPv6, with room.
const LINE: usize = 288;

/// Time for which ends may be reset: that of Linux's TCP for retransmissions (`tcp_retries2`).
const TIMEOUT: &str = "15m";

/// Number of looks for ends that are left, in that time.
const LOOKS: u32 = 450;

/// Returns the table of the packet filter that resets ends.
fn table(port: u16) -> String {
    format!("bentpipe_pep_{port}_ended")
}

/// Table of present connections, in a file that another process can read.
#[derive(Debug)]
pub(crate) struct Roster {
    file: File,
    port: u16,
    places: HashMap<Ends, u64>,
    free: Vec<u64>,
}

impl Roster {
    /// Creates a table without connections.
    ///
    /// # Errors
    /// Returns an error if the system has no room for the file.
    pub(crate) fn new(port: u16) -> io::Result<Roster> {
        let file = memfd_create("bentpipe-pep", MemfdFlags::CLOEXEC)?.into();
        Ok(Roster { file, port, places: HashMap::new(), free: Vec::new() })
    }

    /// Returns the file, for another process.
    ///
    /// # Errors
    /// Returns an error if the system has no more descriptors.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Adds a connection, or removes it. Without room for the file, its ends are not reset after a crash.
    pub(crate) fn change(&mut self, ends: Ends, is_present: bool) {
        if !is_present {
            let Some(place) = self.places.remove(&ends) else { return };
            self.free.push(place);
            return self.write(place, "");
        }
        let next = self.places.len() as u64;
        let place = self.free.pop().unwrap_or(next);
        self.places.insert(ends, place);
        self.write(place, &self.line(ends));
    }

    fn write(&self, place: u64, line: &str) {
        let line = format!("{line:<width$}\n", width = LINE - 1);
        let _ = self.file.write_all_at(line.as_bytes(), place * LINE as u64);
    }

    /// Returns the command that has both ends of a connection reset.
    fn line(&self, (client, server): Ends) -> String {
        let set = if client.is_ipv4() { "ipv4" } else { "ipv6" };
        let end = |end: SocketAddr| format!("{} . {}", end.ip(), end.port());
        let (client, server) = (end(client), end(server));
        let elements = format!("{client} . {server}, {server} . {client}");
        format!("add element inet {} {set} {{ {elements} }}", table(self.port))
    }
}

/// Returns the shell commands that reset both ends of the connections of a file.
///
/// The file is the shell's descriptor 3. A SYN that uses the port numbers again is of another connection.
pub(crate) fn reset_commands(port: u16) -> String {
    let table = table(port);
    let (mut sets, mut resets, mut reuses) = (String::new(), String::new(), String::new());
    for (family, address) in [("ip", "ipv4"), ("ip6", "ipv6")] {
        let sent = format!("{family} saddr . tcp sport . {family} daddr . tcp dport");
        let answered = format!("{family} daddr . tcp dport . {family} saddr . tcp sport");
        sets += &format!(
            "  set {address} {{
    type {address}_addr . inet_service . {address}_addr . inet_service
    flags dynamic, timeout
    timeout {TIMEOUT}
    size 262144
  }}
"
        );
        resets += &format!(
            "    meta nfproto {address} {sent} @{address} delete @{address} {{ {sent} }} reject with tcp reset\n"
        );
        for ends in [&sent, &answered] {
            reuses += &format!("    meta nfproto {address} delete @{address} {{ {ends} }}\n");
        }
    }
    format!(
        "ended=$(grep '^add' /proc/$$/fd/3) || exit 0
nft -f - <<END || exit 0
table inet {table} {{
{sets}  chain reuse {{
{reuses}  }}
  chain forward {{
    type filter hook forward priority -1; policy accept;
    meta l4proto != tcp return
    tcp flags & rst == rst return
    tcp flags & (syn | ack) == syn jump reuse
{resets}  }}
}}
$ended
END
for look in $(seq {LOOKS}); do
  nft list table inet {table} | grep -q 'elements =' || break
  sleep 2
done
nft delete table inet {table}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(number: u16) -> Ends {
        (SocketAddr::from(([10, 1, 0, 2], number)), SocketAddr::from(([10, 2, 0, 2], 80)))
    }

    fn lines(roster: &Roster) -> Vec<String> {
        let mut bytes = vec![0; roster.file.metadata().expect("a file").len() as usize];
        roster.file.read_exact_at(&mut bytes, 0).expect("read");
        let text = String::from_utf8(bytes).expect("a text");
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn a_file_has_a_line_for_each_present_connection() {
        let mut roster = Roster::new(9040).expect("memory");
        (1..4).for_each(|number| roster.change(ends(number), true));
        roster.change(ends(2), false);
        roster.change(ends(2), false);
        let line = |number| {
            format!(
                "add element inet bentpipe_pep_9040_ended ipv4 {{ 10.1.0.2 . {number} . 10.2.0.2 . 80, 10.2.0.2 . 80 . 10.1.0.2 . {number} }}"
            )
        };
        assert_eq!(lines(&roster), [line(1), line(3)]);
        roster.change(ends(7), true);
        roster.change(ends(8), true);
        assert_eq!(lines(&roster), [line(1), line(7), line(3), line(8)]);
        assert_eq!(roster.file.metadata().expect("a file").len(), 4 * LINE as u64);
        let long: SocketAddr = "[fd00:1111:2222:3333:4444:5555:6666:7777]:65535".parse().expect("an address");
        assert!(Roster { port: 65_534, ..roster }.line((long, long)).len() < LINE);
    }
}
