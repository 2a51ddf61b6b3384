//! Ports that fail, hosts that send garbage, and changes while packets are under way.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicBool;

use bentpipe_emu::{Driver, Ended, FakeClock, Port as RealPort, Queue};
use bentpipe_net::link::{self, Link};
use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_net::{ExternalPort, Port};
use bentpipe_sim::{Builder, ElementId, Network};
use bentpipe_units::{Bytes, RandomStream, Rate, Span, Time};

static RUNNING: AtomicBool = AtomicBool::new(false);

fn at_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// Two gates with a link each way.
fn pair(config: &link::Config) -> (Network, [ElementId; 2], ElementId) {
    let mut builder = Builder::new(7);
    let gates = ["left", "right"].map(|name| builder.add(format!("node/{name}"), ExternalPort::default()));
    let links = [("forward", 0, 1), ("return", 1, 0)].map(|(way, from, to)| {
        let link = builder.add(format!("link/{way}"), Link::new(config).expect("a link"));
        builder.connect((gates[from], ExternalPort::NETWORK), (link, Port(0)));
        builder.connect((link, Port(0)), (gates[to], ExternalPort::NETWORK));
        link
    });
    (builder.build().expect("a network"), gates, links[0])
}

struct Rig {
    driver: Driver<FakeClock>,
    ports: [Queue; 2],
    link: ElementId,
}

fn rig(config: &link::Config) -> Rig {
    let (network, gates, link) = pair(config);
    let mut driver = Driver::new(network, FakeClock::new(Span::ZERO));
    let ports = [Queue::default(), Queue::default()];
    gates.iter().zip(&ports).for_each(|(gate, port)| driver.open(*gate, port.clone()));
    Rig { driver, ports, link }
}

impl Rig {
    fn run_until(&mut self, end: Time) -> Ended {
        self.driver.run(end, &RUNNING)
    }

    fn received(&self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.ports[1].receive()).collect()
    }
}

/// A port whose device fails, always or now and then.
struct Failing {
    port: Queue,
    fails_for_ever: bool,
    calls: u32,
}

impl RealPort for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.calls += 1;
        match self.fails_for_ever || self.calls.is_multiple_of(3) {
            true => Err(io::Error::other("the device is gone")),
            false => self.port.read(buffer),
        }
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        self.port.write(packet)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

fn with_failing(fails_for_ever: bool) -> (Driver<FakeClock>, Queue, Queue) {
    let (network, gates, _) = pair(&link::Config { delay: Span::from_millis(1), ..link::Config::default() });
    let mut driver = Driver::new(network, FakeClock::new(Span::from_micros(1)));
    let (left, right) = (Queue::default(), Queue::default());
    driver.open(gates[0], Failing { port: left.clone(), fails_for_ever, calls: 0 });
    driver.open(gates[1], right.clone());
    (driver, left, right)
}

#[test]
fn errors_now_and_then_lose_nothing_and_are_counted() {
    let (mut driver, left, right) = with_failing(false);
    (0..50).for_each(|n| left.send(&[n; 40]));
    // A pass each time, as if something woke it.
    (1..100).for_each(|n| assert_eq!(driver.run(at_ms(n), &RUNNING), Ended::AtEnd));
    assert_eq!(std::iter::from_fn(|| right.receive()).count(), 50);
    assert!(driver.errors().read > 10, "{:?}", driver.errors());
    assert!(driver.lost().is_empty());
}

#[test]
fn a_device_that_is_gone_is_given_up_and_said_and_the_others_go_on() {
    let (mut driver, left, right) = with_failing(true);
    (1..20).for_each(|n| assert_eq!(driver.run(at_ms(n), &RUNNING), Ended::AtEnd));
    assert_eq!(driver.lost().len(), 1);
    assert_eq!(driver.lost()[0].error.to_string(), "the device is gone");
    let errors = driver.errors();
    right.send(&[1; 40]);
    driver.run(at_ms(40), &RUNNING);
    assert_eq!(driver.errors(), errors, "it is not read any more");
    assert_eq!(left.receive(), None, "and not written");
}

