//! Hosts on one switch each, the two switches joined by a trunk: n sources at one side, n destinations at the other.

#![allow(dead_code, reason = "the benchmarks use another part")]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bentpipe_atm::interface::LINE;
use bentpipe_atm::switch::Contract;
use bentpipe_atm::{
    Channel, Content, Coupling, Interface, Rates, Service, Switch, Vc, abr, line, receive, switch, vsvd,
};
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_sim::{Builder, ElementId, Network};
use bentpipe_transport::app::metrics;
use bentpipe_transport::tcp::{self, Bulk, Endpoint, Source};
use bentpipe_units::{Bytes, Rate, Span, Time};

/// The OC-3 line of seed 004.
pub(crate) const OC3: Rate = Rate::from_bps(155_520_000);

/// What the hosts do.
#[derive(Clone)]
pub(crate) enum Load {
    /// A packet of 560 bytes whenever the interface has fewer than a few waiting; hosts by their number start so late.
    Greedy(fn(usize) -> Span),
    /// A TCP connection.
    Tcp(Box<tcp::Config>),
}

/// The network.
#[derive(Clone)]
pub(crate) struct Path {
    pub(crate) sources: usize,
    pub(crate) rate: Rate,
    /// Propagation from host to switch, switch to switch, switch to host.
    pub(crate) delays: [Span; 3],
    pub(crate) service: fn(usize) -> Service,
    pub(crate) switch: switch::Config,
    /// How fast destination number n takes what it receives.
    pub(crate) receive: fn(usize) -> Option<receive::Config>,
    /// A box in front of the first switch's port where each source's loop ends and another one begins.
    pub(crate) vsvd: Option<vsvd::Config>,
    pub(crate) load: Load,
    /// Minimum rates of the first sources, in bits per second.
    pub(crate) minima: &'static [u64],
    /// Rates of a source of VBR cells.
    pub(crate) background: Option<fn() -> Vec<Rates>>,
    pub(crate) adjust: Adjust,
}

/// Changes to elements before they are wired.
#[derive(Clone)]
pub(crate) struct Adjust {
    pub(crate) interface: fn(&mut Interface),
    pub(crate) switch: fn(&mut Switch),
    pub(crate) coupling: fn(&mut Coupling),
}

impl Adjust {
    /// No change.
    pub(crate) const NONE: Adjust = Adjust { interface: |_| (), switch: |_| (), coupling: |_| () };
}

/// ABR as seed 004 has it.
pub(crate) fn seed_abr(_: usize) -> Service {
    Service::Abr(abr::Config {
        pcr: Some(OC3),
        icr: Some(Rate::from_bps(10_000_000)),
        rif: 1.0,
        rdf: 1.0 / 512.0,
        tbe: 512,
        cdf: 0.0,
        ..abr::Config::default()
    })
}

/// ERICA+ as seed 004 has it.
pub(crate) fn seed_switch() -> switch::Config {
    let abr = switch::Algorithm::EricaPlus {
        queue: Default::default(),
        fairness: Default::default(),
        measure: Default::default(),
    };
    switch::Config { abr, ..switch::Config::default() }
}

impl Path {
    /// The WAN of seed 004 without background.
    pub(crate) fn wan(sources: usize) -> Path {
        Path {
            sources,
            rate: OC3,
            delays: [Span::from_millis(5); 3],
            service: seed_abr,
            switch: seed_switch(),
            receive: |_| None,
            vsvd: None,
            load: Load::Greedy(|_| Span::ZERO),
            minima: &[],
            background: None,
            adjust: Adjust::NONE,
        }
    }

