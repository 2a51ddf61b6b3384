//! State of a machine: what would make a task fail, found before it starts.

use std::path::Path;

use rustix::thread::CapabilitySet;

use crate::Allowed;
use crate::protocol::Doctor;

/// Folders of the programs of tasks, in the order of their search.
pub(crate) const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Free bytes below which a machine is reported as full.
const LITTLE: u64 = 100_000_000;

/// Returns `true` if a program is in one of the folders of [`PATH`].
fn is_installed(name: &str) -> bool {
    PATH.split(':').any(|folder| Path::new(folder).join(name).is_file())
}

/// Examines the machine.
pub(crate) fn examine(folder: &Path, allowed: &Allowed) -> Doctor {
    let has = |name: &str| allowed.programs.iter().any(|known| known == name);
    let mut problems = Vec::new();
    let mut needed = vec!["iperf3", "ping"];
    needed.retain(|name| has(name));
    if has("emulate") {
        needed.push("ip");
    }
    problems.extend(
        needed.into_iter().filter(|name| !is_installed(name)).map(|name| format!("{name} is not installed")),
    );
    let effective = rustix::thread::capabilities(None).map(|sets| sets.effective);
    let wanted = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    let makes_namespaces = effective.is_ok_and(|effective| effective.contains(wanted));
    if (has("emulate") || has("gateway")) && !makes_namespaces {
        problems.push("emulate and gateway need CAP_NET_ADMIN and CAP_SYS_ADMIN".to_owned());
    }
    for interface in &allowed.interfaces {
        let path = match interface.strip_prefix("netns:") {
            Some(name) => Path::new("/run/netns").join(name),
            None => Path::new("/sys/class/net").join(interface),
        };
        if !path.exists() {
            problems.push(format!("interface {interface} is missing"));
        }
    }
    for (kind, files) in [("gateway", &allowed.gateways), ("node", &allowed.nodes)] {
        let missing = files.iter().filter(|(_, path)| !path.is_file());
        problems.extend(missing.map(|(name, _)| format!("{kind} {name}: its file is missing")));
    }
    let free_bytes =
        rustix::fs::statvfs(folder).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    let kept = crate::folder::size(&folder.join("tasks"));
    if free_bytes < LITTLE.max(allowed.most_bytes().saturating_sub(kept)) {
        problems.push("less free disk than tasks may write".to_owned());
    }
    problems.truncate(50);
    let processors = std::thread::available_parallelism().map_or(0, |count| count.get() as u32);
    Doctor { programs: allowed.programs.clone(), problems, free_bytes, processors }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let text = "programs = [\"emulate\"]\ninterfaces = [\"lo\", \"none0\"]\n[gateways]\na = \"/none\"";
        let allowed = Allowed::parse(text).expect("fine");
        let found = examine(Path::new("/"), &allowed);
        assert!(found.free_bytes > 0 && found.processors > 0);
        assert!(found.problems.contains(&"interface none0 is missing".to_owned()), "{found:?}");
        assert!(found.problems.contains(&"gateway a: its file is missing".to_owned()), "{found:?}");
        assert!(!found.problems.iter().any(|problem| problem.contains("interface lo")), "{found:?}");
    }
}
