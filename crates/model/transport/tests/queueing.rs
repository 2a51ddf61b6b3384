//! Links and queues against queueing theory.

use std::any::Any;

use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_net::{Cx, Element, Framing, Link, Observer, Packet, Port, Shaper, link, shaper};
use bentpipe_sim::{Builder, ElementId, Network};
use bentpipe_transport::app::{Endpoints, Pattern, Sink, SinkConfig, Source, SourceConfig};
use bentpipe_units::{Bytes, Rate, Span, Time};

/// Packets at exponential intervals, of exponential lengths, which makes their service times exponential.
struct Markov {
    mean_gap: Span,
    mean_len: f64,
    left: u64,
}

impl Element for Markov {
    fn receive(&mut self, _: Port, _: Packet, _: &mut Cx<'_>) -> Time {
        Time::NEVER
    }
    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let len = cx.stream().exponential(self.mean_len).round().max(1.0);
        let mut packet = Packet::new(0, len as u32);
        packet.set_created_at(cx.now());
        cx.emit(Port(0), packet);
        self.left -= 1;
        let gap = cx.stream().exponential(self.mean_gap.as_secs_f64());
        if self.left == 0 { Time::NEVER } else { cx.now() + Span::from_secs_f64(gap) }
    }
    fn observe(&mut self, _: Time, _: &mut dyn Observer) {}
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Adds up how long packets were on their way.
#[derive(Default)]
struct Clock {
    packets: u64,
    seconds: f64,
}

