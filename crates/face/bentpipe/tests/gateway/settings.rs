//! `bentpipe gateway check`: what it says of files that are right and of those that are not. Needs nothing.

use std::process::Command;

fn check(text: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("site.toml");
    std::fs::write(&path, text).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_bentpipe")).args(["gateway", "check"]).arg(&path).output();
    let output = output.expect("bentpipe starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), text + &String::from_utf8_lossy(&output.stderr))
}

fn example(name: &str) -> String {
    let path = format!("{}/../../../gateway/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("an example")
}

#[test]
fn the_examples_are_right_and_the_forecast_is_of_a_real_encapsulator() {
    for name in ["site-a", "site-b"] {
        let (code, text) = check(&example(name));
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("188.0 us a packet, 760 datagrams/s") && text.contains("0.183 ms"), "{text}");
        assert!(
            text.contains("route: 10.") && text.contains("ROHC, optimistic mode, 512 contexts"),
            "{text}"
        );
    }
}

#[test]
fn an_input_for_all_senders_is_warned_of() {
    let open = example("site-a").replace("from = [\"192.0.2.2\"]\n", "");
    let (code, text) = check(&open);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("warning: any sender that reaches UDP at ") && text.contains("set `from`"),
        "{text}"
    );
    assert!(!check(&example("site-a")).1.contains("warning"), "the example names its sender");
    // A file that every user may write is as open.
    let folder = bentpipe_testkit::Folder::new();
    let path = folder.write("air.ts", "");
    let from_file =
        format!("{}[[input]]\nkind = \"file\"\npath = \"{}\"\n", example("site-a"), path.display());
    for (mode, is_open) in [(0o600, false), (0o622, true)] {
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("owned");
        let (code, text) = check(&from_file);
        assert_eq!(
            (code, text.contains("warning: any user of this machine can write")),
            (Some(0), is_open),
            "{text}"
        );
    }
}

/// Bridged GSM streams of IPv4 with the RTP profile on 8 Mbit/s: 311 in the ROHC-over-ULE testbed (equations 14, 15).
#[test]
fn a_bridge_on_8_mbit_s_has_room_for_the_testbed_s_311_gsm_streams() {
    let site = r#"
title = "testbed"
lan = { kind = "bridge" }
carrier = { rate = "8 Mbit/s" }
[[output]]
kind = "udp"
to = ["192.0.2.2:5004"]
[remote.b]
send = "0x101"
receive = ["0x102"]
packing = "1 ms"
rohc = { cid = "large", contexts = 311, refresh = 350, dynamic_refresh = 0 }
"#;
    let (code, text) = check(site);
    assert_eq!(code, Some(0), "{text}");
    let line = text.lines().find(|line| line.contains("GSM") && line.contains("IPv4")).expect("a line");
    let streams: f64 = line.split_whitespace().last().expect("a number").parse().expect("a number");
    // The seed's compressed headers had 7.6 octets on the average (equation 15 with its own 311), ours have fewer.
    assert!((311.0..335.0).contains(&streams), "{text}");
}

#[test]
fn mistakes_are_named_with_line_key_and_what_would_be_right() {
    let good = example("site-a");
    for (from, to, expected) in [
        ("\"8 Mbit/s\"", "\"8 MB\"", "carrier.rate: "),
        ("\"0x101\"", "\"0x102\"", "0x102 is taken by remote.b.send: expected another"),
        ("[\"0x102\"]", "[]", "remote.b.rohc.mode: nothing is received from it"),
        ("\"0x101\"", "\"0x1\"", "remote.b.send: expected a PID from \"0x20\" to \"0x1ffe\""),
        ("\"0x101\"", "\"x\"", "expected a PID such as"),
        ("[\"192.0.2.2:5004\"]", "[\"192.0.2.2\"]", "expected an address and a port such as"),
        ("\"10.2.0.0/24\"", "\"10.2.0.1/24\"", "did you mean \"10.2.0.0/24\"?"),
        ("\"10.2.0.0/24\"", "\"0.0.0.0/0\"", "what is sent would be sent through itself"),
        ("packing", "paking", "unknown key: did you mean \"packing\"?"),
        ("\"ule\"", "\"gse\"", "`modcod` is missing"),
        ("contexts = 512", "contexts = 99999", "contexts"),
        ("\"fill\"", "\"full\"", "did you mean \"fill\"?"),
        ("rate = \"8 Mbit/s\"\n", "", "there is no rate to fill"),
        ("127.0.0.1:9188", "0.0.0.0:9188", "expected an address of loopback"),
        ("\"bent0\"", "\"a device with a long name\"", "lan.device: expected 1 to 15 characters"),
        ("\"plain\"", "\"plane\"", "did you mean \"plain\"?"),
        ("[lan]", "[lam]", "`lan` is missing"),
        ("\"10.1.0.1/32\"", "\"10.1.0.1\"", "expected an address with its prefix length"),
    ] {
        assert!(good.contains(from), "{from}");
        let (code, text) = check(&good.replacen(from, to, 1));
        assert_eq!(code, Some(2), "{to}: {text}");
        assert!(text.contains(expected) && text.contains("site.toml:"), "{to}: {text}");
    }
}
