//! Attachments in the places of hosts: `--attach HOST=INTERFACE`, `--attach HOST=INTERFACE,dhcp` and `--attach HOST=netns:TARGET`.

use std::str::FromStr;

use bentpipe_scenario::{Document, NodeKind, Scenario};

use crate::Error;

/// Something outside in the place of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Name of the host.
    pub host: String,
    /// Interface or namespace in its place.
    pub to: Target,
    /// Enables a DHCP server at the interface, with the host's address.
    pub dhcp: bool,
}

/// Interface or namespace in the place of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Interface of this machine: physical, veth, VLAN, or the TAP of a virtual machine.
    Interface(String),
    /// Network namespace, by its name or a process in it.
    Namespace(String),
}

impl FromStr for Attachment {
    type Err = String;

    fn from_str(text: &str) -> Result<Attachment, String> {
        let expected = "expected HOST=INTERFACE, HOST=INTERFACE,dhcp, HOST=netns:PID or HOST=netns:NAME";
        let (host, to) = text.split_once('=').ok_or(expected)?;
        let (host, to) = (host.trim().to_owned(), to.trim());
        let (to, dhcp) = to.strip_suffix(",dhcp").map_or((to, false), |to| (to, true));
        let target = match to.strip_prefix("netns:") {
            Some(target) => Target::Namespace(target.to_owned()),
            None => Target::Interface(to.to_owned()),
        };
        let (Target::Interface(name) | Target::Namespace(name)) = &target;
        if host.is_empty() || name.is_empty() || name.contains(['/', ' ']) {
            return Err(expected.to_owned());
        }
        if dhcp && matches!(target, Target::Namespace(_)) {
            return Err(
                "a namespace has its addresses already: expected an interface with `,dhcp`".to_owned()
            );
        }
        Ok(Attachment { host, to: target, dhcp })
    }
}

/// Checks attachments, and makes their hosts real ones if others are.
///
/// # Errors
/// Returns an error for a node that is not a host of the scenario, or what is attached twice.
pub fn prepare_attachments(document: &mut Document, attachments: &[Attachment]) -> Result<(), Error> {
    if attachments.is_empty() {
        return Ok(());
    }
    let scenario = document.scenario()?;
    let has_real = scenario.node.values().any(|node| node.real);
    for (n, Attachment { host, to, .. }) in attachments.iter().enumerate() {
        let option = format!("--attach {host}");
        check(&scenario, host).map_err(|problem| Error::other(format!("{option}: {problem}")))?;
        let is_double = |other: &Attachment| other.host == *host || other.to == *to;
        if attachments[..n].iter().any(is_double) {
            return Err(Error::other(format!("{option}: attached twice")));
        }
        if has_real {
            document.set_by(&option, &format!("node.{host}.real=true"))?;
        }
    }
    Ok(())
}

fn check(scenario: &Scenario, host: &str) -> Result<(), String> {
    let hosts = || {
        let hosts = scenario.node.iter().filter(|(_, node)| node.kind == NodeKind::Host);
        hosts.map(|(name, _)| &name[..]).collect::<Vec<_>>().join(", ")
    };
    match scenario.node.get(host) {
        Some(node) if node.kind == NodeKind::Host && node.count == 1 => Ok(()),
        Some(node) if node.kind == NodeKind::Host => {
            Err("has copies: expected a host without `count`".to_owned())
        }
        _ => Err(format!("not a host: expected one of {}", hosts())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_attached_to_interfaces_and_namespaces() {
        let read = |text: &str| text.parse::<Attachment>();
        let attachment = |host: &str, to| Ok(Attachment { host: host.to_owned(), to, dhcp: false });
        assert!(
            read("client=eth1,dhcp")
                .is_ok_and(|read| read.dhcp && read.to == Target::Interface("eth1".to_owned()))
        );
        assert_eq!(read("client=eth1.7"), attachment("client", Target::Interface("eth1.7".to_owned())));
        assert_eq!(read("client=netns:4711"), attachment("client", Target::Namespace("4711".to_owned())));
        for wrong in [
            "client",
            "=eth1",
            "client=",
            "client=netns:",
            "client=a/b",
            "client=netns:../x",
            "client=netns:7,dhcp",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_hosts_take_attachments() {
        let text = "title = \"t\"\nduration = \"1 s\"\nnode.a = {}\nnode.b = { kind = \"router\" }\nnode.c = { real = true }\n\
                    [link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n[link.m]\nbetween = [\"b\", \"c\"]\nrate = \"1 Mbit/s\"\n";
        let mut document = Document::parse("f.toml", text.as_bytes()).expect("TOML");
        let mut prepare = |all: &[&str]| {
            let all: Vec<Attachment> = all.iter().map(|text| text.parse().expect("an attachment")).collect();
            prepare_attachments(&mut document, &all).map_err(|error| error.to_string())
        };
        assert!(
            prepare(&["b=eth0"]).is_err_and(|problem| problem.contains("not a host: expected one of a, c"))
        );
        assert!(prepare(&["d=eth0"]).is_err_and(|problem| problem.contains("not a host")));
        assert!(prepare(&["a=eth0", "c=eth0"]).is_err_and(|problem| problem.contains("attached twice")));
        assert_eq!(prepare(&["a=eth0"]), Ok(()));
        assert!(document.scenario().expect("fine").node["a"].real);
    }
}
