//! TFRC's two ends over links: against the equation, and with the handshakes and options of both transports.

use bentpipe_cc::tfrc::{Params, Revision, rate};
use bentpipe_net::metric::{self, Counter, Gauge, Of};
use bentpipe_net::{Channel, Histogram, Link, Observer, Port, channel, link, quick_start};
use bentpipe_sim::{Builder, ElementId, Network};
use bentpipe_transport::app::Endpoints;
use bentpipe_transport::tfrc::{Config, Pauses, Receiver, Sender, Transport};
use bentpipe_units::{Bytes, Rate, Span, Time};

const PAYLOAD: u64 = 1000;

/// A sender and a receiver, 50 ms apart each way; data goes through an approving host's element and a lossy channel.
struct Pair {
    network: Network,
    sender: ElementId,
    receiver: ElementId,
}

struct Setting {
    config: Config,
    loss: f64,
    rate: Rate,
    /// What the approver believes the line has.
    approved: Option<Rate>,
    stop: Option<Span>,
    ipv6: bool,
}

impl Setting {
    fn new(transport: Transport) -> Setting {
        let config = Config { transport, ..Config::new(Bytes::new(PAYLOAD)) };
        Setting {
            config,
            loss: 0.0,
            rate: Rate::from_bps(100_000_000),
            approved: None,
            stop: None,
            ipv6: false,
        }
    }

    fn build(&self) -> Pair {
        let (from, to) = match self.ipv6 {
            true => ("[fd00::1]:5000", "[fd00::2]:5001"),
            false => ("10.0.0.1:5000", "10.0.0.2:5001"),
        };
        let (source, destination) = (from.parse().expect("one"), to.parse().expect("one"));
        let line = || {
            let config = link::Config {
                rate: Some(self.rate),
                delay: Span::from_millis(50),
                ..link::Config::default()
            };
            Link::new(&config).expect("possible")
        };
        let mut builder = Builder::new(3);
        let ends = Endpoints { source, destination };
        let sender = Sender::new(&self.config, ends, Span::from_millis(10), self.stop).expect("possible");
        let sender = builder.add("sender", sender);
        let receiver = builder.add("receiver", Receiver::new(&self.config, destination));
        let approver = {
            let rate = self.approved.unwrap_or(self.rate);
            quick_start::Approver::new(&quick_start::Config::default(), rate, false)
        };
        let approver = builder.add("approver", approver.expect("possible"));
        let (there, back) = (builder.add("there", line()), builder.add("back", line()));
        let loss = Channel::new(&channel::Config::PacketErrors { loss: self.loss });
        let loss = builder.add("loss", loss.expect("possible"));
        for (a, b) in [
            (sender, approver),
            (approver, there),
            (there, loss),
            (loss, receiver),
            (receiver, back),
            (back, sender),
        ] {
            builder.connect((a, Port(0)), (b, Port(0)));
        }
        Pair { network: builder.build().expect("no loop"), sender, receiver }
    }
}

struct Find<'a>(&'a str, Option<f64>);

impl Observer for Find<'_> {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        if metric.name == self.0 {
            self.1 = Some(total as f64);
        }
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        if metric.name == self.0 {
            self.1 = Some(value);
        }
    }
    /// The waits at the sender have a mean, a 95 % quantile and a maximum.
    fn histogram(&mut self, metric: &'static Of<metric::Histogram>, waits: &Histogram) {
        let seconds = |span: Option<Span>| span.map_or(0.0, Span::as_secs_f64);
        match self.0.strip_prefix("wait-").filter(|_| metric.name == "waits") {
            Some("mean") => self.1 = Some(seconds(waits.mean())),
            Some("p95") => self.1 = waits.quantile(0.95),
            Some("max") => self.1 = Some(seconds(waits.range().map(|range| range.1))),
            _ => {}
        }
    }
}

impl Pair {
    fn value(&mut self, of: ElementId, name: &str) -> f64 {
        let mut find = Find(name, None);
        self.network.observe(of, &mut find);
        find.1.unwrap_or_else(|| panic!("no value {name}"))
    }

    fn run_to(&mut self, seconds: u64) {
        self.network.run_until(Time::ZERO + Span::from_secs(seconds));
    }
}

