//! Expected sizes of captures next to those of runs.
//!
//! Packets of constant sources are the forecast's to within a hundredth. Of TCP they are within a seventh: handshakes, ACKs of slow
//! start and the last round trip are not forecast. Units of lines are at most those of the forecast.

use bentpipe_assemble::Built;
use bentpipe_lab::budget::{Budget, CaptureBudget};
use bentpipe_lab::run::CapturePoint;
use bentpipe_record::{Capture, CaptureLimits, MIN_RING_FILE_BYTES, RingSize};
use bentpipe_scenario::{Access, Scenario};
use bentpipe_units::{Bytes, Time};

use crate::common::scenario;

/// Number of packets and bytes of a capture.
type Size = (u64, u64);

/// Runs a scenario with its captures. Returns those by the names of their files.
fn captured(scenario: &Scenario, access: &Access, limits: CaptureLimits) -> Vec<(String, Size)> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut built = Built::new(scenario, 1, access).expect("possible");
    let points = CapturePoint::of(std::mem::take(&mut built.captures));
    let start = |CapturePoint { name, inputs, format }: CapturePoint| {
        let path = folder.path().join(format!("{name}.pcap"));
        let capture = Capture::start(&path, format, limits).expect("a folder");
        for (element, port) in inputs {
            built.network.tap(element, port, capture.tap());
        }
        (path, capture)
    };
    let captures: Vec<_> = points.into_iter().map(start).collect();
    built.network.run_until(Time::ZERO + scenario.duration);
    let finish = |(path, capture): (std::path::PathBuf, Capture)| {
        let files = capture.finish_files().expect("a disk");
        let len = |file: &str| std::fs::metadata(folder.path().join(file)).expect("it is there").len();
        let bytes = files.iter().map(|file| len(&file.file)).sum();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, (files.iter().map(|file| file.packets).sum(), bytes))
    };
    captures.into_iter().map(finish).collect()
}