impl Element for Clock {
    fn receive(&mut self, _: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        self.packets += 1;
        self.seconds += cx.now().since(packet.created_at()).as_secs_f64();
        Time::NEVER
    }
    fn wake(&mut self, _: &mut Cx<'_>) -> Time {
        Time::NEVER
    }
    fn observe(&mut self, _: Time, _: &mut dyn Observer) {}
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// A line of elements, each one's output 0 to the next one's input 0.
fn line(seed: u64, elements: Vec<Box<dyn Element>>) -> (Network, Vec<ElementId>) {
    let mut builder = Builder::new(seed);
    let numbered = elements.into_iter().enumerate();
    let ids: Vec<ElementId> =
        numbered.map(|(i, element)| builder.add_boxed(format!("element/{i}"), element)).collect();
    for pair in ids.windows(2) {
        builder.connect((pair[0], Port(0)), (pair[1], Port(0)));
    }
    (builder.build().expect("no loop"), ids)
}

/// The mean service time: 10,000 bytes at 80 Mbit/s.
const SERVICE: f64 = 1e-3;

fn server(waiting: Option<u32>) -> Box<Link> {
    let queue = Discipline::DropTail(DropTailConfig { packets: waiting, bytes: None });
    let config = link::Config { rate: Some(Rate::from_bps(80_000_000)), queue, ..link::Config::default() };
    Box::new(Link::new(&config).expect("possible"))
}

/// Sends `count` packets of exponential length through a server at load `rho`: the mean time in the system, and the
/// share lost.
fn markov(rho: f64, waiting: Option<u32>, count: u64) -> (f64, f64) {
    let source = Markov { mean_gap: Span::from_secs_f64(SERVICE / rho), mean_len: 10_000.0, left: count };
    let (mut network, ids) = line(11, vec![Box::new(source), server(waiting), Box::new(Clock::default())]);
    network.run_until(Time::ZERO + Span::from_secs(1_000_000));
    let clock = network.element::<Clock>(ids[2]).expect("a clock");
    (clock.seconds / clock.packets as f64, 1.0 - clock.packets as f64 / count as f64)
}

#[track_caller]
fn close(measured: f64, expected: f64, tolerance: f64) {
    let error = measured / expected - 1.0;
    assert!(error.abs() < tolerance, "{measured} for {expected}: {:.2} % off", error * 100.0);
}

#[test]
fn m_m_1_waiting_time() {
    for rho in [0.3, 0.5, 0.8] {
        let (time, lost) = markov(rho, None, 800_000);
        assert_eq!(lost, 0.0);
        close(time - SERVICE, rho * SERVICE / (1.0 - rho), 0.045);
    }
}

#[test]
fn m_m_1_k_loss() {
    for (rho, k) in [(0.8_f64, 10), (1.5, 5), (0.5, 1)] {
        let (_, lost) = markov(rho, Some(k - 1), 500_000);
        let k = k as i32;
        close(lost, (1.0 - rho) * rho.powi(k) / (1.0 - rho.powi(k + 1)), 0.04);
    }
}

fn endpoints() -> Endpoints {
    let (source, destination) = ("10.0.0.1:5000", "10.0.0.2:6000");
    Endpoints { source: source.parse().expect("an end"), destination: destination.parse().expect("an end") }
}

fn source(pattern: Pattern, payload: u64) -> Box<Source> {
    let config = SourceConfig::new(pattern, Bytes::new(payload));
    Box::new(Source::new(&config, endpoints()).expect("possible"))
}

fn sink() -> Box<Sink> {
    Box::new(Sink::new(SinkConfig {
        first_port: 6000,
        count: 1,
        header: Default::default(),
        shared_ports: false,
    }))
}

#[test]
fn m_d_1_waiting_time() {
    for rho in [0.3, 0.6, 0.8] {
        let mean_interval = Span::from_secs_f64(SERVICE / rho);
        let poisson = source(Pattern::Poisson { mean_interval }, 10_000 - 28);
        let (mut network, ids) = line(7, vec![poisson, server(None), sink()]);
        network.run_until(Time::ZERO + Span::from_secs(800));
        let sink = network.element::<Sink>(ids[2]).expect("a sink");
        let time = sink.mean_delay().expect("packets").as_secs_f64();
        close(time - SERVICE, rho * SERVICE / (2.0 * (1.0 - rho)), 0.03);
    }
}

#[test]
fn a_source_as_fast_as_the_link_never_drifts_from_it() {
    // 155.52 Mbit/s and 1057 bytes: no whole number of nanoseconds.
    let rate = Rate::from_bps(155_520_000);
    let constant = source(Pattern::ConstantRate { rate }, 1057 - 28);
    let config = link::Config { rate: Some(rate), delay: Span::from_millis(270), ..link::Config::default() };
    let link = Box::new(Link::new(&config).expect("possible"));
    let (mut network, ids) = line(3, vec![constant, link, sink()]);
    network.run_until(Time::ZERO + Span::from_secs(60));
    let link = network.element::<Link>(ids[1]).expect("a link");
    assert!(link.queued() <= 1);
    let (min, max) = network.element::<Sink>(ids[2]).expect("a sink").delay_range().expect("packets");
    let service = rate.span_of(Bytes::new(1057));
    assert!(min >= Span::from_millis(270) + service - Span::from_nanos(1));
    assert!(max - min <= Span::from_nanos(2), "{min} to {max}");
}

#[test]
fn a_full_link_carries_what_its_framing_leaves() {
    let framing = Framing::Aal5LlcSnap { sdh: true };
    let line_rate = Rate::from_bps(155_520_000);
    let constant = source(Pattern::ConstantRate { rate: line_rate }, 9180 - 28);
    let queue = Discipline::DropTail(DropTailConfig { packets: Some(20), bytes: None });
    let config = link::Config { rate: Some(line_rate), framing, queue, ..link::Config::default() };
    let link = Box::new(Link::new(&config).expect("possible"));
    let (mut network, ids) = line(3, vec![constant, link, sink()]);
    network.run_until(Time::ZERO + Span::from_secs(20));
    let flow = network.element::<Sink>(ids[2]).expect("a sink").flows()[0].clone();
    let carried = flow.packets as f64 * 9180.0 * 8.0 / 20.0;
    close(carried, framing.capacity(line_rate, 9180).as_bps() as f64, 1e-3);
}

#[test]
fn a_shaper_lets_its_rate_through_and_no_more() {
    let rate = Rate::from_bps(10_000_000);
    let poisson = source(Pattern::Poisson { mean_interval: Span::from_micros(600) }, 972);
    let config = shaper::Config::new(rate, Bytes::new(20_000), Bytes::new(50_000));
    let shaper = Box::new(Shaper::new(&config).expect("possible"));
    let (mut network, ids) = line(3, vec![poisson, shaper, sink()]);
    network.run_until(Time::ZERO + Span::from_secs(100));
    let flow = network.element::<Sink>(ids[2]).expect("a sink").flows()[0].clone();
    let bits = (flow.bytes + 28 * flow.packets) as f64 * 8.0;
    assert!(bits <= 20_000.0 * 8.0 + 10e6 * 100.0);
    close(bits / 100.0, 10e6, 1e-3);
}

#[test]
fn observing_changes_nothing() {
    struct Ignore;
    impl Observer for Ignore {
        fn counter(&mut self, _: &'static Of<Counter>, _: u64) {}
        fn gauge(&mut self, _: &'static Of<Gauge>, _: f64) {}
    }
    let run = |looks: u64| {
        let poisson = source(Pattern::Poisson { mean_interval: Span::from_micros(1100) }, 9972);
        let (mut network, ids) = line(5, vec![poisson, server(Some(3)), sink()]);
        for look in 1..=looks {
            network.run_until(Time::ZERO + Span::from_secs(5) * look / looks);
            ids.iter().for_each(|&id| network.observe(id, &mut Ignore));
        }
        network.run_until(Time::ZERO + Span::from_secs(5));
        (network.fingerprint(), network.work())
    };
    assert_eq!(run(0), run(997));
}
