//! Checks on `bentpipe-scenario` and what is made of it: whatever the bytes of a scenario file, it is read or refused with a
//! reason, and what is read runs; whatever those of other files, they are what they should be or are refused.

use bentpipe_assemble::{Built, checked, delay_changes};
use bentpipe_lab::budget::Budget;
use bentpipe_lab::video::{Model, TransportStream, mux};
use bentpipe_net::Observer;
use bentpipe_net::channel::Trace;
use bentpipe_net::channel::loss;
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_report::losses;
use bentpipe_scenario::{Document, Scenario, event_series};
use bentpipe_units::{RandomStream, Span, Time};

/// Decoder or machine under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("scenario", fuzz_scenario),
    ("run", fuzz_run),
    ("delays", fuzz_delays),
    ("series", fuzz_series),
    ("losses", fuzz_losses),
    ("video", fuzz_video),
    ("sizes", fuzz_sizes),
];

/// Reads a scenario file, and everything in it up to a network.
pub fn fuzz_scenario(data: &[u8]) {
    let _ = scenario(data);
}

fn scenario(data: &[u8]) -> Option<Scenario> {
    let document = Document::parse("fuzz.toml", data).ok()?;
    match checked(&document) {
        Ok(scenario) => Some(scenario),
        Err(refusal) => {
            assert!(!refusal.diagnostics().is_empty());
            assert!(!refusal.to_string().is_empty());
            None
        }
    }
}

/// The most elements' worth of work that a run does.
const MOST_WORK: u64 = 20_000;

/// Reads a scenario file, tells its budget, and runs the beginning of it: time goes on, whatever is in it.
pub fn fuzz_run(data: &[u8]) {
    let Some(scenario) = scenario(data) else { return };
    let _ = Budget::new(&scenario);
    let mut built = Built::new(&scenario, 7, &bentpipe_scenario::Access::default()).expect("checked before");
    let end = Time::ZERO + scenario.duration;
    let network = &mut built.network;
    while network.next_deadline() <= end && network.work().wakeups < MOST_WORK {
        let (at, before) = (network.next_deadline(), network.work());
        network.run_until(at);
        let work = network.work();
        let done = work.wakeups + work.deliveries - before.wakeups - before.deliveries;
        assert!(done < 100 * MOST_WORK, "{done} calls at {at}");
    }
    for id in network.ids() {
        network.observe(id, &mut Figures);
    }
}

/// Takes figures as they are.
struct Figures;

impl Observer for Figures {
    fn counter(&mut self, _metric: &'static Of<Counter>, _total: u64) {}

    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        assert!(!value.is_infinite() || value > 0.0, "{} is {value}", metric.name);
    }
}

/// Reads a file of changes of a delay.
pub fn fuzz_delays(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match delay_changes(text) {
        Ok(changes) => assert!(changes.windows(2).all(|pair| pair[0].at < pair[1].at)),
        Err((line, problem)) => assert!(line <= text.lines().count().max(1) && !problem.is_empty()),
    }
}

/// Reads a file of values in time, of an event.
pub fn fuzz_series(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match event_series(text) {
        Ok(rows) => assert!(rows.windows(2).all(|pair| pair[0].1 <= pair[1].1)),
        Err((line, problem)) => assert!(line <= text.lines().count().max(1) && !problem.is_empty()),
    }
}

/// Reads a trace of losses, fits all models to it, and draws what comes of it.
pub fn fuzz_losses(data: &[u8]) {
    let Ok(trace) = Trace::parse(data) else { return };
    let comparison = loss::comparison(&trace, 1 + trace.frames() as u32 % 40);
    assert!((0.0..=1.0).contains(&comparison.residual), "{}", comparison.residual);
    let _ = losses::table(&comparison);
    assert!(losses::page("fuzz", "fuzz.trace", &trace, &comparison).to_html().len() < 1 << 24);
}

/// Reads a transport stream, and takes it apart and puts it together.
pub fn fuzz_video(data: &[u8]) {
    let Ok(stream) = TransportStream::read(data) else { return };
    if let Ok(times) = stream.times() {
        assert_eq!(times.len(), stream.len());
        assert!(times.is_sorted());
    }
    let parts = stream.programmes().into_iter().filter_map(|number| mux::demultiplex(&stream, number).ok());
    let parts: Vec<TransportStream> = parts.take(4).collect();
    if let Ok(whole) = mux::multiplex(&parts, None) {
        assert!(whole.programmes().len() <= parts.len());
    }
    let _ = mux::same(&stream, &stream);
}

/// Sizes of pictures of any file: the modelled stream of them is read again.
pub fn fuzz_sizes(data: &[u8]) {
    let length = Span::from_millis(100);
    let model = Model { rate: None, sizes: Some("sizes".into()), interval: None, length };
    let Ok(stream) = model.generate(Some(data), &mut RandomStream::new(1, "model")) else { return };
    TransportStream::read(&stream.to_bytes()).expect("a modelled stream is read");
}
