//! Outages by a contact plan: a link carries in its contacts only.

use bentpipe_transport::app::Sink;

use super::{at, built, refused};

const PLAN: &str = "\
    a range +0 +100 relay ground 2\n\
    a contact +10 +20 relay ground 1000\n\
    a contact +30 +31 relay ground 1000\n";

fn text(contacts: &str) -> String {
    format!(
        r#"
title = "t"
duration = "60 s"
node.a = {{}}
node.b = {{}}
[link.l]
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "2 s"
channel = {{ kind = "outages", contacts = {{ {contacts} }} }}
[flow.f]
from = "a"
to = "b"
traffic = {{ kind = "udp", pattern = {{ kind = "constant", interval = "100 ms" }}, payload = "100 B" }}
"#
    )
}

/// Returns a folder with the plan, and its contacts as a scenario names them.
fn plan() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plan.ionrc");
    std::fs::write(&path, PLAN).expect("written");
    let contacts = format!("file = \"{}\", from = \"relay\", to = \"ground\"", path.display());
    (folder, contacts)
}

#[test]
fn packets_pass_in_the_contacts_of_a_plan() {
    let (_folder, contacts) = plan();
    let mut built = built(&text(&contacts));
    let mut received = Vec::new();
    for second in 1..=60 {
        built.network.run_until(at(second));
        let sink: &mut Sink = built.network.element(built.flows[0].receivers[0]).expect("a sink");
        received.push(sink.flows().iter().map(|flow| flow.packets).sum::<u64>());
    }
    // 10 s and 1 s of contact, 10 packets per second; the light time is that of the link.
    let in_second = |n: usize| received[n] - received[n - 1];
    assert_eq!((received[11], received[59]), (0, 110), "{received:?}");
    assert_eq!((in_second(15), in_second(25), in_second(40)), (10, 0, 0), "{received:?}");
}

/// Returns the refusal of a scenario.
#[test]
fn contacts_repeat_with_their_plan() {
    let (_folder, contacts) = plan();
    let repeated = |every: &str| text(&contacts).replace("} }", &format!("}}, every = \"{every}\" }}"));
    let mut built = built(&repeated("40 s"));
    built.network.run_until(at(60));
    let sink: &mut Sink = built.network.element(built.flows[0].receivers[0]).expect("a sink");
    // At the receiver from 12 s to 22 s, from 32 s to 33 s, and from 52 s on.
    assert_eq!(sink.flows().iter().map(|flow| flow.packets).sum::<u64>(), 100 + 10 + 80);
    let say = refused(&repeated("32 s"));
    let wanted = "link.l.channel.every: expected a time after the last contact, which ends at 33 s";
    assert!(say.contains(wanted), "{say}");
}

#[test]
fn a_file_that_is_missing_or_has_no_such_contact_is_refused_with_its_key() {
    let (_folder, contacts) = plan();
    let both = text(&contacts).replace("} }", "}, outages = [{ at = \"1 s\", lasts = \"1 s\" }] }");
    for (text, wanted) in [
        (
            text("file = \"/none.ionrc\", from = \"relay\", to = \"ground\""),
            "link.l.channel.contacts.file: /none.ionrc",
        ),
        (
            text(&contacts.replace("\"relay\"", "\"moon\"")),
            "link.l.channel.contacts.from: no contact names \"moon\"",
        ),
        (text(&contacts.replace("\"ground\"", "\"relay\"")), "link.l.channel.contacts.file: "),
        (both, "link.l.channel.outages: conflicts with `contacts`"),
        (text("").replace(", contacts = {  }", ""), "link.l.channel.outages: "),
    ] {
        let say = refused(&text);
        assert!(say.contains(wanted), "{say}");
    }
}
