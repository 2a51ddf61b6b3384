//! Recording: what it keeps, and that it changes nothing.

use std::ops::ControlFlow;

use bentpipe_net::Port;
use bentpipe_sim::Network;
use bentpipe_units::{Span, Time};

use super::ticker::network_of;
use super::*;

fn network() -> Network {
    network_of(42)
}

fn recorder(interval_ms: u64) -> Recorder {
    Recorder {
        elements: network().ids().collect(),
        interval: Span::from_millis(interval_ms),
        warm_up: Span::from_millis(333),
        duration: Span::from_secs(1),
    }
}

fn record(recorder: &Recorder) -> Recording {
    recorder.run(&mut network(), |_| ControlFlow::Continue(())).expect("a recording")
}

#[test]
fn recording_changes_nothing() {
    let mut plain = network();
    plain.run_until(Time::ZERO + Span::from_secs(1));
    for interval_ms in [0, 1, 7, 100, 5000] {
        let mut watched = recorder(interval_ms);
        watched.warm_up = Span::from_millis(interval_ms / 2);
        let recording = record(&watched);
        assert_eq!(recording.fingerprint, plain.fingerprint(), "interval {interval_ms} ms");
        assert_eq!(recording.work, plain.work());
    }
}

#[test]
fn samples_are_at_their_instants_and_the_end() {
    let recording = record(&recorder(300));
    let millis: Vec<u64> = recording.series.times.iter().map(|t| t.as_nanos() / 1_000_000).collect();
    assert_eq!(millis, [0, 300, 600, 900, 1000]);
    assert!(recording.series.columns.iter().all(|column| column.data.len() == 5));
    let sent = recording.series.column("node.a", "sent").expect("a column");
    assert_eq!(sent.data.at(4).as_f64(), recording.end.value("node/a", "sent").expect("a total"));
    assert_eq!(recording.warm.at, Time::from_nanos(333_000_000));
    assert!(recording.warm.value("node/a", "sent") < recording.end.value("node/a", "sent"));
}

#[test]
fn memory_is_bounded_and_the_coarser_interval_said() {
    let recorder = recorder(1);
    assert_eq!(recorder.interval_for(6, 10_000).expect("fits"), Span::from_millis(1));
    assert_eq!(recorder.interval_for(6, 1000).expect("fits coarser"), Span::from_millis(7));
    assert!(matches!(
        recorder.interval_for(600, 1000),
        Err(Stopped::TooManyColumns { columns: 600, max: 333 })
    ));
}

#[test]
fn a_recording_can_be_interrupted() {
    let stop = |now: Time| {
        if now.as_nanos() >= 500_000_000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error = recorder(0).run(&mut network(), stop).expect_err("interrupted");
    assert_eq!(error.to_string(), "interrupted at 500 ms");
}

#[test]
fn csv_has_a_column_for_each_metric_and_nothing_for_nan() {
    let series = record(&recorder(300)).series;
    let mut text = Vec::new();
    write_csv(&series, &mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("time_s,node.a.sent [packets],node.a.received [packets],node.a.phase [s],\"")
    );
    assert!(lines[0].ends_with("\"node.b, \"\"quoted\"\".phase [s]\"") && lines.len() == 6, "{}", lines[0]);
    assert!(lines[1].starts_with("0,0,0,,"), "{}", lines[1]);
}

/// Writes a series into a folder and reads the wanted columns back.
fn there_and_back(series: &Series, wanted: impl Fn(&str, &Declaration) -> bool) -> Series {
    let folder = tempfile::tempdir().expect("a folder");
    let file = std::fs::File::create(folder.path().join("series.parquet")).expect("created");
    write_parquet(series, file).expect("written");
    write_json(&folder.path().join("metrics.json"), &series.catalogue()).expect("written");
    read_series(folder.path(), wanted).expect("read")
}

fn bits(data: &Data) -> Vec<u64> {
    data.to_f64().into_iter().map(f64::to_bits).collect()
}

#[test]
fn parquet_comes_back_as_it_went() {
    let mut series = record(&recorder(10)).series;
    series.columns[1].data = Data::Gauge(vec![7.0; series.times.len()]);
    series.starts = Some([("late".to_owned(), Some(2.5)), ("never".to_owned(), None)].into());
    let back = there_and_back(&series, |_, _| true);
    assert_eq!((&back.times, &back.starts), (&series.times, &series.starts));
    assert_eq!(back.columns.len(), series.columns.len());
    for (own, read) in series.columns.iter().zip(&back.columns) {
        assert_eq!(
            (own.title(), own.metric.label(), own.part),
            (read.title(), read.metric.label(), read.part)
        );
        assert_eq!(bits(&own.data), bits(&read.data), "{}", own.title());
    }
    let some = there_and_back(&series, |subject, metric| subject == "node.a" && metric.name == "received");
    assert_eq!(some.times, series.times);
    assert_eq!(some.columns.iter().map(Column::title).collect::<Vec<_>>(), ["node.a.received [packets]"]);
    assert_eq!(some.columns[0].data.to_f64(), vec![7.0; series.times.len()]);
}

#[test]
fn parquet_is_long_and_constant_columns_are_short() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::RowAccessor;
    let mut series = record(&recorder(50)).series;
    series.columns[1].data = Data::Gauge(vec![7.0; series.times.len()]);
    let mut bytes = Vec::new();
    write_parquet(&series, &mut bytes).expect("written");
    let mut again = Vec::new();
    write_parquet(&series, &mut again).expect("written");
    assert_eq!(bytes, again);
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a Parquet file");
    let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 5 * series.times.len() + 2);
    let (first, constant) = (&rows[0], &rows[series.times.len()]);
    let text = |row: &::parquet::record::Row, n| row.get_string(n).expect("text").clone();
    assert_eq!([1, 2, 3].map(|n| text(first, n)), ["node.a", "sent", "packets"]);
    assert_eq!([1, 2, 3].map(|n| text(constant, n)), ["node.a", "received", "packets"]);
    assert_eq!((constant.get_double(0).expect("time"), constant.get_double(4).expect("value")), (0.0, 7.0));
}

