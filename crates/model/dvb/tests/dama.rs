//! The demand-assigned return link: its figures, its loop, what is lost, and what it costs the engine.

use std::sync::{Arc, Mutex};

use bentpipe_dvb::dama::{
    self, Backlog, Config, Contract, Control, ControlCentre, Frame, PlanEntry, Preset, Receiver, Requests,
    Scheduling, Terminal, TerminalConfig,
};
use bentpipe_net::channel::{Channel, Config as ChannelConfig};
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::{Observer, Packet, Port};
use bentpipe_sim::{Builder, ElementId, Network};
use bentpipe_units::{Bytes, Rate, Span, Time};

const MBIT: u64 = 1_000_000;

fn frame(config: &Config, terminals: u32) -> Arc<Frame> {
    Arc::new(Frame::new(config, terminals).expect("possible"))
}

fn near(ours: f64, published: f64, share: f64) {
    assert!((ours / published - 1.0).abs() < share, "{ours} instead of {published}");
}

/// Row S1: the published figures follow from the rate and the counts.
#[test]
fn skyplex_has_its_published_figures() {
    let low = Frame::new(&Config::default(), 2).expect("possible");
    assert_eq!(low.rate(), Rate::from_bps(2_112_000));
    assert_eq!(low.granularity(), Rate::from_bps(44_000));
    near(low.superframe().as_secs_f64(), 0.820, 0.001);
    let single = Frame::new(&Config { frames: Some(1), ..Config::default() }, 2).expect("possible");
    assert_eq!(single.granularity(), Rate::from_bps(352_000));
    assert_eq!((low.slots_in_multiframe(), low.units(), low.cells_of_unit()), (48, 48, 24));
    let high = Frame::new(&Config { preset: Preset::SkyplexHigh, ..Config::default() }, 2).expect("possible");
    assert_eq!(high.rate(), Rate::from_bps(6_226_000));
    near(high.superframe().as_secs_f64(), 0.820, 0.02);
    near(high.granularity().as_bps() as f64, 44_000.0, 0.02);
}

#[test]
fn superframes_follow_each_other_without_drift() {
    let frame =
        Frame::new(&Config { preset: Preset::SkyplexHigh, ..Config::default() }, 2).expect("possible");
    for number in [0, 1, 2, 1000, 12_345_678] {
        let start = frame.superframe_start(number);
        assert_eq!(frame.superframe_at(start), number);
        assert_eq!(frame.superframe_at(start + (frame.superframe() - Span::from_nanos(2))), number);
        near(start.as_secs_f64() + 1e-9, number as f64 * 432.0 * 12_032.0 / 6_226_000.0 + 1e-9, 1e-9);
    }
}

#[test]
fn request_slots_take_their_room() {
    let sized = |terminals| {
        let requests = Requests::Slots { times: 1, size: Bytes::new(24) };
        Frame::new(&Config { requests, ..Config::default() }, terminals)
    };
    // 500 requests of 24 bytes are 8 bursts, on three multiframes.
    assert_eq!(sized(500).expect("possible").units(), 48 - 3);
    assert_eq!(sized(2).expect("possible").units(), 47);
    assert_eq!(sized(20_000).expect_err("too many").key, "requests.size");
}

/// Terminal, time of arrival, time of sending and length of each packet.
type Received = Vec<(usize, Time, Time, usize)>;

/// Two terminals at least, and what comes out of each.
struct Bed {
    network: Network,
    terminals: Vec<ElementId>,
    centre: ElementId,
    out: Arc<Mutex<Received>>,
    plans: Arc<Mutex<Vec<(usize, PlanEntry)>>>,
}

/// Where IP packets end.
struct End(usize, Arc<Mutex<Received>>);

