//! A path with two ends of a TCP connection: 1 Gbit/s and 1 ms at each end, a bottleneck with random loss between.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_net::{Cx, Element, Link, Observer, Packet, Port, link};
use bentpipe_sim::{Builder, ElementId, Network};
use bentpipe_transport::tcp::{Bulk, Config, Endpoint, Source};
use bentpipe_units::{Rate, Span, Time};

pub(crate) const IN: Port = Port(0);

/// Drops packets at random.
pub(crate) struct Loss(pub f64);

impl Element for Loss {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if !cx.stream().chance(self.0) {
            cx.emit(IN, packet);
        }
        Time::NEVER
    }
    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }
    fn observe(&mut self, _now: Time, _observer: &mut dyn Observer) {}
    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// The path.
#[derive(Clone)]
pub(crate) struct Path {
    pub(crate) rate: Rate,
    /// One way, of the bottleneck alone.
    pub(crate) delay: Span,
    /// Of data packets, behind the bottleneck.
    pub(crate) loss: f64,
    /// Packets in the bottleneck's queue.
    pub(crate) queue: u32,
    pub(crate) seed: u64,
    pub(crate) ipv6: bool,
}

impl Path {
    pub(crate) fn new(rate_bps: u64, delay_ms: u64) -> Path {
        let (rate, delay) = (Rate::from_bps(rate_bps), Span::from_millis(delay_ms));
        Path { rate, delay, loss: 0.0, queue: 100, seed: 1, ipv6: false }
    }

    /// The bandwidth-delay product in packets of `len` bytes.
    pub(crate) fn bdp_packets(&self, len: u64) -> u32 {
        (self.rate.bdp(self.delay * 2).get() / len).max(20) as u32
    }
}

/// The path with its ends.
pub(crate) struct Pair {
    pub(crate) network: Network,
    pub(crate) client: ElementId,
    pub(crate) server: ElementId,
}

fn link(rate: Rate, delay: Span, packets: u32) -> Link {
    let queue = Discipline::DropTail(DropTailConfig { packets: Some(packets), bytes: None });
    Link::new(&link::Config { rate: Some(rate), delay, queue, ..link::Config::default() }).expect("a link")
}

pub(crate) fn addresses(ipv6: bool) -> (SocketAddr, SocketAddr) {
    let parse = |text: &str| text.parse().expect("an address");
    match ipv6 {
        false => (parse("10.0.0.1:40000"), parse("10.0.0.2:5001")),
        true => (parse("[2001:db8::1]:40000"), parse("[2001:db8::2]:5001")),
    }
}

impl Pair {
    /// An endless bulk transfer from client to server.
    pub(crate) fn bulk(path: &Path, config: &Config) -> Pair {
        Pair::new(path, config, config, Source::Bulk(Bulk::default()))
    }

    pub(crate) fn new(path: &Path, client: &Config, server: &Config, source: Source) -> Pair {
        let (from, to) = addresses(path.ipv6);
        let client = Endpoint::active(client.clone(), from, to).expect("a client").with_source(source);
        let server = Endpoint::passive(server.clone(), to).expect("a server");
        Pair::of(path, client, server)
    }

    pub(crate) fn of(path: &Path, client: Endpoint, server: Endpoint) -> Pair {
        let mut builder = Builder::new(path.seed);
        let client = builder.add("client", client);
        let server = builder.add("server", server);
        let access = || link(Rate::from_bps(1_000_000_000), Span::from_millis(1), 100_000);
        for (name, from, to, loss) in [("there", client, server, path.loss), ("back", server, client, 0.0)] {
            let first = builder.add(format!("{name}/first"), access());
            let middle = builder.add(format!("{name}/middle"), link(path.rate, path.delay, path.queue));
            let last = builder.add(format!("{name}/last"), access());
            let mut chain = vec![from, first, middle];
            if loss > 0.0 {
                chain.push(builder.add(format!("{name}/loss"), Loss(loss)));
            }
            chain.extend([last, to]);
            chain.windows(2).for_each(|pair| builder.connect((pair[0], IN), (pair[1], IN)));
        }
        Pair { network: builder.build().expect("a network"), client, server }
    }

    pub(crate) fn run(&mut self, seconds: f64) -> &mut Pair {
        self.network.run_until(Time::ZERO + Span::from_secs_f64(seconds));
        self
    }

    pub(crate) fn values(&mut self, id: ElementId) -> HashMap<&'static str, f64> {
        let mut values = Values::default();
        self.network.observe(id, &mut values);
        values.0
    }

    /// Of the client.
    pub(crate) fn value(&mut self, name: &str) -> f64 {
        self.values(self.client)[name]
    }

    pub(crate) fn delivered(&mut self) -> f64 {
        self.values(self.server)["delivered-bytes"]
    }

    /// Bits delivered per second between two times.
    pub(crate) fn goodput(&mut self, from: f64, to: f64) -> f64 {
        let before = self.run(from).delivered();
        (self.run(to).delivered() - before) * 8.0 / (to - from)
    }
}

#[derive(Default)]
struct Values(HashMap<&'static str, f64>);

impl Observer for Values {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.0.insert(metric.name, total as f64);
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.0.insert(metric.name, value);
    }
}

/// Drops, doubles and delays packets at random; what is delayed is overtaken.
pub(crate) struct Chaos {
    pub(crate) drop: f64,
    pub(crate) double: f64,
    pub(crate) hold: f64,
    pub(crate) hold_for: Span,
    pub(crate) delay: Span,
    under_way: BTreeMap<(Time, u64), Packet>,
    count: u64,
}

impl Chaos {
    pub(crate) fn new(drop: f64, double: f64, hold: f64, hold_for: Span) -> Chaos {
        let delay = Span::from_millis(50);
        Chaos { drop, double, hold, hold_for, delay, under_way: BTreeMap::new(), count: 0 }
    }

    fn next(&self) -> Time {
        self.under_way.keys().next().map_or(Time::NEVER, |&(at, _)| at)
    }
}

impl Element for Chaos {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let copies =
            if cx.stream().chance(self.drop) { 0 } else { 1 + usize::from(cx.stream().chance(self.double)) };
        for _ in 0..copies {
            let held = if cx.stream().chance(self.hold) {
                self.hold_for.mul_f64(cx.stream().unit())
            } else {
                Span::ZERO
            };
            self.count += 1;
            self.under_way.insert((cx.now() + self.delay + held, self.count), packet.clone());
        }
        self.next()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= cx.now()) {
            cx.emit(IN, entry.remove());
        }
        self.next()
    }

    fn lookahead(&self) -> Span {
        self.delay
    }

    fn observe(&mut self, _now: Time, _observer: &mut dyn Observer) {}

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

impl Pair {
    /// Two ends with chaos between them.
    pub(crate) fn in_chaos(seed: u64, client: Endpoint, server: Endpoint, chaos: [Chaos; 2]) -> Pair {
        let mut builder = Builder::new(seed);
        let (client, server) = (builder.add("client", client), builder.add("server", server));
        let [there, back] = chaos;
        let (there, back) = (builder.add("there", there), builder.add("back", back));
        for (from, to) in [(client, there), (there, server), (server, back), (back, client)] {
            builder.connect((from, IN), (to, IN));
        }
        Pair { network: builder.build().expect("a network"), client, server }
    }

    pub(crate) fn endpoint(&mut self, id: ElementId) -> &mut Endpoint {
        self.network.element::<Endpoint>(id).expect("an endpoint")
    }
}