#[test]
fn at_a_fixed_loss_the_rate_is_the_equations() {
    for transport in [Transport::Udp, Transport::Dccp] {
        for loss in [0.003, 0.02] {
            let mut pair = Setting { loss, ..Setting::new(transport) }.build();
            pair.run_to(60);
            let before = pair.value(pair.sender, "sent");
            let (mut sum, mut samples) = (0.0, 0.0);
            for second in 61..=960 {
                pair.run_to(second);
                (sum, samples) = (sum + pair.value(pair.sender, "loss-event-rate"), samples + 1.0);
            }
            let sent = (pair.value(pair.sender, "sent") - before) * PAYLOAD as f64 / 900.0;
            let rtt = Span::from_secs_f64(pair.value(pair.sender, "srtt"));
            let ratio = sent / rate(PAYLOAD as f64, rtt, sum / samples);
            assert!(
                (0.95..1.25).contains(&ratio),
                "{transport:?}, loss {loss}: {ratio} of the equation's rate"
            );
        }
    }
}

#[test]
fn an_application_slower_than_the_path_is_not_held_back() {
    for transport in [Transport::Udp, Transport::Dccp] {
        let mut setting = Setting { stop: Some(Span::from_secs(60)), ..Setting::new(transport) };
        setting.config.rate = Some(Rate::from_bps(800_000));
        let mut pair = setting.build();
        pair.run_to(100);
        // 100 packets a second from 10 ms to 60 s, both ends included.
        assert_eq!(pair.value(pair.receiver, "packets"), 6000.0, "{transport:?}");
        assert_eq!(pair.value(pair.receiver, "lost"), 0.0);
        assert_eq!(pair.value(pair.receiver, "dropped-unexpected"), 0.0);
        assert_eq!(pair.value(pair.sender, "dropped-unexpected"), 0.0);
        let (least, p50) = (pair.value(pair.receiver, "delay-min"), pair.value(pair.receiver, "delay-p50"));
        assert!((0.05..0.051).contains(&least) && p50 < 0.052, "{transport:?}: {least} {p50}");
        let wait = pair.value(pair.sender, "wait-mean");
        assert!(wait > 0.0 && wait < 0.1, "{transport:?}: slow start alone waits, {wait} s in the mean");
    }
}

/// Less than a packet each round trip: the window counter goes on by five, which shows no round trip.
#[test]
fn losses_do_not_stop_a_source_of_few_packets() {
    for transport in [Transport::Udp, Transport::Dccp] {
        let mut setting = Setting { loss: 0.05, stop: Some(Span::from_secs(300)), ..Setting::new(transport) };
        setting.config.rate = Some(Rate::from_bps(4 * 8 * PAYLOAD));
        let mut pair = setting.build();
        pair.run_to(330);
        let (sent, arrived) = (pair.value(pair.sender, "sent"), pair.value(pair.receiver, "packets"));
        assert!((1195.0..=1201.0).contains(&sent), "{transport:?}: {sent} of 1200 packets");
        assert!((1080.0..1190.0).contains(&arrived), "{transport:?}: {arrived} of {sent} packets");
        let delay = pair.value(pair.receiver, "delay-p95") + pair.value(pair.sender, "wait-p95");
        assert!(delay < 0.3, "{transport:?}: {delay} s");
    }
}

#[test]
fn quick_start_shortens_the_start() {
    let worst = |transport, quick_start, ipv6| {
        let mut setting = Setting { ipv6, ..Setting::new(transport) };
        setting.config.rate = Some(Rate::from_bps(1_024_000));
        setting.config.quick_start = quick_start;
        let mut pair = setting.build();
        pair.run_to(20);
        let used = pair.value(pair.sender, "quick-start-used");
        assert_eq!(used, f64::from(u8::from(quick_start.is_some())), "{transport:?}");
        pair.value(pair.receiver, "delay-max") + pair.value(pair.sender, "wait-max")
    };
    for transport in [Transport::Udp, Transport::Dccp] {
        for ipv6 in [false, true] {
            let (without, with) =
                (worst(transport, None, ipv6), worst(transport, Some(Rate::from_bps(1_024_000)), ipv6));
            assert!(with < 0.7 * without, "{transport:?}: {with} s with, {without} s without");
        }
    }
}

/// Media of 4 Mbit/s: silent for `off` after each 10 s, with requests at least 6 s apart.
fn in_turns(transport: Transport, off: Span) -> Setting {
    let mut setting = Setting::new(transport);
    setting.config.rate = Some(Rate::from_bps(4_000_000));
    setting.config.pauses = Some(Pauses { on: Span::from_secs(10), off });
    setting.config.quick_start = Some(Rate::from_bps(4_500_000));
    setting.config.quick_start_interval = Some(Span::from_secs(6));
    setting
}

