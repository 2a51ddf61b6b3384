//! Measures of flows from the output of programs: iperf3, ping, and commands of this one.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bentpipe_record::Measure;
use serde_json::Value;

use super::{FlowProgram, Kind};

/// Most bytes of a program's output that are read.
const MAX_OUTPUT: u64 = 64 << 20;

/// Returns the measures of a program. One that failed or was interrupted has none.
///
/// The outputs are that of the client, and the figures of a server that has some.
pub(super) fn read(program: &FlowProgram, [output, received]: &[PathBuf; 2]) -> Vec<Measure> {
    let read = |path: &Path| {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_OUTPUT).read_to_string(&mut text));
        read.ok().map(|_| text)
    };
    let Some(text) = read(output) else { return Vec::new() };
    let found = match program.kind {
        Kind::Tcp => tcp(&text),
        Kind::Udp => udp(&text),
        Kind::Ping => ping(&text),
        Kind::Bundles => bundles(&text),
        Kind::Calls => read(received).and_then(|received| calls(&text, &received)),
        Kind::Voice => read(received).and_then(|received| voice(&text, &received)),
    };
    let measure = |(name, unit, value): (&str, &str, f64)| {
        Measure::new(format!("flow.{}.{name}", program.flow), unit, value)
    };
    found.unwrap_or_default().into_iter().filter_map(measure).collect()
}

type Figures = Vec<(&'static str, &'static str, f64)>;

/// Returns the end of iperf3's report, if it has no error.
fn end(text: &str) -> Option<Value> {
    let mut report: Value = serde_json::from_str(text).ok()?;
    report.get("error").is_none().then(|| report.get_mut("end").map(Value::take))?
}

/// Reads a report of a TCP transfer.
fn tcp(text: &str) -> Option<Figures> {
    let end = end(text)?;
    let (sent, received) = (&end["sum_sent"], &end["sum_received"]);
    let mut figures = vec![("goodput", "bit/s", received["bits_per_second"].as_f64()?)];
    let sender = &end["streams"][0]["sender"];
    if let Some(rtt_us) = sender["mean_rtt"].as_f64().filter(|rtt| *rtt > 0.0) {
        figures.push(("rtt", "s", rtt_us / 1e6));
    }
    // The kernel counts segments sent again; the others are full, but the last.
    let mss: Value = serde_json::from_str(text).ok()?;
    let mss = mss["start"]["tcp_mss_default"].as_f64().filter(|mss| *mss > 0.0);
    if let (Some(again), Some(bytes), Some(mss)) =
        (sent["retransmits"].as_f64(), sent["bytes"].as_f64().filter(|bytes| *bytes > 0.0), mss)
    {
        figures.push(("retransmitted", "ratio", again / ((bytes / mss).ceil() + again)));
    }
    Some(figures)
}

/// Reads a report of datagrams.
fn udp(text: &str) -> Option<Figures> {
    let end = end(text)?;
    let sum = &end["sum"];
    let (packets, lost) = (sum["packets"].as_f64()?, sum["lost_packets"].as_f64()?);
    // The receiver's time begins with the connection, a delay before the first datagram.
    let sent = &end["sum_sent"];
    let seconds = sent["seconds"].as_f64().or_else(|| sum["seconds"].as_f64())?;
    let bytes = sum["bytes"].as_f64()?;
    if packets <= 0.0 || seconds <= 0.0 {
        return None;
    }
    Some(vec![
        ("goodput", "bit/s", bytes * 8.0 / seconds * (packets - lost) / packets),
        ("loss", "ratio", lost / packets),
        ("jitter", "s", sum["jitter_ms"].as_f64()? / 1e3),
    ])
}

