//! The driver does what a simulation does: the same packets leave at the same instants.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bentpipe_emu::{Clock, Driver, FakeClock, Queue};
use bentpipe_net::link::{self, Link};
use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_net::{ExternalPort, Packet, Port};
use bentpipe_sim::{Builder, ElementId, Fingerprint, Network};
use bentpipe_units::{RandomStream, Rate, Span, Time};

/// Packets with the instants at which they pass somewhere.
type Passage = Vec<(Time, Vec<u8>)>;

/// Two gates with two links in a row each way, slow enough that packets queue and some are dropped.
fn network() -> (Network, [ElementId; 2]) {
    let mut builder = Builder::new(7);
    let gates = ["left", "right"].map(|name| builder.add(format!("node/{name}"), ExternalPort::default()));
    let queue = Discipline::DropTail(DropTailConfig { packets: Some(5), bytes: None });
    let config = |kbps: u64, ms: u64| link::Config {
        rate: Some(Rate::from_bps(kbps * 1000)),
        delay: Span::from_millis(ms),
        queue: queue.clone(),
        ..link::Config::default()
    };
    for (way, from, to) in [("forward", 0, 1), ("return", 1, 0)] {
        let near = builder.add(format!("link/near/{way}"), Link::new(&config(3_000, 2)).expect("a link"));
        let far = builder.add(format!("link/far/{way}"), Link::new(&config(1_000, 30)).expect("a link"));
        builder.connect((gates[from], ExternalPort::NETWORK), (near, Port(0)));
        builder.connect((near, Port(0)), (far, Port(0)));
        builder.connect((far, Port(0)), (gates[to], ExternalPort::NETWORK));
    }
    (builder.build().expect("a network"), gates)
}

/// When which bytes are sent from which side: bursts and pauses, for two seconds. Of one instant, the left side first.
fn schedule() -> Vec<(Time, usize, Vec<u8>)> {
    let mut stream = RandomStream::new(1, "schedule");
    let mut at = Time::ZERO;
    let mut sent = Vec::new();
    while at < Time::ZERO + Span::from_secs(2) {
        at += if stream.chance(0.5) { Span::ZERO } else { Span::from_secs_f64(stream.exponential(0.005)) };
        let len = 20 + (stream.unit() * 1480.0) as usize;
        let bytes = (0..len).map(|_| (stream.unit() * 256.0) as u8).collect();
        sent.push((at, usize::from(stream.chance(0.3)), bytes));
    }
    sent.sort_by_key(|(at, side, _)| (*at, *side));
    sent
}

/// Takes down what passes an input.
fn watch(network: &mut Network, gate: ElementId, port: Port) -> Arc<Mutex<Passage>> {
    let passage = Arc::new(Mutex::new(Passage::new()));
    let seen = Arc::clone(&passage);
    network.tap(gate, port, move |now, packet| seen.lock().expect("one thread").push((now, packet.to_vec())));
    passage
}

fn taken(passage: &Arc<Mutex<Passage>>) -> Passage {
    std::mem::take(&mut passage.lock().expect("one thread"))
}

struct Result {
    entered: [Passage; 2],
    left: [Passage; 2],
    fingerprint: Fingerprint,
}

const END: Time = Time::from_nanos(3_000_000_000);

fn simulate(sent: &[(Time, usize, Vec<u8>)]) -> Result {
    let (mut network, gates) = network();
    let entered = gates.map(|gate| watch(&mut network, gate, ExternalPort::OUTSIDE));
    let left = gates.map(|gate| watch(&mut network, gate, ExternalPort::NETWORK));
    for (at, side, bytes) in sent {
        // What enters at one instant enters together, as the driver's batches do.
        if network.now() < *at {
            network.run_until(*at);
        }
        network.inject(gates[*side], ExternalPort::OUTSIDE, Packet::from_bytes(bytes));
    }
    network.run_until(END);
    let fingerprint = network.fingerprint();
    Result { entered: entered.each_ref().map(taken), left: left.each_ref().map(taken), fingerprint }
}