/// Returns each forecast capture with its size in the run.
fn both(scenario: &Scenario, access: &Access) -> Vec<(CaptureBudget, Size)> {
    let budget = Budget::with_files(scenario, Some(access)).expect("ways");
    let found = captured(scenario, access, usize::MAX.into());
    let names: Vec<&str> = budget.captures.iter().map(|file| file.file.as_str()).collect();
    assert_eq!(names, found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
    budget.captures.into_iter().zip(found.into_iter().map(|(_, size)| size)).collect()
}

/// Compares captures of packets with their forecasts.
fn compare(text: &str, within: f64) {
    let scenario = scenario(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    for (forecast, (packets, bytes)) in both(&scenario, &Access::default()) {
        let ratio = |expected: u64, found: u64| expected as f64 / found as f64 - 1.0;
        let [of_packets, of_bytes] = [ratio(forecast.packets, packets), ratio(forecast.written.get(), bytes)];
        assert!(
            of_packets.abs() < within && of_bytes.abs() < within,
            "{}: {packets} packets and {bytes} B, expected {forecast:?}\n{text}",
            forecast.file
        );
    }
}

/// A network of two links with some flows, captured at all ends.
fn network(duration: &str, sat: &str, flows: &str) -> String {
    format!(
        "title = \"t\"\nduration = \"{duration}\"\nnode.a = {{}}\nnode.m.kind = \"router\"\nnode.b = {{}}\n\
         [link.lan]\nbetween = [\"a\", \"m\"]\nrate = \"100 Mbit/s\"\ndelay = \"1 ms\"\n\
         [link.sat]\nbetween = [\"m\", \"b\"]\ndelay = \"250 ms\"\n{sat}\n\
         [probe]\ncapture = [\"a:lan\", \"m:lan\", \"m:sat\", \"b:sat\"]\n{flows}"
    )
}

const UDP: &str = "[flow.f]\nfrom = \"a\"\nto = \"b\"\n\
    traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"10 ms\" }, payload = \"500 B\" }\n";

#[test]
fn packets_of_constant_sources_are_as_forecast() {
    compare(&network("60 s", "rate = \"10 Mbit/s\"", UDP), 0.01);
    // Two copies, a part of the time, behind a warm-up.
    let part = UDP.replace("[flow.f]\n", "[flow.f]\ncount = 2\nstart = \"5 s\"\nstop = \"25 s\"\n");
    let text = network("60 s", "rate = \"10 Mbit/s\"", &part);
    compare(&text.replace("[probe]\n", "[probe]\nwarm_up = \"10 s\"\n"), 0.02);
    // Datagrams in fragments.
    compare(&network("60 s", "rate = \"10 Mbit/s\"", &UDP.replace("500 B", "4000 B")), 0.01);
    let lossy = "rate = \"10 Mbit/s\"\nchannel = { kind = \"packet-errors\", loss = 0.2 }";
    compare(&network("60 s", lossy, UDP), 0.02);
    // 416 kbit/s into 200: the sender's end has all of them, the receiver's half. A queue is full first.
    let narrow = "rate = \"200 kbit/s\"\nqueue = { kind = \"drop-tail\", bytes = \"20 kB\" }";
    compare(&network("120 s", narrow, UDP), 0.02);
}

#[test]
fn packets_there_and_back_are_as_forecast() {
    let download =
        "[flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"tcp\", controller = \"cubic\" }\n";
    let deep = "rate = \"10 Mbit/s\"\nqueue = { kind = \"drop-tail\", bytes = \"3 MB\" }";
    compare(&network("60 s", deep, download), 0.15);
    let page = "application = { kind = \"bulk\", size = \"2 MB\" }\n";
    compare(&network("60 s", deep, &format!("{download}{page}")), 0.1);
    let probe = "[flow.p]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"ping\", interval = \"100 ms\" }\n";
    compare(&network("60 s", "rate = \"10 Mbit/s\"", probe), 0.02);
}

#[test]
fn limits_bound_what_is_forecast_and_written() {
    let text = network("60 s", "rate = \"10 Mbit/s\"", UDP);
    let scenario = scenario(&text).expect("valid");
    let budget = Budget::new(&scenario).expect("ways");
    for (limits, is_kept) in [
        (CaptureLimits::from(96), true),
        (CaptureLimits { snap_len: 1500, ring: RingSize::new(MIN_RING_FILE_BYTES, 2).ok() }, false),
        (CaptureLimits { snap_len: 96, ring: RingSize::new(10 << 20, 3).ok() }, true),
    ] {
        let found = captured(&scenario, &Access::default(), limits);
        for (forecast, (name, (packets, bytes))) in budget.captures.clone().into_iter().zip(found) {
            let forecast = forecast.within(limits);
            let (least, most) = (forecast.on_disk.get() * 3 / 5, forecast.on_disk.get() * 101 / 100);
            assert!((least..=most).contains(&bytes), "{name}: {bytes} B, {forecast:?}");
            assert_eq!(forecast.written > forecast.on_disk, !is_kept, "{forecast:?}");
            assert!(!is_kept || packets.abs_diff(forecast.packets) < 100, "{packets}, {forecast:?}");
        }
    }
}

#[test]
fn captures_of_lines_are_forecast() {
    let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    for (file, units) in
        [("dvb-rohc.toml", Some("pisa-sky-ts.pcap")), ("ipv6-in-ipv4.toml", None), ("replay.toml", None)]
    {
        let mut document = bentpipe_paths::document(&folder.join(file)).expect("an example");
        document.set("duration=\"20 s\"").expect("a duration");
        let scenario = bentpipe_assemble::checked(&document).expect("valid");
        let all = both(&scenario, document.access());
        assert!(units.is_none_or(|units| all.iter().any(|(forecast, _)| forecast.file == units)));
        for (forecast, (packets, bytes)) in all {
            let most = forecast.written.max(Bytes::new(1)).get() as f64;
            let ratio = bytes as f64 / most;
            // Of twenty seconds slow start is a large part.
            let least = if forecast.is_most { 0.3 } else { 0.6 };
            assert!((least..1.5).contains(&ratio), "{file}: {packets} packets, {bytes} B, {forecast:?}");
        }
    }
}