/// Reads the figures of a load of bundles. A round trip ends with the report of the delivery.
///
/// The goodput is that over the time of sending, as a simulated flow's.
fn bundles(text: &str) -> Option<Figures> {
    let load: Value = serde_json::from_str(text).ok()?;
    let (sent, delivered) = (load["sent"].as_f64().filter(|sent| *sent > 0.0)?, load["delivered"].as_f64()?);
    let seconds = load["sending"].as_f64().filter(|seconds| *seconds > 0.0)?;
    let goodput = delivered * load["size"].as_f64()? * 8.0 / seconds;
    let mut figures = vec![("goodput", "bit/s", goodput), ("loss", "ratio", 1.0 - delivered / sent)];
    for (name, quantile) in [("rtt-p50", "median"), ("rtt-p95", "p95"), ("rtt-max", "max")] {
        figures.extend(load["round_trip"][quantile].as_f64().map(|seconds| (name, "s", seconds)));
    }
    Some(figures)
}

/// Reads the figures of a sender of voice packets and of its receiver.
///
/// Both are of this machine, so that the clock of the delays has no error.
fn voice(sent: &str, received: &str) -> Option<Figures> {
    let [sent, received] = [sent, received].map(|text| serde_json::from_str::<Value>(text).ok());
    let (sent, received) = (sent?, received?);
    let overall = received.get("overall")?;
    let (streams, packets) = (sent["streams"].as_f64()?, sent["packets"].as_f64()?);
    let seconds = sent["elapsed_s"].as_f64()? + sent["interval_s"].as_f64()?;
    if packets <= 0.0 || seconds <= 0.0 {
        return None;
    }
    let arrived = overall["packets"].as_f64()? - overall["duplicates"].as_f64()?;
    let mut figures = vec![
        ("goodput", "bit/s", overall["bytes"].as_f64()? * 8.0 / seconds),
        ("loss", "ratio", (1.0 - arrived / packets).max(0.0)),
        ("copies-silent", "count", (streams - overall["streams"].as_f64()?).max(0.0)),
    ];
    let mut add =
        |name, seconds: &Value| figures.extend(seconds.as_f64().map(|seconds| (name, "s", seconds)));
    add("jitter", &overall["jitter_rfc3550_s"]);
    add("interarrival", &overall["interval_mean_s"]);
    add("interarrival-deviation", &overall["interval_deviation_s"]);
    let delay = &overall["delay"];
    add("delay-mean", &delay["mean_s"]);
    add("delay-p50", &delay["p50_s"]);
    add("delay-p95", &delay["p95_s"]);
    add("delay-p99", &delay["p99_s"]);
    Some(figures)
}

/// Reads the figures of a caller, and of its callee, who receives the voice.
///
/// Calls that the end cut off have not failed.
fn calls(placed: &str, received: &str) -> Option<Figures> {
    let [placed, received] = [placed, received].map(|text| serde_json::from_str::<Value>(text).ok());
    let (placed, received) = (placed?, received?);
    let failed = placed["failed"].as_object()?;
    let of = |reasons: &[&str]| -> f64 {
        let found = failed.iter().filter(|(reason, _)| reasons.contains(&&reason[..]));
        found.filter_map(|(_, count)| count.as_f64()).fold(0.0, |sum, count| sum + count)
    };
    let timed_out = of(&["no response (timer B)", "no ACK"]);
    let all = failed.values().filter_map(Value::as_f64).fold(0.0, |sum, count| sum + count);
    let mut figures = vec![
        ("calls", "count", placed["calls"].as_f64()?),
        ("calls-established", "count", placed["established"].as_f64()?),
        ("calls-timed-out", "count", timed_out),
        ("calls-failed", "count", all - timed_out - of(&["cut off at the end"])),
        ("calls-waiting", "count", of(&["cut off at the end"])),
    ];
    for (name, key, quantile) in [
        ("post-dial-p50", "post-dial-delay-ms", "p50"),
        ("post-dial-p95", "post-dial-delay-ms", "p95"),
        ("set-up-p50", "set-up-time-ms", "p50"),
        ("set-up-p95", "set-up-time-ms", "p95"),
    ] {
        let delays = &placed[key];
        let is_some = delays["count"].as_u64().is_some_and(|count| count > 0);
        figures.extend(delays[quantile].as_f64().filter(|_| is_some).map(|ms| (name, "s", ms / 1e3)));
    }
    let voice = &received["voice"];
    figures.extend(voice["loss"].as_f64().map(|loss| ("voice-loss", "ratio", loss)));
    figures.extend(voice["mouth-to-ear-ms"].as_f64().map(|ms| ("mouth-to-ear", "s", ms / 1e3)));
    for name in ["r", "mos"] {
        figures.extend(voice[name].as_f64().map(|value| (name, "count", value)));
    }
    Some(figures)
}

