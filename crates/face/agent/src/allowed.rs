//! Permissions of a site: its own file `site.toml`, which no controller can widen.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use bentpipe_units::{Bytes, Span};
use serde::Deserialize;

use crate::protocol::{MAX_TASK_S, Program};
use crate::{Error, regular};

/// Most bytes of the file.
const MAX_FILE: usize = 64 << 10;

/// Permissions of a site.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Allowed {
    /// Programs that tasks may start. Default: none.
    ///
    /// Known are "emulate", "gateway", "iperf3", "ping", "dtn-node" and "dtn-perf".
    pub programs: Vec<String>,
    /// Networks that programs may send to, such as "10.0.0.0/8". Default: none.
    pub networks: Vec<Network>,
    /// Interfaces, or namespaces as "netns:NAME", that stand for hosts of a scenario. Default: none.
    pub interfaces: Vec<String>,
    /// Site files of gateways, by name. Default: none.
    pub gateways: BTreeMap<String, PathBuf>,
    /// Node files of `bentpipe dtn node`, by name. Default: none.
    pub nodes: BTreeMap<String, PathBuf>,
    /// Longest time of a task. Default: 1 h.
    pub most_time: Option<Span>,
    /// Most bytes of all tasks that the site keeps, with their files and results. Default: 1 GB.
    pub most_disk: Option<Bytes>,
}

/// Network of addresses: an address and the length of its prefix.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(IpAddr, u8);

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Network, String> {
        let expected = || format!("{text:?}: expected a network such as \"10.0.0.0/8\"");
        let (address, length) = text.split_once('/').ok_or_else(expected)?;
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let length: u8 = length.parse().map_err(|_| expected())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if length > most {
            return Err(expected());
        }
        Ok(Network(address, length))
    }
}

impl Network {
    /// Returns `true` if an address is in the network. IPv4 addresses written as IPv6 are those of IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (32, u128::from(address.to_bits())),
            IpAddr::V6(address) => (128, address.to_bits()),
        };
        let ((own, network), (other, address)) = (bits(self.0), bits(address.to_canonical()));
        own == other && (self.1 == 0 || (network ^ address) >> (own - u32::from(self.1)) == 0)
    }
}

impl Allowed {
    /// Reads the file of a site.
    ///
    /// # Errors
    /// Returns an error with line and key if it is wrong.
    pub fn read(path: &Path) -> Result<Allowed, Error> {
        let text = regular::text(path, 2 * MAX_FILE as u64).map_err(|error| Error::file(path, error))?;
        Allowed::parse(&text).map_err(|why| Error::settings(path, why))
    }

    /// Reads the text of a site's file.
    ///
    /// # Errors
    /// Returns an error with line and key if it is wrong.
    pub fn parse(text: &str) -> Result<Allowed, String> {
        if text.len() > MAX_FILE {
            return Err(format!("expected at most {MAX_FILE} bytes"));
        }
        let allowed: Allowed = toml::from_str(text).map_err(|error| error.to_string())?;
        let known = Program::NAMES;
        if let Some(wrong) = allowed.programs.iter().find(|name| !known.contains(&&name[..])) {
            return Err(format!("programs: {wrong:?}: expected some of {}", known.join(", ")));
        }
        for (table, files) in [("gateways", &allowed.gateways), ("nodes", &allowed.nodes)] {
            if let Some((name, _)) = files.iter().find(|(_, path)| !path.is_absolute()) {
                return Err(format!("{table}.{name}: expected an absolute path"));
            }
        }
        Ok(allowed)
    }

    /// Returns the longest time of a task in seconds.
    pub fn most_s(&self) -> u32 {
        let most = self.most_time.map_or(3600.0, Span::as_secs_f64);
        (most as u32).clamp(1, MAX_TASK_S)
    }

    /// Returns the most bytes of all tasks together.
    pub fn most_bytes(&self) -> u64 {
        self.most_disk.map_or(1_000_000_000, Bytes::get)
    }