impl bentpipe_net::Element for End {
    fn receive(&mut self, _: Port, packet: Packet, cx: &mut bentpipe_net::Cx<'_>) -> Time {
        self.1.lock().expect("no panic").push((self.0, cx.now(), packet.created_at(), packet.len()));
        Time::NEVER
    }
    fn wake(&mut self, _: &mut bentpipe_net::Cx<'_>) -> Time {
        Time::NEVER
    }
    fn observe(&mut self, _: Time, _: &mut dyn Observer) {}
    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

const HOP: Span = Span::from_millis(250);

impl Bed {
    fn new(config: &Config, contracts: &[Contract], loss: f64) -> Bed {
        let frame = frame(config, contracts.len() as u32);
        let mut builder = Builder::new(1);
        let centre = builder.add("centre", ControlCentre::new(&frame, contracts).expect("possible"));
        let (out, plans) = (Arc::default(), Arc::default());
        let terminals = contracts.iter().enumerate().map(|(n, contract)| {
            let config = TerminalConfig {
                number: n as u16,
                contract: *contract,
                delay: HOP,
                ..TerminalConfig::default()
            };
            let terminal = Terminal::new(&config, &frame).expect("possible");
            let terminal = builder.add(format!("{n}/terminal"), terminal.with_announcement(announced));
            let channel = Channel::new(&ChannelConfig::PacketErrors { loss }).expect("possible");
            let channel = builder.add(format!("{n}/channel"), channel);
            let receiver = builder.add(format!("{n}/receiver"), Receiver::new(frame.encapsulation()));
            let end = builder.add(format!("{n}/end"), End(n, Arc::clone(&out)));
            builder.connect((terminal, Port(0)), (channel, Port(0)));
            builder.connect((channel, Port(0)), (receiver, Port(0)));
            builder.connect((receiver, Port(0)), (end, Port(0)));
            builder.connect((receiver, Port(1)), (centre, Port(0)));
            builder.connect((centre, Port(n as u16)), (terminal, Port(1)));
            terminal
        });
        let terminals: Vec<ElementId> = terminals.collect();
        let mut bed = Bed { network: builder.build().expect("no loop"), terminals, centre, out, plans };
        for (n, terminal) in bed.terminals.iter().enumerate() {
            let plans = Arc::clone(&bed.plans);
            bed.network.tap(*terminal, Port(1), move |_, packet| {
                plans.lock().expect("no panic").push((n, PlanEntry::parse(packet).expect("a plan")));
            });
        }
        bed
    }

    fn send(&mut self, terminal: usize, at: Time, len: usize) {
        self.network.run_until(at);
        self.network.inject(self.terminals[terminal], Port(0), packet(at, len));
    }

    /// A constant rate of packets of 1000 bytes for a time.
    fn send_rate(&mut self, terminal: usize, start: Time, rate: Rate, lasts: Span) -> usize {
        let interval = rate.span_of(Bytes::new(1000));
        let count = lasts.as_nanos() / interval.as_nanos();
        (0..count).for_each(|n| self.send(terminal, start + interval * n, 1000));
        count as usize
    }

    fn value(&mut self, element: ElementId, name: &'static str) -> f64 {
        struct Find(&'static str, f64);
        impl Observer for Find {
            fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
                if metric.name == self.0 {
                    self.1 = total as f64;
                }
            }
            fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
                if metric.name == self.0 {
                    self.1 = value;
                }
            }
        }
        let mut find = Find(name, f64::NAN);
        self.network.observe(element, &mut find);
        find.1
    }

    fn received(&self) -> Received {
        self.out.lock().expect("no panic").clone()
    }
}

fn packet(at: Time, len: usize) -> Packet {
    let mut packet = Packet::new(20, len as u32 - 20);
    packet.header_mut()[0] = 0x45;
    packet.set_created_at(at);
    packet
}

/// A packet whose second byte is 7 announces 1 Mbit/s.
fn announced(packet: &Packet) -> Option<Rate> {
    (packet.header()[1] == 7).then_some(Rate::from_bps(MBIT))
}

fn rbdc(rate: u64) -> Contract {
    Contract { rbdc: Some(Rate::from_bps(rate)), ..Contract::default() }
}

fn vbdc() -> Contract {
    Contract { vbdc: Some(Bytes::new(10_000_000)), ..Contract::default() }
}