/// Reads the summary of ping, of iputils or BusyBox.
fn ping(text: &str) -> Option<Figures> {
    let line = text.lines().find(|line| line.contains(" packets transmitted, "))?;
    let number = |part: &str| part.split_whitespace().next()?.parse::<f64>().ok();
    let mut parts = line.split(',');
    let (sent, received) = (number(parts.next()?)?, number(parts.next()?)?);
    if sent <= 0.0 {
        return None;
    }
    let mut figures = vec![("unanswered", "ratio", (sent - received) / sent)];
    let times = text.lines().find_map(|line| line.split_once(" = ").filter(|_| line.contains("min/avg/max")));
    if let Some((_, times)) = times {
        let times = times.split(" ms").next().unwrap_or_default();
        let values: Vec<f64> = times.split('/').flat_map(str::parse).collect();
        let names = ["rtt-min", "rtt-mean", "rtt-max", "rtt-deviation"];
        figures.extend(names.into_iter().zip(values).map(|(name, ms)| (name, "s", ms / 1e3)));
    }
    Some(figures)
}

#[cfg(test)]
mod tests {
    use super::{bundles, calls, ping, tcp, udp, voice};

    #[test]
    fn ping_of_two_kinds_is_read() {
        let iputils = "PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.\n\n--- 10.0.0.2 ping statistics ---\n\
                       35 packets transmitted, 28 received, 20% packet loss, time 6828ms\n\
                       rtt min/avg/max/mdev = 243.925/558.920/731.032/111.096 ms, pipe 4\n";
        let figures = ping(iputils).expect("figures");
        assert_eq!(figures[0], ("unanswered", "ratio", 0.2));
        assert_eq!(figures[4], ("rtt-deviation", "s", 0.111096));
        let busybox = "3 packets transmitted, 3 packets received, 0% packet loss\n\
                       round-trip min/avg/max = 0.045/0.074/0.090 ms\n";
        assert_eq!(ping(busybox).expect("figures").len(), 4);
        assert_eq!(
            ping("1 packets transmitted, 0 received, 100% packet loss, time 0ms\n").map(|all| all.len()),
            Some(1)
        );
        assert!(
            ping("0 packets transmitted, 0 received\n").is_none() && ping("connect: no route\n").is_none()
        );
    }