#[test]
fn when_all_devices_are_gone_the_run_ends_and_says_so() {
    let (network, gates, _) = pair(&link::Config { delay: Span::from_millis(1), ..link::Config::default() });
    let mut driver = Driver::new(network, FakeClock::new(Span::from_micros(1)));
    for gate in gates {
        driver.open(gate, Failing { port: Queue::default(), fails_for_ever: true, calls: 0 });
    }
    let ends: Vec<Ended> = (1..20).map(|n| driver.run(at_ms(n), &RUNNING)).collect();
    assert_eq!(ends.last(), Some(&Ended::AllLost));
    assert_eq!(driver.lost().len(), 2);
}

#[test]
fn any_bytes_of_any_length_go_through_as_they_are_or_are_dropped_as_too_big() {
    let config =
        link::Config { delay: Span::from_millis(1), mtu: Some(Bytes::new(1500)), ..link::Config::default() };
    let mut rig = rig(&config);
    let mut stream = RandomStream::new(3, "garbage");
    let lens = [0, 1, 19, 20, 40, 111, 112, 113, 1499, 1500, 1501, 9000, 65_535];
    let garbage: Vec<Vec<u8>> =
        lens.iter().map(|&len| (0..len).map(|_| (stream.unit() * 256.0) as u8).collect()).collect();
    garbage.iter().for_each(|bytes| rig.ports[0].send(bytes));
    rig.run_until(at_ms(10));
    let whole: Vec<Vec<u8>> = garbage.into_iter().filter(|bytes| bytes.len() <= 1500).collect();
    assert_eq!(rig.received(), whole);
}

#[test]
fn a_storm_fills_its_queue_and_no_more_and_the_other_way_stays_prompt() {
    let queue = Discipline::DropTail(DropTailConfig { packets: Some(100), bytes: None });
    let config = link::Config {
        rate: Some(Rate::from_bps(1_000_000)),
        delay: Span::from_millis(10),
        queue,
        ..link::Config::default()
    };
    let mut rig = rig(&config);
    (0..200_000).for_each(|_| rig.ports[0].send(&[0x45; 125]));
    rig.run_until(at_ms(1));
    rig.ports[1].send(&[0x45; 125]);
    rig.run_until(at_ms(12) + Span::from_micros(10));
    assert!(rig.ports[0].receive().is_some(), "delivered after 1 ms on the line and 10 ms under way");
    rig.run_until(at_ms(500));
    assert!(rig.received().len() <= 1 + 490);
}

#[test]
fn a_change_is_made_between_passes_and_does_not_touch_what_is_under_way() {
    let config = link::Config {
        rate: Some(Rate::from_bps(1_000_000)),
        delay: Span::from_millis(100),
        ..link::Config::default()
    };
    let mut rig = rig(&config);
    let control = rig.driver.control();
    // 125 B are 1 ms on the line: arrivals at 101 and 102 ms.
    (0..2).for_each(|_| rig.ports[0].send(&[0x45; 125]));
    rig.run_until(at_ms(50));
    let link = rig.link;
    let applied = control.apply(move |network| {
        let now = network.now();
        let line = network.element::<Link>(link).expect("a link");
        line.set_delay(now, Span::from_millis(10));
        line.set_rate(now, Some(Rate::from_bps(10_000_000)));
        network.poke(link);
    });
    assert!(applied);
    rig.run_until(at_ms(101));
    assert_eq!(rig.received().len(), 1, "under way since before the change");
    rig.run_until(at_ms(102));
    assert_eq!(rig.received().len(), 1);
    rig.ports[0].send(&[0x45; 125]);
    rig.run_until(at_ms(112));
    assert_eq!(rig.received().len(), 0);
    rig.run_until(at_ms(112) + Span::from_micros(100));
    assert_eq!(rig.received().len(), 1, "0.1 ms on the line and 10 ms under way");
    drop(rig);
    assert!(!control.apply(|_| ()), "the driver is gone");
}