fn ms(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

#[test]
fn constant_assignment_is_a_slow_line() {
    let contract = Contract { cra: Rate::from_bps(440_000), ..Contract::default() };
    let mut bed = Bed::new(&Config::default(), &[contract; 2], 0.0);
    let sent = bed.send_rate(0, ms(10), Rate::from_bps(300_000), Span::from_secs(20));
    bed.network.run_until(ms(25_000));
    let received = bed.received();
    assert_eq!(received.len(), sent);
    let delays: Vec<f64> =
        received.iter().map(|(_, at, created_at, _)| (*at - *created_at).as_secs_f64()).collect();
    let (least, most) =
        (delays.iter().copied().fold(9.0, f64::min), delays.iter().copied().fold(0.0, f64::max));
    // Ten slots of 48 in 273 ms: 23 to 34 ms apart, and one burst holds a packet and a half.
    assert!(least > 0.2557 && most < 0.250 + 0.0057 + 2.0 * 0.0342, "{least} {most}");
    // What both always have of the 48 units.
    assert!((bed.value(bed.centre, "share-assigned") - 20.0 / 48.0).abs() < 1e-9);
}

/// The arithmetic of the transient: a step at any phase of the superframe is served from the superframe whose plan the
/// first request that saw it was in time for.
#[test]
fn the_loop_is_that_of_the_arithmetic() {
    for control in [Control::Ground, Control::OnBoard] {
        for phase in 0..8 {
            let config = Config { control, ..Config::default() };
            let frame = frame(&config, 2);
            let mut bed = Bed::new(&config, &[rbdc(2 * MBIT); 2], 0.0);
            let start =
                frame.superframe_start(3) + Span::from_nanos(frame.superframe().as_nanos() / 8 * phase + 1);
            bed.send_rate(0, start, Rate::from_bps(500_000), Span::from_secs(5));
            bed.network.run_until(ms(12_000));
            let first = bed.received()[0].1;
            // The request of superframe 4 is the first to know; it takes 500 or 250 ms, so 5 is the first that it can shape.
            let served = frame.superframe_start(5);
            let soonest = served + frame.slot() + HOP;
            assert!(
                first >= soonest && first <= soonest + frame.frame() * 2,
                "{control:?} {phase}: {first} {soonest}"
            );
            let wait = served - start;
            assert!(wait >= frame.control_delay() * 2, "{wait}");
        }
    }
}

/// A transient's length is the loop's, whatever the height of the pulse; the queue's peak goes with it.
#[test]
fn the_transient_is_as_long_as_the_loop_and_as_high_as_the_pulse() {
    let config = Config { backlog: Some(Backlog::Unasked), ..Config::default() };
    let frame = frame(&config, 2);
    let peak = |rate: u64| {
        let mut bed = Bed::new(&config, &[rbdc(2 * MBIT); 2], 0.0);
        let start = frame.superframe_start(3) + Span::from_millis(100);
        bed.send_rate(0, start, Rate::from_bps(rate), Span::from_secs(6));
        bed.value(bed.terminals[0], "queue-max-bytes")
    };
    // Nothing is served before superframe 5: that much of the pulse waits, and a slot's spacing besides.
    let wait = (frame.superframe_start(5) - frame.superframe_start(3) - Span::from_millis(100)).as_secs_f64();
    for rate in [200_000, 400_000, 800_000] {
        let least = rate as f64 / 8.0 * wait;
        let (peak, more) = (peak(rate), rate as f64 / 8.0 * frame.superframe().as_secs_f64());
        assert!(peak >= least * 0.97 && peak < least + more + 3000.0, "{rate}: {peak} {least}");
    }
    near(peak(800_000) / peak(400_000), 2.0, 0.05);
}

#[test]
fn volume_is_assigned_as_it_is_asked() {
    let mut bed = Bed::new(&Config::default(), &[vbdc(), vbdc()], 0.0);
    (0..40).for_each(|n| bed.send(0, ms(900 + n), 1500));
    bed.network.run_until(ms(10_000));
    assert_eq!(bed.received().len(), 40);
    // 40 packets are 1509 * 40 / 184 = 329 cells, of which 24 are a unit.
    let units = bed.value(bed.centre, "units-volume");
    assert!((14.0..=15.0).contains(&units), "{units}");
    assert_eq!(bed.value(bed.centre, "requests"), 1.0);
}

#[test]
fn a_lost_request_for_volume_is_made_good() {
    for (absolute, loss) in [(false, 0.3), (true, 0.3)] {
        let contract = Contract { absolute, ..vbdc() };
        let mut bed = Bed::new(&Config::default(), &[contract, contract], loss);
        for n in 0..60 {
            bed.send(0, ms(1000 + 500 * n), 1000);
        }
        bed.network.run_until(ms(60_000));
        assert_eq!(bed.value(bed.terminals[0], "queue-bytes"), 0.0, "absolute {absolute}");
        assert!(bed.received().len() > 25);
    }
}

#[test]
fn a_terminal_that_piggybacks_needs_a_burst_to_ask() {
    let config = Config { requests: Requests::Piggyback, ..Config::default() };
    let starts = Contract { cra: Rate::from_bps(44_000), ..rbdc(MBIT) };
    let mut bed = Bed::new(&config, &[starts, rbdc(MBIT)], 0.0);
    for terminal in [0, 1] {
        bed.send_rate(
            terminal,
            bed.network.now() + Span::from_millis(5),
            Rate::from_bps(400_000),
            Span::from_secs(8),
        );
    }
    bed.network.run_until(ms(30_000));
    let of = |terminal: usize| bed.received().iter().filter(|(from, ..)| *from == terminal).count();
    assert_eq!((of(0), of(1)), (400, 0));
    let mut lossy = Bed::new(&config, &[starts], 1.0);
    lossy.send_rate(0, ms(5), Rate::from_bps(400_000), Span::from_secs(8));
    // Requests are lost with their bursts: the constant unit is all it ever gets.
    assert_eq!(lossy.value(lossy.centre, "units-rate"), 0.0);
    assert!(lossy.value(lossy.terminals[0], "bursts") > 20.0);
}

#[test]
fn free_capacity_goes_to_whoever_may_have_it() {
    let free = Contract { fca: true, ..Contract::default() };
    let mut bed = Bed::new(&Config::default(), &[free, rbdc(MBIT)], 0.0);
    bed.send(0, ms(2000), 1500);
    bed.network.run_until(ms(4000));
    let (_, at, created_at, _) = bed.received()[0];
    assert!(at - created_at < HOP + Span::from_millis(20), "the whole carrier is free: {}", at - created_at);
}

#[test]
fn an_announced_rate_is_asked_for_at_once() {
    let mut bed = Bed::new(&Config::default(), &[rbdc(2 * MBIT); 2], 0.0);
    bed.network.run_until(ms(2000));
    let mut request = packet(ms(2000), 40);
    request.header_mut()[1] = 7;
    bed.network.inject(bed.terminals[0], Port(0), request);
    bed.network.run_until(ms(6000));
    let plans = bed.plans.lock().expect("no panic");
    let most = plans.iter().map(|(_, entry)| entry.allocation.rate).max();
    // 1 Mbit/s of packets is 1.022 of cells, in units of 44 kbit/s.
    assert_eq!(most, Some(24));
    assert!(plans.len() <= 3, "asked for no longer than announced: {}", plans.len());
}

#[test]
fn idle_terminals_cost_nothing() {
    let mut bed = Bed::new(&Config::default(), &vec![rbdc(MBIT); 100], 0.0);
    bed.network.run_until(ms(100_000));
    // The centre's superframes, and every element once at the start.
    assert!(bed.network.work().wakeups < 122 + 402, "{:?}", bed.network.work());
    let before = bed.network.work();
    bed.send(7, ms(100_001), 100);
    bed.network.run_until(ms(110_000));
    let wakeups = bed.network.work().wakeups - before.wakeups;
    // A request, a zero after it, a burst.
    assert!(wakeups < 13 + 6, "{wakeups}");
}

/// However much is asked, what is assigned is what the frame has, and what is sent fits what is assigned.
#[test]
fn an_overloaded_carrier_is_full_and_fair() {
    for scheduler in [Scheduling::Proportional, Scheduling::RoundRobin] {
        let config = Config { scheduler, ..Config::default() };
        let mut bed = Bed::new(&config, &[rbdc(2 * MBIT); 4], 0.0);
        for millis in 0..20_000_u64 {
            (0..4).for_each(|terminal| {
                if millis % 8 == terminal as u64 {
                    bed.send(terminal, ms(millis + 1), 1000);
                }
            });
        }
        let asked = bed.value(bed.centre, "units-asked");
        assert!(asked > 48.0 && bed.value(bed.centre, "units-assigned") == 48.0);
        let of =
            |terminal: usize| bed.received().iter().filter(|(from, ..)| *from == terminal).count() as f64;
        (1..4).for_each(|terminal| near(of(terminal), of(0), 0.05));
        // 1000 of 1008 bytes and a pointer, in 184 of 188, from about 2 s on.
        let expected = 2_112_000.0 / 8.0 * 17.5 * 184.0 / 188.0 / 1009.0;
        near((0..4).map(of).sum(), expected, 0.05);
    }
}

#[test]
fn cells_of_a_burst_are_a_transport_stream() {
    let mut bed =
        Bed::new(&Config::default(), &[Contract { cra: Rate::from_bps(44_000), ..Contract::default() }], 0.0);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let channel = bed.network.ids().find(|id| bed.network.path(*id) == "0/channel").expect("there");
    bed.network.tap(channel, Port(0), move |_, packet| {
        kept.lock().expect("no panic").push(dama::cells_of(packet).to_vec());
    });
    bed.send(0, ms(500), 300);
    bed.network.run_until(ms(3000));
    let bursts = seen.lock().expect("no panic").clone();
    assert_eq!(bursts.len(), 1);
    assert_eq!(bursts[0].len(), 8 * 188);
    assert!(bursts[0].chunks(188).all(|cell| cell[0] == 0x47));
    let null = |cell: &[u8]| cell[1] & 0x1f == 0x1f && cell[2] == 0xff;
    assert_eq!(bursts[0].chunks(188).filter(|cell| null(cell)).count(), 6);
}
