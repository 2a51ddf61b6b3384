//! Reloading, and the other things that are asked of a gateway while it runs.

use std::io::{Read, Write};
use std::net::TcpStream;

use bentpipe_testkit::until;

use super::rig::{Sky, site_of_two, udp};

const ROHC: &str = "rohc = { refresh = 0, dynamic_refresh = 0 }";

#[test]
fn a_reload_changes_what_was_changed_and_keeps_contexts() {
    let Some(sky) = Sky::new(2) else { return };
    let site = |n, remote: &str| site_of_two(n, "rate = \"8 Mbit/s\"", &udp(n), remote);
    let (one, _two) = (sky.start(1, &site(1, ROHC)), sky.start(2, &site(2, ROHC)));
    sky.expect_pings(1, "10.2.0.1");
    let (from, to) = (sky.socket(1, "10.1.0.1:7001"), sky.socket(2, "10.2.0.1:7000"));
    let talk = |words: &[u8]| {
        from.send_to(words, "10.2.0.1:7000").expect("sent");
        let mut buffer = [0; 100];
        to.recv(&mut buffer).map(|len| buffer[..len].to_vec()).expect("it arrives")
    };
    (0..20).for_each(|n| assert_eq!(talk(&[n; 20]), [n; 20]));
    let irs = || one.statistics()["remote"]["other"]["rohc_ir"].as_u64().expect("a count");
    let before = irs();
    assert!(before > 0);

    let changed = format!(
        "{ROHC}\n[[remote.other.filter]]\ndst_port = \"9\"\naction = \"drop\"\n[remote.third]\nsend = \"0x301\"\nreceive = [\"0x302\"]\nnetworks = [\"10.3.0.0/24\"]\n"
    );
    let text = site(1, &changed).replace("8 Mbit/s", "6 Mbit/s");
    std::fs::write(&one.path, &text).expect("written");
    let (fine, said) = one.ask("reload");
    assert!(
        fine && said.contains("remote site third starts again") && said.contains("contexts kept"),
        "{said}"
    );
    (0..20).for_each(|n| assert_eq!(talk(&[n; 20]), [n; 20]));
    assert_eq!(irs(), before, "the contexts began anew");
    from.send_to(b"dropped", "10.2.0.1:9").expect("sent");
    let routes = sky.run(1, &["ip", "route"]);
    assert!(routes.contains("10.3.0.0/24 dev bent0"), "{routes}");
    let dropped = || one.statistics()["remote"]["other"]["filter_dropped"].as_u64();
    until("a packet that the new filter drops", || dropped() == Some(1));

    // A file with a mistake changes nothing, and says where the mistake is.
    std::fs::write(&one.path, text.replace("\"0x301\"", "\"0x101\"")).expect("written");
    let (fine, said) = one.ask("reload");
    assert!(!fine && said.contains("remote.third.send") && said.contains("0x101 is taken"), "{said}");
    // What cannot change says so.
    std::fs::write(&one.path, text.replace("bent0", "bent1")).expect("written");
    let (fine, said) = one.ask("reload");
    assert!(!fine && said.contains("cannot change while the gateway is running"), "{said}");
    // Back by a signal.
    std::fs::write(&one.path, site(1, ROHC)).expect("written");
    one.signal("-HUP");
    let is_gone = || !sky.run(1, &["ip", "route"]).contains("10.3.0.0/24");
    until("end of the route", is_gone);
    assert_eq!(talk(b"still here"), b"still here");
    assert_eq!(irs(), before);
}

#[test]
fn statistics_are_given_as_lines_and_to_prometheus() {
    let Some(sky) = Sky::new(2) else { return };
    let json = sky.folder.path().join("one.jsonl");
    let statistics =
        format!("[statistics]\njson = \"{}\"\nprometheus = \"127.0.0.1:9188\"\n", json.display());
    let mut one = sky.start(1, &site_of_two(1, "rate = \"8 Mbit/s\"", &udp(1), &statistics));
    let _two = sky.start(2, &site_of_two(2, "rate = \"8 Mbit/s\"", &udp(2), ""));
    sky.expect_pings(1, "10.2.0.1");
    let page = || {
        let mut stream = TcpStream::connect("127.0.0.1:9188").expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").expect("sent");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("answered");
        page
    };
    let row = "bentpipe_gateway_sent_packets_total{site=\"site 1\",remote=\"other\"} ";
    until("metrics of packets", || sky.sites[0].within(page).expect("inside").contains(row));
    // A line per second.
    let lines = || std::fs::read_to_string(&json).map_or(0, |text| text.lines().count());
    until("two lines of statistics", || lines() >= 2);
    assert_eq!(one.end(), Some(0));
    let lines = std::fs::read_to_string(&json).expect("written");
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    assert!(last["remote"]["other"]["sent_packets"].as_u64() >= Some(5), "{last:#}");
}

/// Runs a program at a terminal, closes the terminal once it says that it is running, and exits with 0 if it ends.
const AT_A_TERMINAL: &str = r#"
import os, pty, signal, sys, time
child, terminal = pty.fork()
if child == 0:
    # Ignored, as `nohup` has it, it would be inherited, and the program go on.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
text = b""
while b"Ctrl-C" not in text:
    text += os.read(terminal, 1000)
time.sleep(0.3)
os.close(terminal)
for _ in range(100):
    if os.waitpid(child, os.WNOHANG)[0]:
        sys.exit(0)
    time.sleep(0.1)
os.kill(child, 9)
sys.exit(1)
"#;

#[test]
fn a_gateway_ends_with_its_terminal() {
    let Some(sky) = Sky::new(1) else { return };
    if !bentpipe_testkit::has("python3") {
        return;
    }
    let path = sky.folder.write("site-1.toml", site_of_two(1, "rate = \"8 Mbit/s\"", &udp(1), ROHC));
    let path = path.display().to_string();
    let words = ["python3", "-c", AT_A_TERMINAL, env!("CARGO_BIN_EXE_bentpipe"), "gateway", &path];
    let status = sky.sites[0].command(words[0]).args(&words[1..]).status().expect("it starts");
    assert_eq!(status.code(), Some(0), "it goes on without its terminal");
}
