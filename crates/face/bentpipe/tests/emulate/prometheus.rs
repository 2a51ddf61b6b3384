//! Metrics and the live view of an emulation on loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bentpipe_testkit::{free_port, until_some};

use super::rig::Running;

fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

/// Returns the value of a sample whose line begins so.
fn value(text: &str, start: &str) -> Option<f64> {
    text.lines().find(|line| line.starts_with(start))?.rsplit(' ').next()?.parse().ok()
}

#[test]
fn metrics_and_a_page_are_served_and_each_change_is_marked() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let listen = address.to_string();
    let arguments = ["--set", "link.hop.delay=20 ms", "--prometheus", &listen];
    let Some(mut running) = Running::start_with("metered", None, &arguments) else { return };
    assert_eq!(running.ping(9).matches("time=").count(), 9);
    assert_eq!(running.set("link.hop.forward.delay=30 ms"), (Some(0), String::new()));
    let forward = "{scenario=\"One hop\",of=\"link/hop/forward\"}";
    // Nine requests of 84 bytes, at least.
    let delivered = format!("bentpipe_emulation_delivered_bytes_total{forward}");
    let text = until_some("metrics of the pings", || {
        let text = ask(address, "/metrics");
        let up = value(&text, "bentpipe_emulation_uptime_seconds{");
        (value(&text, &delivered) >= Some(756.0) && up > Some(1.0)).then_some(text)
    });
    assert!(value(&text, &format!("bentpipe_emulation_queue_bytes{forward}")).is_some(), "{text}");
    assert!(
        value(&text, "bentpipe_emulation_lateness_p99_seconds{").is_some_and(|late| late < 1.0),
        "{text}"
    );
    let mut types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let count = types.len();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), count, "each name is declared once");
    let page = ask(address, "/");
    assert!(
        page.contains("text/html") && page.contains("hop forward") && page.contains("late: p50"),
        "{page}"
    );
    assert_eq!(running.end().0, Some(0));
    let runs = std::fs::read_dir(running.folder.path()).expect("a folder").flatten();
    let reports: Vec<String> =
        runs.filter_map(|run| std::fs::read_to_string(run.path().join("report.html")).ok()).collect();
    assert!(
        reports.iter().any(|report| report.contains("link.hop.forward.delay")),
        "the report lists the change"
    );
}

#[test]
fn an_address_beyond_loopback_is_refused() {
    let (folder, path) = super::rig::scenario("pinged");
    let mut program = super::rig::bentpipe();
    program.arg("emulate").arg(&path).arg("--out").arg(folder.path()).args(["--prometheus", "0.0.0.0:9"]);
    let output = program.output().expect("starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    if super::rig::is_unable(&errors) {
        return super::rig::skip(&errors);
    }
    assert!(!output.status.success() && errors.contains("expected an address on loopback"), "{errors}");
}

/// The reference is iperf3, which asks the kernel for itself each second.
#[test]
fn windows_of_real_connections_are_recorded() {
    let arguments =
        ["--set", "link.hop.delay=20 ms", "--quiet", "--background", "windowed=iperf3 -s -1", "--on", "left"];
    let command = ["--", "sh", "-c", "sleep 1; iperf3 -c 10.0.0.2 -t 4 -J"];
    let Some((output, folder)) = super::rig::emulate_with("windowed", &[&arguments[..], &command].concat())
    else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let json = text.get(text.find('{').unwrap_or(0)..=text.rfind('}').unwrap_or(0)).unwrap_or_default();
    let result: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let intervals = result["intervals"].as_array().cloned().unwrap_or_default();
    let of_iperf = intervals.iter().filter_map(|interval| interval["streams"][0]["snd_cwnd"].as_f64());
    let most = of_iperf.fold(0.0, f64::max);
    let run =
        std::fs::read_dir(folder.path()).expect("a folder").flatten().find(|entry| entry.path().is_dir());
    let mut series = super::rig::bentpipe();
    series.arg("series").arg(run.expect("a run").path()).args(["--select", "node.left.tcp.*", "--wide"]);
    let output = series.output().expect("starts");
    let table = String::from_utf8_lossy(&output.stdout);
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| head.iter().position(|title| title.starts_with(name));
    let (cwnd, rto) = (column("node.left.tcp.1.cwnd"), column("node.left.tcp.1.rto"));
    let (cwnd, rto) = (cwnd.unwrap_or_else(|| panic!("{table}")), rto.expect("a column"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let greatest = |at: usize| rows.iter().filter_map(|row| row[at].parse::<f64>().ok()).fold(0.0, f64::max);
    assert!(most > 10_000.0, "iperf3 reports a window: {text}");
    assert!((0.5..2.0).contains(&(greatest(cwnd) / most)), "{} of {most}", greatest(cwnd));
    assert!((0.2..5.0).contains(&greatest(rto)), "{}", greatest(rto));
}