    /// Wires it up.
    pub(crate) fn build(&self) -> World {
        let mut builder = Builder::new(7);
        let line = |delay| line::Config { rate: self.rate, delay };
        let [access, trunk, exit] = self.delays;
        let mut near = Switch::new(&self.switch);
        let mut far = Switch::new(&self.switch);
        let count = self.sources + usize::from(self.background.is_some());
        let add = |switch: &mut Switch, path: String, delay| switch.add_port(path, &line(delay)).unwrap();
        // With a box between, the line from host to switch is in two parts, the second one without delay.
        let of_port = |n| if self.is_boxed(n) { Span::ZERO } else { access };
        let near_ports: Vec<Port> =
            (0..count).map(|n| add(&mut near, format!("link/access.{n}/return"), of_port(n))).collect();
        let near_trunk = add(&mut near, "link/trunk/forward".into(), trunk);
        let far_ports: Vec<Port> =
            (0..count).map(|n| add(&mut far, format!("link/exit.{n}/forward"), exit)).collect();
        let far_trunk = add(&mut far, "link/trunk/return".into(), trunk);
        for n in 0..count {
            let service = if n < self.sources { self.service_of(n) } else { Service::Vbr { pcr: None } };
            let has_pdus = n < self.sources;
            let contract = Contract { class: service.class(), has_pdus, guarantee: service.guarantee() };
            near.connect((near_ports[n], vc(n)), (near_trunk, vc(n)), contract);
            far.connect((far_trunk, vc(n)), (far_ports[n], vc(n)), contract);
        }
        [&mut near, &mut far].into_iter().for_each(self.adjust.switch);
        let (near, far) = (builder.add("near", near), builder.add("far", far));
        builder.connect((near, near_trunk), (far, far_trunk));
        builder.connect((far, far_trunk), (near, near_trunk));
        let mut world = World {
            network: None,
            near,
            far,
            near_trunk,
            boxes: Vec::new(),
            ends: Vec::new(),
            senders: Vec::new(),
            receivers: Vec::new(),
        };
        for n in 0..count {
            let (left, right) = match self.background {
                Some(rates) if n == self.sources => (Content::Streams(rates()), Content::Sink),
                _ => (Content::Packets(Default::default()), Content::Packets(Default::default())),
            };
            let a = self.end(n, "access", (near, near_ports[n]), left, &mut builder, &mut world.boxes);
            let b = self.end(n, "exit", (far, far_ports[n]), right, &mut builder, &mut world.boxes);
            world.ends.push((a, b));
            if n == self.sources {
                continue;
            }
            let (sender, receiver) = self.hosts(n, &mut builder);
            for (end, host) in [(a, sender), (b, receiver)] {
                builder.connect((end, Port(1)), (host, Port(0)));
                builder.connect((host, Port(0)), (end, Port(1)));
            }
            world.senders.push(sender);
            world.receivers.push(receiver);
        }
        world.network = Some(builder.build().unwrap());
        world
    }

    /// Returns the service of a source, with its minimum rate.
    fn service_of(&self, n: usize) -> Service {
        match (self.service)(n) {
            Service::Abr(config) => {
                let mcr = self.minima.get(n).map_or(config.mcr, |mcr| Rate::from_bps(*mcr));
                Service::Abr(abr::Config { mcr, icr: config.icr.map(|icr| icr.max(mcr)), ..config })
            }
            other => other,
        }
    }

    /// Whether a box is between the host of a source and its switch.
    fn is_boxed(&self, n: usize) -> bool {
        self.vsvd.is_some() && n < self.sources
    }

    /// Adds the interface of a host, and what is between it and its switch.
    fn end(
        &self,
        n: usize,
        side: &str,
        switch: (ElementId, Port),
        content: Content,
        builder: &mut Builder,
        boxes: &mut Vec<ElementId>,
    ) -> ElementId {
        let delay = self.delays[if side == "access" { 0 } else { 2 }];
        let config = line::Config { rate: self.rate, delay };
        let mut interface = Interface::new(format!("link/{side}.{n}/host"), &config).unwrap();
        let service = if n < self.sources { self.service_of(n) } else { Service::Vbr { pcr: None } };
        let path = format!("vc/{n}/{side}");
        let receive = (self.receive)(n).filter(|_| side == "exit");
        interface.add(Channel { path, vc: vc(n), service, content, limit: None, receive }).unwrap();
        (self.adjust.interface)(&mut interface);
        let interface = builder.add(format!("interface/{side}.{n}"), interface);
        let mut at = (interface, LINE);
        if side == "access" && self.is_boxed(n) {
            let boxed = builder.add(format!("box/{n}"), self.coupling(n, delay));
            boxes.push(boxed);
            builder.connect(at, (boxed, Port(0)));
            builder.connect((boxed, Port(0)), at);
            at = (boxed, Port(1));
        }
        builder.connect(at, switch);
        builder.connect(switch, at);
        interface
    }

    /// The box of number `n`, on a line of this delay to its host.
    fn coupling(&self, n: usize, delay: Span) -> Coupling {
        let lines = [delay, Span::ZERO].map(|delay| line::Config { rate: self.rate, delay });
        let paths = ["return", "forward"].map(|way| format!("link/box.{n}/{way}"));
        let config = self.vsvd.unwrap_or_default();
        let mut coupling = Coupling::new(&config, paths, lines.each_ref()).unwrap();
        let paths = ["back", "on"].map(|way| format!("vc/{n}/box/{way}"));
        coupling.connect(vc(n), &self.service_of(n), paths).unwrap();
        (self.adjust.coupling)(&mut coupling);
        coupling
    }