    #[test]
    fn a_transfer_has_the_goodput_of_its_receiver() {
        let text = r#"{"start":{"tcp_mss_default":1000},"end":{"streams":[{"sender":{"mean_rtt":564274}}],
            "sum_sent":{"bytes":99000,"retransmits":1},"sum_received":{"bits_per_second":4690628.5,"seconds":8.7}}}"#;
        let expected =
            vec![("goodput", "bit/s", 4690628.5), ("rtt", "s", 0.564274), ("retransmitted", "ratio", 0.01)];
        assert_eq!(tcp(text), Some(expected));
        // What was interrupted, or is no report, has no figures.
        let interrupted = text.replace("{\"start\"", "{\"error\":\"interrupt\",\"start\"");
        assert!(
            tcp(&interrupted).is_none() && tcp("{").is_none() && tcp("[]").is_none() && tcp("").is_none()
        );
    }

    #[test]
    fn a_load_of_bundles_has_its_losses() {
        let text = r#"{"sent":40,"delivered":30,"deleted":0,"size":1000,"elapsed":4.0,"sending":2.0,"goodput":60000.0,
            "bundle_rate":7.5,"round_trip":{"median":0.6,"p95":0.7,"max":null}}"#;
        let expected = vec![
            ("goodput", "bit/s", 120_000.0),
            ("loss", "ratio", 0.25),
            ("rtt-p50", "s", 0.6),
            ("rtt-p95", "s", 0.7),
        ];
        assert_eq!(bundles(text), Some(expected));
        assert!(bundles(&text.replace("40", "0")).is_none() && bundles("{}").is_none());
    }

    #[test]
    fn voice_is_counted_at_its_receiver() {
        let sent = r#"{"streams":3,"packets":300,"elapsed_s":1.98,"interval_s":0.02}"#;
        let received = r#"{"overall":{"streams":2,"packets":271,"duplicates":1,"bytes":1000,"interval_mean_s":0.02,
            "interval_deviation_s":null,"jitter_rfc3550_s":0.001,"delay":{"mean_s":0.3,"p50_s":0.3,"p95_s":0.4,"p99_s":0.5}}}"#;
        let expected = vec![
            ("goodput", "bit/s", 4000.0),
            ("loss", "ratio", 1.0 - 270.0 / 300.0),
            ("copies-silent", "count", 1.0),
            ("jitter", "s", 0.001),
            ("interarrival", "s", 0.02),
            ("delay-mean", "s", 0.3),
            ("delay-p50", "s", 0.3),
            ("delay-p95", "s", 0.4),
            ("delay-p99", "s", 0.5),
        ];
        assert_eq!(voice(sent, received), Some(expected));
        // Nothing came: a receiver has no delays, and all is lost.
        let nothing = r#"{"overall":{"streams":0,"packets":0,"duplicates":0,"bytes":0,"delay":null}}"#;
        let figures = voice(sent, nothing).expect("figures");
        assert_eq!(figures[1], ("loss", "ratio", 1.0));
        assert_eq!(figures.len(), 3);
        assert!(voice(sent, "{}").is_none() && voice("", received).is_none() && voice("[]", "[]").is_none());
    }

    #[test]
    fn calls_are_counted_at_the_caller_and_heard_at_the_callee() {
        let placed = r#"{"calls":5,"established":2,"failed":{"no response (timer B)":1,"cut off at the end":1,"486 Busy Here":1},
            "post-dial-delay-ms":{"count":0,"p50":0,"p95":0},"set-up-time-ms":{"count":2,"p50":700,"p95":900}}"#;
        let received = r#"{"calls":5,"voice":{"loss":0.01,"mouth-to-ear-ms":450,"r":60.5,"mos":3.1,"clock-error-ms":0}}"#;
        let expected = vec![
            ("calls", "count", 5.0),
            ("calls-established", "count", 2.0),
            ("calls-timed-out", "count", 1.0),
            ("calls-failed", "count", 1.0),
            ("calls-waiting", "count", 1.0),
            ("set-up-p50", "s", 0.7),
            ("set-up-p95", "s", 0.9),
            ("voice-loss", "ratio", 0.01),
            ("mouth-to-ear", "s", 0.45),
            ("r", "count", 60.5),
            ("mos", "count", 3.1),
        ];
        assert_eq!(calls(placed, received), Some(expected));
        // Signalling alone, of which nothing came through.
        let silent = r#"{"calls":1,"established":0,"failed":{}}"#;
        assert_eq!(calls(silent, "{}").map(|figures| figures.len()), Some(5));
        assert!(calls("{}", "{}").is_none() && calls(placed, "").is_none());
    }

    #[test]
    fn datagrams_are_counted_over_the_time_that_they_were_sent_in() {
        let text = r#"{"end":{"sum":{"seconds":8.2,"bytes":400000,"packets":2000,"lost_packets":500,"jitter_ms":0.5},
            "sum_sent":{"seconds":8}}}"#;
        let expected = vec![("goodput", "bit/s", 300000.0), ("loss", "ratio", 0.25), ("jitter", "s", 0.0005)];
        assert_eq!(udp(text), Some(expected));
        assert!(udp(&text.replace("2000", "0")).is_none());
    }
}