#[test]
fn quick_start_shortens_what_follows_silence() {
    let off = Span::from_secs(20);
    for transport in [Transport::Udp, Transport::Dccp] {
        for revision in [Revision::Rfc5348, Revision::Rfc3448] {
            let run = |interval: Option<Span>| {
                let mut setting = in_turns(transport, off);
                setting.config.quick_start_interval = interval;
                setting.config.control = Params { revision, ..Params::default() };
                let mut pair = setting.build();
                pair.run_to(160);
                assert_eq!(pair.value(pair.sender, "dropped-unexpected"), 0.0);
                assert_eq!(pair.value(pair.receiver, "dropped-unexpected"), 0.0);
                let used = pair.value(pair.sender, "quick-start-used");
                (used, pair.value(pair.receiver, "delay-mean") - 0.05 + pair.value(pair.sender, "wait-mean"))
            };
            let ((once, without), (each, with)) = (run(None), run(Some(Span::from_secs(6))));
            // At 0 s and after each of five silences.
            assert_eq!((once, each), (1.0, 6.0), "{transport:?} {revision:?}");
            assert!(with < 0.6 * without, "{transport:?} {revision:?}: {with} s with, {without} s without");
        }
    }
}

#[test]
fn refused_requests_are_made_further_and_further_apart() {
    for transport in [Transport::Udp, Transport::Dccp] {
        let refusals = |off: u64, until: u64| {
            let approved = Some(Rate::from_bps(80_000));
            let mut pair = Setting { approved, ..in_turns(transport, Span::from_secs(off)) }.build();
            pair.run_to(until);
            assert_eq!(pair.value(pair.sender, "quick-start-used"), 0.0);
            pair.value(pair.sender, "quick-start-refused")
        };
        // The application resumes every 20 s: at 0, at 20 (6 s later or more), 40 (12), 80 (24), 140 (48), and no more (96).
        let at = [19, 25, 45, 79, 85, 139, 145, 600].map(|until| refusals(10, until));
        assert_eq!(at, [1.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0], "{transport:?}");
    }
}

#[test]
fn a_source_that_never_pauses_asks_once() {
    let mut setting = in_turns(Transport::Dccp, Span::from_secs(10));
    setting.config.pauses = None;
    let mut pair = setting.build();
    pair.run_to(60);
    assert_eq!(pair.value(pair.sender, "quick-start-used"), 1.0);
}

#[test]
fn no_more_is_asked_for_than_losses_permit() {
    // At 4 % the equation has 45 kB/s for packets of 1000 bytes and 0.1 s: less than routers have a code for above it.
    let mut setting = Setting { loss: 0.04, ..in_turns(Transport::Udp, Span::from_secs(10)) };
    setting.config.rate = Some(Rate::from_bps(400_000));
    let mut pair = setting.build();
    let mut above = 0;
    for second in 1..=300 {
        pair.run_to(second);
        let p = pair.value(pair.sender, "loss-event-rate");
        let rtt = Span::from_secs_f64(pair.value(pair.sender, "srtt").max(0.1));
        let allowed = pair.value(pair.sender, "allowed-rate") / 8.0;
        above += u32::from(p > 0.0 && allowed > 1.05 * rate(PAYLOAD as f64, rtt, p));
    }
    assert_eq!(above, 0, "seconds above the equation's rate");
}

#[test]
fn a_refusing_router_leaves_the_start_as_it_was() {
    let start = |quick_start| {
        let mut setting = Setting { rate: Rate::from_bps(80_000), ..Setting::new(Transport::Dccp) };
        setting.config.quick_start = quick_start;
        let mut pair = setting.build();
        pair.run_to(5);
        if quick_start.is_some() {
            assert_eq!(pair.value(pair.sender, "quick-start-refused"), 1.0);
        }
        pair.value(pair.receiver, "packets")
    };
    assert_eq!(start(Some(Rate::from_bps(1_000_000))), start(None));
}

#[test]
fn rfc_3448_holds_a_changing_source_to_twice_what_was_received() {
    // At 1 packet a round trip RFC 3448 allows two: a source of ten packets a round trip takes longer to get going.
    let median = |revision| {
        let mut setting = Setting::new(Transport::Udp);
        setting.config.rate = Some(Rate::from_bps(800_000));
        setting.config.control = Params { revision, ..Params::default() };
        let mut pair = setting.build();
        pair.run_to(4);
        pair.value(pair.receiver, "delay-mean") + pair.value(pair.sender, "wait-mean")
    };
    assert!(median(Revision::Rfc3448) > 1.3 * median(Revision::Rfc5348));
}