    /// What sends and what receives at number `n`.
    fn hosts(&self, n: usize, builder: &mut Builder) -> (ElementId, ElementId) {
        let (sender, receiver): (Box<dyn Element>, Box<dyn Element>) = match &self.load {
            Load::Greedy(start) => (Box::new(Greedy::new(start(n))), Box::new(Sink::default())),
            Load::Tcp(config) => {
                let address = |side: u8| SocketAddr::from(([10, side, 0, n as u8], 5000));
                let sender = Endpoint::active((**config).clone(), address(0), address(1)).unwrap();
                let sender = sender.with_source(Source::Bulk(Bulk::default()));
                let receiver = Endpoint::passive((**config).clone(), address(1)).unwrap();
                (Box::new(sender), Box::new(receiver))
            }
        };
        let sender = builder.add_boxed(format!("sender/{n}"), sender);
        (sender, builder.add_boxed(format!("receiver/{n}"), receiver))
    }
}

/// The network and what is where in it.
pub(crate) struct World {
    network: Option<Network>,
    pub(crate) near: ElementId,
    pub(crate) far: ElementId,
    pub(crate) near_trunk: Port,
    pub(crate) boxes: Vec<ElementId>,
    pub(crate) ends: Vec<(ElementId, ElementId)>,
    pub(crate) senders: Vec<ElementId>,
    pub(crate) receivers: Vec<ElementId>,
}

impl World {
    pub(crate) fn network(&mut self) -> &mut Network {
        self.network.as_mut().unwrap()
    }

    pub(crate) fn into_network(self) -> Network {
        self.network.unwrap()
    }

    pub(crate) fn run_ms(&mut self, millis: u64) {
        self.network().run_until(Time::ZERO + Span::from_millis(millis));
    }

    /// What all elements report, by path and name.
    pub(crate) fn values(&mut self) -> BTreeMap<(String, &'static str), f64> {
        let mut values = Values::default();
        let network = self.network();
        for id in network.ids() {
            values.part = network.path(id).to_owned();
            network.observe(id, &mut values);
        }
        values.found
    }

    pub(crate) fn value(&mut self, part: &str, name: &'static str) -> f64 {
        self.values()[&(part.to_owned(), name)]
    }

    /// Hashes over all cells of every line, and when each arrives.
    pub(crate) fn digests(&mut self) -> Vec<u64> {
        let (near, far, ports) = (self.near, self.far, self.ends.len() as u16 + 1);
        let mut digests = Vec::new();
        for switch in [near, far] {
            let switch: &mut Switch = self.network().element(switch).unwrap();
            digests.extend((0..ports).map(|port| switch.digest(Port(port))));
        }
        for (a, b) in self.ends.clone() {
            digests.extend([a, b].map(|id| self.network().element::<Interface>(id).unwrap().digest()));
        }
        for id in self.boxes.clone() {
            let coupling = self.network().element::<Coupling>(id).unwrap();
            digests.extend([0, 1].map(|side| coupling.digest(Port(side))));
        }
        digests
    }
}

/// What elements report, by path and name.
#[derive(Default)]
pub(crate) struct Values {
    part: String,
    pub(crate) found: BTreeMap<(String, &'static str), f64>,
}

impl Observer for Values {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.found.insert((self.part.clone(), metric.name), total as f64);
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.found.insert((self.part.clone(), metric.name), value);
    }
    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.part);
    }
}

/// Gives its interface a packet of TCP's length every 40 us: more than any line here takes.
pub(crate) struct Greedy {
    start: Span,
}

impl Greedy {
    pub(crate) fn new(start: Span) -> Greedy {
        Greedy { start }
    }
}

impl Element for Greedy {
    fn receive(&mut self, _port: Port, _packet: Packet, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }
    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let start = Time::ZERO + self.start;
        if cx.now() < start {
            return start;
        }
        let mut packet = Packet::new(20, 532);
        packet.header_mut()[0] = 0x45;
        cx.emit(Port(0), packet);
        cx.now() + Span::from_micros(30)
    }
    fn lookahead(&self) -> Span {
        Span::from_micros(30)
    }
    fn observe(&mut self, _now: Time, _observer: &mut dyn Observer) {}
    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Counts.
#[derive(Default)]
pub(crate) struct Sink {
    packets: u64,
}

impl Element for Sink {
    fn receive(&mut self, _port: Port, _packet: Packet, _cx: &mut Cx<'_>) -> Time {
        self.packets += 1;
        Time::NEVER
    }
    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }
    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::PACKETS, self.packets);
    }
    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// TCP as seed 004 has it, with this window.
pub(crate) fn seed_tcp(window: u64) -> Load {
    let config = tcp::Config {
        mss: Bytes::new(512),
        send_buffer: Bytes::new(2 * window),
        receive_buffer: tcp::ReceiveBuffer::Exact(Bytes::new(window)),
        timestamps: false,
        ack_every: 1,
        ..tcp::Config::default()
    };
    Load::Tcp(Box::new(config))
}

/// The channel of a source.
fn vc(n: usize) -> Vc {
    Vc::new(32 + n as u16).unwrap()
}
