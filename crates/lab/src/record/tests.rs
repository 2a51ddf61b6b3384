//! Recording: what it keeps, and that it changes nothing.

use std::any::Any;
use std::ops::ControlFlow;

use bentpipe_net::{Cx, Element, Observer, Packet, Port, Unit};
use bentpipe_sim::{Builder, Network};
use bentpipe_units::{Span, Time};

use super::*;

/// Sends a packet every so often, at random; counts what comes back.
struct Ticker {
    sent: u64,
    received: u64,
}

impl Element for Ticker {
    fn receive(&mut self, _: Port, _: Packet, cx: &mut Cx<'_>) -> Time {
        self.received += 1;
        cx.now() + Span::from_millis(7)
    }
    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.sent += 1;
        cx.emit(Port(0), Packet::new(20, 100));
        cx.now() + Span::from_secs_f64(cx.stream().exponential(0.003))
    }
    fn lookahead(&self) -> Span {
        Span::from_millis(1)
    }
    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        observer.counter("sent", Unit::Packets, self.sent);
        observer.gauge("received", Unit::Packets, self.received as f64);
        observer.gauge(
            "phase",
            Unit::Seconds,
            if self.sent.is_multiple_of(2) { f64::NAN } else { now.as_secs_f64() },
        );
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

pub(crate) fn network_of(seed: u64) -> Network {
    let mut builder = Builder::new(seed);
    let a = builder.add("node/a", Ticker { sent: 0, received: 0 });
    let b = builder.add("node/b, \"quoted\"", Ticker { sent: 0, received: 0 });
    builder.connect((a, Port(0)), (b, Port(0)));
    builder.connect((b, Port(0)), (a, Port(0)));
    builder.build().expect("a network")
}

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
    let sent = recording.series.column("node/a", "sent").expect("a column");
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
fn csv_comes_back_as_it_went() {
    let series = record(&recorder(10)).series;
    let mut text = Vec::new();
    write_csv(&series, &mut text).expect("written");
    let back = read_csv(&text[..]).expect("read");
    assert_eq!(back.times, series.times);
    for (ours, theirs) in series.columns.iter().zip(&back.columns) {
        assert_eq!((ours.title(), ours.unit), (theirs.title(), theirs.unit));
        let bits = |data: &Data| data.to_f64().into_iter().map(f64::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(&ours.data), bits(&theirs.data));
    }
}

#[test]
fn a_file_that_is_no_series_is_refused() {
    for (text, expected) in [
        ("time_s,nonsense\n", "line 1: a column title without name or unit"),
        ("time_s,a.b [B]\n1\n", "line 2: not as many fields as columns"),
        ("time_s,a.b [B]\n1,x\n", "line 2: not a number"),
    ] {
        assert_eq!(read_csv(text.as_bytes()).expect_err("refused").to_string(), expected);
    }
}

#[test]
fn parquet_holds_the_same_numbers() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::RowAccessor;
    let series = record(&recorder(50)).series;
    let mut bytes = Vec::new();
    write_parquet(&series, &mut bytes).expect("written");
    let mut again = Vec::new();
    write_parquet(&series, &mut again).expect("written");
    assert_eq!(bytes, again);
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a Parquet file");
    let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), series.times.len());
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row.get_double(0).expect("time"), series.times[index].as_secs_f64());
        assert_eq!(row.get_long(1).expect("sent") as f64, series.columns[0].data.at(index).as_f64());
        let value = row.get_double(3).expect("phase");
        assert_eq!(value.to_bits(), series.columns[2].data.at(index).as_f64().to_bits());
    }
}

#[test]
fn captures_change_nothing_and_hold_what_passed() {
    use bentpipe_wire::pcap::{LinkType, Reader};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("b.pcap");
    let capture = Capture::start(&path, Form::Ip, 64).expect("started");
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
    let recording = recorder(300).follow(&mut live, |_| ControlFlow::Continue(())).expect("a recording");
    assert_eq!(recording.series.times, [0, 300, 600, 700].map(at_ms));
    assert_eq!((recording.end.at, recording.warm.at), (at_ms(700), at_ms(600)));
    let mut plain = network();
    plain.run_until(at_ms(700));
    assert_eq!(recording.fingerprint, plain.fingerprint());
    let mut samples = 0;
    let stop_at_second = |_: &mut Ending| {
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