    /// Checks a program against the list.
    ///
    /// # Errors
    /// Returns the reason why the site does not start it.
    pub fn check(&self, program: &Program) -> Result<(), String> {
        let name = program.name();
        if !self.programs.iter().any(|known| known == name) {
            return Err(format!("{name}: not among the programs of the site's file"));
        }
        let to = |host: &IpAddr| match self.networks.iter().any(|network| network.contains(*host)) {
            true => Ok(()),
            false => Err(format!("{host}: not in the networks of the site's file")),
        };
        match program {
            Program::Iperf3 { host, .. } | Program::Ping { host, .. } => to(host),
            Program::DtnPerf { node, .. } => to(&node.ip()),
            Program::DtnNode { name } if !self.nodes.contains_key(name) => {
                Err(format!("{name:?}: not among the nodes of the site's file"))
            }
            Program::Gateway { name } if !self.gateways.contains_key(name) => {
                Err(format!("{name:?}: not among the gateways of the site's file"))
            }
            Program::Emulate { attach, join, .. } => {
                join.as_ref().map_or(Ok(()), |join| to(&join.to.ip()))?;
                match attach.iter().find(|one| !self.interfaces.contains(&one.interface)) {
                    Some(one) => {
                        Err(format!("{:?}: not among the interfaces of the site's file", one.interface))
                    }
                    None => Ok(()),
                }
            }
            Program::Gateway { .. } | Program::Iperf3Server { .. } | Program::DtnNode { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Attach;

    const FILE: &str = "\
programs = [\"emulate\", \"iperf3\", \"gateway\"]
networks = [\"10.0.0.0/8\", \"2001:db8::/32\"]
interfaces = [\"eth1\"]
most_time = \"10 min\"
most_disk = \"5 MB\"
[gateways]
east = \"/etc/bentpipe/east.toml\"
";

    #[test]
    fn only_what_the_site_lists_is_started() {
        let allowed = Allowed::parse(FILE).expect("fine");
        assert_eq!((allowed.most_s(), allowed.most_bytes()), (600, 5_000_000));
        let iperf3 = |host: &str| Program::Iperf3 {
            host: host.parse().expect("an address"),
            port: 5201,
            seconds: 1,
            rate: None,
            udp: false,
            reverse: false,
        };
        for good in ["10.255.0.1", "2001:db8::9", "::ffff:10.1.2.3"] {
            assert_eq!(allowed.check(&iperf3(good)), Ok(()), "{good}");
        }
        for bad in
            ["169.254.169.254", "127.0.0.1", "::1", "11.0.0.1", "::ffff:169.254.169.254", "2001:db9::1"]
        {
            assert!(allowed.check(&iperf3(bad)).is_err_and(|why| why.contains("networks")), "{bad}");
        }
        let ping = Program::Ping { host: [10, 0, 0, 1].into(), count: 1, interval_ms: 1000 };
        assert!(allowed.check(&ping).is_err_and(|why| why.starts_with("ping: not among the programs")));
        let gateway = |name: &str| Program::Gateway { name: name.to_owned() };
        assert_eq!(allowed.check(&gateway("east")), Ok(()));
        assert!(allowed.check(&gateway("/etc/passwd")).is_err());
        let emulate = |interface: &str| Program::Emulate {
            scenario: String::new(),
            attach: vec![Attach { host: "a".to_owned(), interface: interface.to_owned() }],
            duration: None,
            files: Vec::new(),
            join: None,
        };
        assert_eq!(allowed.check(&emulate("eth1")), Ok(()));
        assert!(allowed.check(&emulate("eth0")).is_err_and(|why| why.contains("interfaces")));
    }

    #[test]
    fn an_empty_file_permits_nothing_and_a_wrong_one_is_refused_in_words() {
        let none = Allowed::parse("").expect("fine");
        assert!(none.check(&Program::Iperf3Server { port: 5201 }).is_err());
        for (bad, why) in [
            ("programs = [\"sh\"]", "expected some of emulate"),
            ("networks = [\"10.0.0.0/33\"]", "expected a network"),
            ("networks = [\"lan\"]", "line 1"),
            ("program = [\"ping\"]", "unknown field `program`"),
            ("[gateways]\na = \"east.toml\"", "gateways.a: expected an absolute path"),
        ] {
            let found = Allowed::parse(bad).expect_err(bad);
            assert!(found.contains(why), "{found}");
        }
    }
}