/// On a clock of which each reading takes `reading`. Also gives what came out at the ports, and how late at most.
fn emulate(sent: &[(Time, usize, Vec<u8>)], reading: Span) -> (Result, [Vec<Vec<u8>>; 2], Span) {
    let (mut network, gates) = network();
    let entered = gates.map(|gate| watch(&mut network, gate, ExternalPort::OUTSIDE));
    let left = gates.map(|gate| watch(&mut network, gate, ExternalPort::NETWORK));
    let mut driver = Driver::new(network, FakeClock::new(reading));
    let ports = [Queue::default(), Queue::default()];
    gates.iter().zip(&ports).for_each(|(gate, port)| driver.open(*gate, port.clone()));
    let stop = AtomicBool::new(false);
    for (at, side, bytes) in sent {
        driver.run(*at, &stop);
        ports[*side].send(bytes);
    }
    driver.run(END, &stop);
    let out = ports.map(|port| std::iter::from_fn(|| port.receive()).collect());
    let (late, fingerprint) = (driver.lateness().max(), driver.network().fingerprint());
    let (entered, left) = (entered.each_ref().map(taken), left.each_ref().map(taken));
    (Result { entered, left, fingerprint }, out, late)
}

fn bytes(passage: &Passage) -> Vec<Vec<u8>> {
    passage.iter().map(|(_, bytes)| bytes.clone()).collect()
}

#[test]
fn on_a_clock_that_takes_no_time_the_driver_is_the_simulation() {
    let sent = schedule();
    let simulated = simulate(&sent);
    let (emulated, out, late) = emulate(&sent, Span::ZERO);
    let dropped = sent.len() - simulated.left.each_ref().map(Vec::len).iter().sum::<usize>();
    assert!(dropped > 20 && simulated.left.iter().all(|left| left.len() > 50), "too easy: {dropped} dropped");
    assert_eq!(emulated.left, simulated.left);
    assert_eq!(emulated.fingerprint, simulated.fingerprint);
    assert_eq!(out, simulated.left.each_ref().map(bytes));
    assert_eq!(late, Span::ZERO);
}

#[test]
fn on_a_slow_clock_packets_enter_later_and_all_that_follows_is_the_simulation() {
    let (emulated, out, late) = emulate(&schedule(), Span::from_micros(7));
    // What entered when, as it was in the emulation.
    let mut entered: Vec<(Time, usize, Vec<u8>)> = Vec::new();
    for (side, passage) in emulated.entered.iter().enumerate() {
        entered.extend(passage.iter().map(|(at, bytes)| (*at, side, bytes.clone())));
    }
    entered.sort_by_key(|(at, side, _)| (*at, *side));
    let simulated = simulate(&entered);
    assert_eq!(emulated.left, simulated.left);
    assert_eq!(emulated.fingerprint, simulated.fingerprint);
    assert_eq!(out, simulated.left.each_ref().map(bytes));
    // A reading for the pass, and one for each packet that left in it: it is seen, and it is small.
    assert!(late >= Span::from_micros(7) && late < Span::from_millis(1), "{late}");
}

/// Clock of which each reading takes 7 µs, and which passes elsewhere too.
#[derive(Clone, Default)]
struct Passing(Arc<AtomicU64>);

impl Passing {
    fn pass(&self, span: Span) -> Time {
        Time::from_nanos(self.0.fetch_add(span.as_nanos(), Ordering::Relaxed) + span.as_nanos())
    }
}

impl Clock for Passing {
    fn now(&self) -> Time {
        self.pass(Span::from_micros(7))
    }

    fn pass_until(&self, deadline: Time) {
        self.0.fetch_max(deadline.as_nanos(), Ordering::Relaxed);
    }
}

/// Port to which packets come while it is read, a millisecond after one another.
struct Busy {
    clock: Passing,
    came_at: Arc<Mutex<Vec<Time>>>,
}

impl bentpipe_emu::Port for Busy {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut came_at = self.came_at.lock().expect("one thread");
        if came_at.len() == 200 {
            return Ok(None);
        }
        came_at.push(self.clock.pass(Span::from_millis(1)));
        buffer[..40].fill(1);
        Ok(Some(40))
    }

    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[test]
fn a_packet_that_comes_during_a_pass_enters_no_earlier_than_it_came() {
    let (mut network, gates) = network();
    let entered = watch(&mut network, gates[0], ExternalPort::OUTSIDE);
    let (clock, came_at) = (Passing::default(), Arc::new(Mutex::new(Vec::new())));
    let mut driver = Driver::new(network, clock.clone());
    driver.open(gates[0], Busy { clock, came_at: Arc::clone(&came_at) });
    driver.run(END, &AtomicBool::new(false));
    let (entered, came_at) = (taken(&entered), came_at.lock().expect("one thread").clone());
    assert_eq!(entered.len(), 200);
    for ((entered, _), came) in entered.iter().zip(&came_at) {
        let wait = *entered - *came;
        assert!(*entered >= *came && wait <= Span::from_micros(7), "came at {came}, entered at {entered}");
    }
}
