//! Accounts of packets that are copied, lost, held back and in fragments, on paths to one host and to groups.

use bentpipe_record::LedgerColumn;
use bentpipe_units::RandomStream;

use super::accounts::{Run, one_of};

/// Nodes and links behind the sender "a", with `@` in the place of what a link has besides its ends.
const PATHS: [(&str, &str, &str); 6] = [
    (
        "one host",
        "y",
        "node.r = { kind = \"router\" }\nnode.y = {}\nlink.u = { between = [\"a\", \"r\"]@ }\nlink.y = { between = [\"r\", \"y\"]@ }\n",
    ),
    (
        "a group",
        "g",
        "node.r = { kind = \"router\" }\nnode.y = {}\nnode.z = {}\ngroup.g = { members = [\"y\", \"z\"] }\n\
      link.u = { between = [\"a\", \"r\"]@ }\nlink.y = { between = [\"r\", \"y\"]@ }\nlink.z = { between = [\"r\", \"z\"]@ }\n",
    ),
    (
        "two levels",
        "g",
        "node.r = { kind = \"router\" }\nnode.s = { kind = \"router\" }\nnode.w = {}\nnode.y = {}\nnode.z = {}\n\
      group.g = { members = [\"w\", \"y\", \"z\"] }\nlink.u = { between = [\"a\", \"r\"]@ }\nlink.w = { between = [\"r\", \"w\"]@ }\n\
      link.s = { between = [\"r\", \"s\"]@ }\nlink.y = { between = [\"s\", \"y\"]@ }\nlink.z = { between = [\"s\", \"z\"]@ }\n",
    ),
    (
        "a member on the way",
        "g",
        "node.r = { kind = \"router\" }\nnode.z = {}\ngroup.g = { members = [\"r\", \"z\"] }\n\
      link.u = { between = [\"a\", \"r\"]@ }\nlink.z = { between = [\"r\", \"z\"]@ }\n",
    ),
    (
        "members of a number",
        "g",
        "node.r = { kind = \"router\" }\nnode.y = { count = 3 }\ngroup.g = { members = [\"y\"] }\n\
      link.u = { between = [\"a\", \"r\"]@ }\nlink.y = { between = [\"r\", \"y\"]@ }\n",
    ),
    (
        "a chain",
        "g",
        "node.r = { kind = \"router\" }\nnode.s = { kind = \"router\" }\nnode.z = {}\ngroup.g = { members = [\"z\", \"s\"] }\n\
      link.u = { between = [\"a\", \"r\"]@ }\nlink.s = { between = [\"r\", \"s\"]@ }\nlink.z = { between = [\"s\", \"z\"]@ }\n",
    ),
];

const FAULTS: [&str; 6] = [
    "{ kind = \"duplication\", probability = 0.3 }",
    "{ kind = \"reordering\", probability = 0.5, delay = \"15 ms\" }",
    "{ kind = \"packet-errors\", loss = 0.1 }",
    "{ kind = \"jitter\", law = { kind = \"uniform\", min = \"0 s\", max = \"20 ms\" }, keep_order = false }",
    "{ kind = \"gilbert-elliott\", p = 0.05, r = 0.3 }",
    "{ kind = \"outages\", outages = [{ at = \"1 s\", lasts = \"300 ms\" }, { at = \"2800 ms\", lasts = \"1 s\" }] }",
];

/// Returns what a link has: a rate that may be too low, a delay, an MTU, faults.
fn link(stream: &mut RandomStream) -> String {
    let line = one_of(
        stream,
        &[
            "rate = \"10 Mbit/s\", delay = \"100 us\"",
            "rate = \"10 Mbit/s\", delay = \"40 ms\"",
            "rate = \"700 kbit/s\", delay = \"5 ms\", queue = { kind = \"drop-tail\", packets = 5 }",
        ],
    );
    let mtu = one_of(stream, &["", "", ", mtu = \"300 B\"", ", mtu = \"700 B\""]);
    let count = (stream.unit() * 4.0) as usize;
    let faults: Vec<&str> = (0..count).map(|_| one_of(stream, &FAULTS)).collect();
    let faults = if faults.is_empty() {
        String::new()
    } else {
        format!(", forward.channel = [{}]", faults.join(", "))
    };
    format!(", {line}{mtu}{faults}")
}

/// Returns a scenario and its name.
fn generated(stream: &mut RandomStream) -> (String, &'static str) {
    let (name, to, path) = PATHS[(stream.unit() * PATHS.len() as f64) as usize % PATHS.len()];
    let mut parts = path.split('@');
    let mut text =
        format!("title = \"t\"\nduration = \"3 s\"\nnode.a = {{}}\n{}", parts.next().unwrap_or(""));
    parts.for_each(|part| text += &(link(stream) + part));
    let payload = one_of(stream, &["200 B", "1000 B", "2500 B"]);
    let warm_up = one_of(stream, &["", "probe.warm_up = \"500 ms\"\n"]);
    let udp = format!(
        "{{ kind = \"udp\", pattern = {{ kind = \"constant\", interval = \"10 ms\" }}, payload = \"{payload}\" }}"
    );
    let traffic = match to {
        "y" => one_of(stream, &[&udp[..], "{ kind = \"ping\", interval = \"10 ms\", payload = \"900 B\" }"]),
        _ => &udp,
    };
    (format!("{text}{warm_up}[flow.f]\nfrom = \"a\"\nto = \"{to}\"\ntraffic = {traffic}\n"), name)
}

#[test]
fn accounts_of_copied_packets_close() {
    let mut stream = RandomStream::new(52, "copies");
    let mut copied = 0;
    for _ in 0..240 {
        let (text, name) = generated(&mut stream);
        let run = Run::new(&text);
        run.check(&format!("{name}\n{text}"));
        copied += u32::from(run.column("flow.f.sender", LedgerColumn::Copied) > 0);
        assert!(run.column("flow.f.sender", LedgerColumn::Sent) > 290, "{text}");
    }
    assert!(copied > 120, "{copied}");
}

#[test]
fn copies_are_booked_where_they_are_made() {
    let (_, _, path) = PATHS[1];
    for delay in ["100 us", "1 ms", "40 ms"] {
        let quick = format!(", rate = \"10 Mbit/s\", delay = \"{delay}\"");
        let up = ", rate = \"10 Mbit/s\", delay = \"40 ms\", mtu = \"300 B\", forward.channel = [{ kind = \"reordering\", probability = 0.5, delay = \"15 ms\" }, { kind = \"packet-errors\", loss = 0.1 }]";
        let text = format!("title = \"t\"\nduration = \"20 s\"\nnode.a = {{}}\n{path}").replacen('@', up, 1);
        let udp = "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"10 ms\" }, payload = \"1000 B\" }";
        let run = Run::new(
            &(text.replace('@', &quick) + &format!("[flow.f]\nfrom = \"a\"\nto = \"g\"\ntraffic = {udp}\n")),
        );
        run.check(delay);
        let at_router = run.packets("flow.f.sender", LedgerColumn::Copied, ("", "node.r"));
        assert_eq!(run.column("flow.f.sender", LedgerColumn::Copied), at_router, "{delay}");
        let lost = run.column("flow.f.sender", LedgerColumn::Dropped) as f64 / 2000.0;
        assert!((lost - (1.0 - 0.9_f64.powi(4))).abs() < 0.04, "{delay}: {lost}");
    }
}