#[test]
fn copies_share_a_declaration_unless_they_differ() {
    let (sent, phase) = (&super::ticker::SENT.metric, &super::ticker::PHASE.metric);
    let received = &super::ticker::RECEIVED.metric;
    let reported = [("flow.a.1.sender", sent), ("flow.a.1.sender", phase), ("flow.a.2.sender", sent)];
    let catalogue = Catalogue::of(reported.into_iter().chain([("flow.b.3.sender", received)]));
    let of: Vec<(&str, Vec<&str>)> = catalogue
        .metrics
        .iter()
        .map(|metric| (&metric.name[..], metric.of.iter().map(String::as_str).collect()))
        .collect();
    let copies = vec!["flow.a.*.sender"];
    let expected = [("sent", copies.clone()), ("phase", copies), ("received", vec!["flow.b.*.sender"])];
    assert_eq!(of, expected);
    let index = catalogue.index();
    assert_eq!(index.find("flow.a.77.sender", "sent").map(|found| found.unit), Some(sent.unit));
    assert!(index.find("flow.a.1.receiver", "sent").is_none());
}

#[test]
fn final_values_come_back_as_they_went() {
    let values = FinalValues::of(&record(&recorder(100)).end);
    let (sent, unit) = values.get("node.a.sent").expect("a value");
    assert!(sent > 0.0 && unit == "packets" && values.get("node.c.sent").is_none());
    let json = serde_json::to_string(&values).expect("JSON");
    assert!(json.starts_with("{\"node.a\":{\"sent [packets]\":"), "{json}");
    let back: FinalValues = serde_json::from_str(&json).expect("final values");
    assert_eq!(back.iter().collect::<Vec<_>>(), values.iter().collect::<Vec<_>>());
}

#[test]
fn captures_change_nothing_and_hold_what_passed() {
    use bentpipe_wire::pcap::{LinkType, Reader};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("b.pcap");
    let capture = Capture::start(&path, Box::new(bentpipe_site::RawIp), 64).expect("started");
    let mut network = network();
    let b = network.ids().nth(1).expect("two elements");
    network.tap(b, Port(0), capture.tap());
    let recording = recorder(10).run(&mut network, |_| ControlFlow::Continue(())).expect("a recording");
    assert_eq!(recording.fingerprint, record(&recorder(0)).fingerprint);
    let packets = capture.finish().expect("finished");
    assert_eq!(packets as f64, recording.end.value("node/b, \"quoted\"", "received").expect("a total"));
    let mut reader = Reader::new(std::fs::File::open(&path).expect("a file")).expect("a capture");
    let mut read = 0;
    while let Some(record) = reader.next_record().expect("a record") {
        assert_eq!((record.link_type, record.bytes.len(), record.original_len), (LinkType::RAW, 64, 120));
        read += 1;
    }
    assert_eq!(read, packets);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_and_no_panic() {
    let error =
        write_csv(&record(&recorder(1)).series, &mut std::fs::File::create("/dev/full").expect("Linux"));
    assert_eq!(error.expect_err("full").kind(), std::io::ErrorKind::StorageFull);
}

/// A network that ends by itself at an instant.
struct Ending(Network, Time);

impl Live for Ending {
    fn run_until(&mut self, end: Time) -> ControlFlow<()> {
        self.0.run_until(end.min(self.1));
        if end > self.1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
    fn network(&mut self) -> &mut Network {
        &mut self.0
    }
}

#[test]
fn what_is_followed_is_recorded_to_where_it_ended() {
    let at_ms = |ms| Time::ZERO + Span::from_millis(ms);
    let mut live = Ending(network(), at_ms(700));
    let recording = recorder(300).follow(&mut live, |_, _| ControlFlow::Continue(())).expect("a recording");
    assert_eq!(recording.series.times, [0, 300, 600, 700].map(at_ms));
    assert_eq!((recording.end.at, recording.warm.at), (at_ms(700), at_ms(600)));
    let mut plain = network();
    plain.run_until(at_ms(700));
    assert_eq!(recording.fingerprint, plain.fingerprint());
    let mut samples = 0;
    let stop_at_second = |_: &mut Ending, _: &Series| {
        samples += 1;
        if samples == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut live = Ending(network(), Time::NEVER);
    let recording = recorder(300).follow(&mut live, stop_at_second).expect("a recording");
    assert_eq!(recording.series.times, [0, 300, 600].map(at_ms));
}

#[test]
fn a_long_series_is_thinned_alike_in_all_columns() {
    let mut series = record(&recorder(100)).series;
    let (times, sent) = (series.times.clone(), series.columns[0].data.to_f64());
    series.thin();
    assert_eq!(series.times, times.iter().copied().step_by(2).collect::<Vec<_>>());
    assert_eq!(series.columns[0].data.to_f64(), sent.iter().copied().step_by(2).collect::<Vec<_>>());
    assert!(series.columns.iter().all(|column| column.data.len() == series.times.len()));
}
