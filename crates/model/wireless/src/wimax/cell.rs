//! The element: base station and subscriber stations of a cell.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use bentpipe_net::link::metrics as link_metrics;
use bentpipe_net::queue::Discipline;
use bentpipe_net::{Cx, Element, InvalidConfig, Observer, Packet, Port, Why};
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::wman::Cid;

use super::air::{AirLog, Area, Burst, Content, Recorder};
use super::arq::Done;
use super::config::{Cell, Convergence, PathConfig, RohcMode, Service, ServiceFlow};
use super::conn::{Conn, Mac};
use super::contend::Contention;
use super::metrics;
use super::overhead::Frame;
use super::plan::Plan;
use super::rohc::{self, Received};
use super::share::Claim;
use super::station::Station;

/// First basic connection of a station, which carries management messages.
const FIRST_BASIC_CID: usize = 1;

/// Refusal of a change of a direction that the cell does not have.
const NO_PATH: InvalidConfig = InvalidConfig::new("cell", "the cell of the path");

/// Error returned when a cell cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Number of the direction; `None` for the cell itself.
    pub path: Option<usize>,
    /// Part of the configuration: "medium" or "queue".
    pub part: &'static str,
    /// Key and expected value.
    pub impossible: InvalidConfig,
}

/// Expectations of feedback.
const NO_FEEDBACK: &str = "\"unidirectional\", or `rohc` in a service flow of the other direction";
const NO_WAY_BACK: &str = "a link with both directions, as feedback goes the other way";

/// First and last identifier of transport connections, above those that Wireshark takes as management's.
const FIRST_CID: usize = 0x2001;
const LAST_CID: usize = 0xfdff;

/// Direction of a link.
pub(super) struct Path {
    name: String,
    station: usize,
    pub(super) is_downlink: bool,
    pub(super) delay: Span,
    mtu: u64,
    /// Connections, in the order that they take packets.
    conns: Vec<usize>,
    delivered: u64,
    delivered_bytes: u64,
    too_big: u64,
}

/// Packet on its way, with a number that keeps the order of equal times.
pub(super) struct InFlight {
    pub(super) at: Time,
    pub(super) number: u64,
    pub(super) port: Port,
    pub(super) packet: Packet,
}

impl PartialEq for InFlight {
    fn eq(&self, other: &InFlight) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for InFlight {}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &InFlight) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InFlight {
    fn cmp(&self, other: &InFlight) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Symbols used since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) frames: u64,
    pub(super) downlink: u64,
    pub(super) maps: u64,
    pub(super) uplink: u64,
}

/// Buffers that frames reuse.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) claims: Vec<Claim>,
    pub(super) order: Vec<(usize, usize)>,
    pub(super) done: Vec<Done>,
    pub(super) requests: Vec<(u32, usize)>,
}

/// Cell of 802.16-2004 with OFDM-256. Input and output n belong to direction n.
pub struct Wimax {
    pub(super) config: Cell,
    pub(super) frame: Frame,
    pub(super) mac: Mac,
    pub(super) stations: Vec<Station>,
    pub(super) paths: Vec<Path>,
    pub(super) conns: Vec<Conn>,
    /// Connections of each direction, by service.
    pub(super) down: Vec<usize>,
    pub(super) up: Vec<usize>,
    /// Places in `up` of the connections of each service.
    pub(super) up_by: Vec<(Service, Range<usize>)>,
    /// Set for connections with anything to send, to ask for or to be granted. Frames leave others alone.
    pub(super) is_active: Vec<bool>,
    /// Stations whose channel changes from frame to frame.
    changing: Vec<usize>,
    has_processors: bool,
    /// Uplink connections of each station, by service.
    pub(super) up_of: Vec<Vec<usize>>,
    /// Uplink allocations of the frame to come, and of the present one.
    pub(super) next_plan: Plan,
    pub(super) plan: Plan,
    /// Connections with ARQ.
    arqs: Vec<usize>,
    /// Feedback of decompressors, with its time and the connection that carries it.
    feedback: Vec<(Time, usize, Packet)>,
    /// Start of the TDD uplink whose allocations are not executed yet.
    uplink_at: Option<Time>,
    pub(super) pipe: BinaryHeap<Reverse<InFlight>>,
    pub(super) in_flight: u64,
    /// Number of the next frame.
    frame_number: u64,
    descriptors_due: Time,
    pub(super) usage: Usage,
    pub(super) scratch: Scratch,
    /// Set once the cell is to wake for each frame.
    is_awake: bool,
    has_periodic: bool,
    recorder: Option<Box<Recorder>>,
}

impl Wimax {
    /// Creates a cell of these directions.
    ///
    /// # Errors
    /// Returns an error that names the invalid part.
    pub fn new(cell: &Cell, paths: &[PathConfig]) -> Result<Wimax, Refusal> {
        let of_cell = |impossible| Refusal { path: None, part: "", impossible };
        let frame = Frame::new(cell).map_err(of_cell)?;
        let mac = Mac::new(cell);
        let count = paths.iter().map(|path| path.station + 1).max().unwrap_or(0);
        let radio = |n| {
            paths.iter().find(|path| path.station == n).map(|path| path.radio.clone()).unwrap_or_default()
        };
        let duration = frame.phy.frame();
        let stations = (0..count).map(|n| Station::new(&radio(n), cell.margins, duration)).collect();
        let mut wimax = Wimax {
            config: cell.clone(),
            frame,
            mac,
            stations,
            paths: Vec::new(),
            conns: Vec::new(),
            down: Vec::new(),
            up: Vec::new(),
            up_by: Vec::new(),
            is_active: Vec::new(),
            changing: Vec::new(),
            has_processors: false,
            up_of: vec![Vec::new(); count],
            next_plan: Plan::default(),
            plan: Plan::default(),
            arqs: Vec::new(),
            feedback: Vec::new(),
            uplink_at: None,
            pipe: BinaryHeap::new(),
            in_flight: 0,
            frame_number: 0,
            descriptors_due: Time::ZERO,
            usage: Usage::default(),
            scratch: Scratch::default(),
            is_awake: false,
            has_periodic: false,
            recorder: None,
        };
        paths.iter().enumerate().try_for_each(|(n, path)| wimax.add_path(n, path))?;
        wimax.is_active = vec![false; wimax.conns.len()];
        wimax.has_processors = wimax.stations.iter().any(|station| station.sending.is_some());
        wimax.find_changing();
        wimax.order_connections();
        wimax.join_partners()?;
        Ok(wimax)
    }

    /// Records frames in a log, as the cell's configuration says.
    pub fn record(&mut self, log: &AirLog) {
        let recorder = |config| Box::new(Recorder::new(config, log.clone()));
        self.recorder = self.config.record.map(recorder);
    }

    /// Returns `true` if the present frame is recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.is_on)
    }

    /// Records an area of the present frame.
    pub(super) fn record_area(&self, is_downlink: bool, symbols: [f64; 2], content: Content) {
        if let Some(recorder) = &self.recorder {
            recorder.add(|frame| {
                let areas = if is_downlink { &mut frame.downlink } else { &mut frame.uplink };
                areas.push(Area { symbols, content });
            });
        }
    }

    /// Records the bytes of a burst of the present frame.
    pub(super) fn record_burst(&self, burst: Burst) {
        if let Some(recorder) = &self.recorder {
            recorder.add(|frame| frame.bursts.push(burst));
        }
    }

    /// Returns the identifier of a connection in a record.
    pub(super) fn cid(&self, conn: usize) -> Cid {
        cid(conn)
    }

    /// Returns the bytes of the PDUs that a connection made while it was recorded.
    pub(super) fn recorded(&mut self, conn: usize) -> Vec<Vec<u8>> {
        let (cid, has_crc) = (self.cid(conn), self.config.crc);
        let basic = Cid((FIRST_BASIC_CID + self.conns[conn].station) as u16);
        let pdus = self.conns[conn].record.take().unwrap_or_default();
        pdus.iter().map(|pdu| pdu.bytes(cid, basic, has_crc)).collect()
    }

    fn add_path(&mut self, number: usize, config: &PathConfig) -> Result<(), Refusal> {
        let refusal = |part| move |impossible| Refusal { path: Some(number), part, impossible };
        config.radio.check().map_err(refusal("medium"))?;
        let usual = [ServiceFlow::default()];
        let flows = if config.flows.is_empty() { &usual[..] } else { &config.flows };
        let mut conns = Vec::new();
        for (n, flow) in flows.iter().enumerate() {
            flow.check().map_err(refusal("medium"))?;
            conns.push(self.conns.len());
            let place = (number, cid(self.conns.len()));
            self.conns.push(Conn::new(place, config, n, flow, &self.mac).map_err(refusal("queue"))?);
        }
        let (name, station, is_downlink) = (config.name.clone(), config.station, config.is_downlink);
        self.paths.push(Path {
            name,
            station,
            is_downlink,
            delay: config.delay,
            mtu: config.mtu.get(),
            conns,
            delivered: 0,
            delivered_bytes: 0,
            too_big: 0,
        });
        Ok(())
    }

    /// Sorts connections by service, and spreads the nominal times of periodic grants over their intervals.
    fn order_connections(&mut self) {
        for n in 0..self.conns.len() {
            let list = if self.paths[self.conns[n].path].is_downlink { &mut self.down } else { &mut self.up };
            list.push(n);
        }
        let conns = &mut self.conns;
        for list in [&mut self.down, &mut self.up] {
            list.sort_by_key(|n| conns[*n].flow.service);
        }
        for n in &self.up {
            self.up_of[conns[*n].station].push(*n);
        }
        let service = |place: &usize| conns[self.up[*place]].flow.service;
        let places: Vec<usize> = (0..self.up.len()).collect();
        let of_service = places.chunk_by(|a, b| service(a) == service(b));
        self.up_by =
            of_service.map(|places| (service(&places[0]), places[0]..places[0] + places.len())).collect();
        let frame = self.frame.phy.frame();
        let periodic = self.up.iter().filter(|n| conns[**n].flow.service.is_periodic());
        let periodic: Vec<usize> = periodic.copied().collect();
        for (place, n) in periodic.iter().enumerate() {
            let frames = (conns[*n].flow.interval().as_nanos() / frame.as_nanos().max(1)).max(1);
            conns[*n].due = Time::ZERO + frame * (place as u64 % frames);
        }
        self.has_periodic = !periodic.is_empty();
    }

    /// Finds the connections that carry feedback of ARQ and of header compression.
    fn join_partners(&mut self) -> Result<(), Refusal> {
        for n in 0..self.conns.len() {
            let conn = &self.conns[n];
            let (number, path) = (conn.path, &self.paths[conn.path]);
            let refusal = |impossible| Refusal { path: Some(number), part: "medium", impossible };
            let other =
                |other: &&Path| other.station == path.station && other.is_downlink != path.is_downlink;
            let of_other = || self.paths.iter().filter(other).flat_map(|path| path.conns.iter().copied());
            let needs_rohc =
                conn.flow.rohc.as_ref().is_some_and(|rohc| rohc.mode != RohcMode::Unidirectional);
            let has_rohc = of_other().find(|n| self.conns[*n].rohc.is_some());
            InvalidConfig::ensure(!needs_rohc || has_rohc.is_some(), "rohc.mode", NO_FEEDBACK)
                .map_err(refusal)?;
            let fits = conn.rohc.is_none() || self.config.convergence == Convergence::Ip;
            InvalidConfig::ensure(fits, "rohc", "a cell with `convergence = \"ip\"`").map_err(refusal)?;
            let carrier = of_other().last();
            InvalidConfig::ensure(conn.arq.is_none() || carrier.is_some(), "arq", NO_WAY_BACK)
                .map_err(refusal)?;
            let has_arq = conn.arq.is_some();
            if has_arq {
                self.arqs.push(n);
            }
            let conn = &mut self.conns[n];
            (conn.carrier, conn.rohc_partner) =
                (carrier.filter(|_| has_arq), has_rohc.filter(|_| needs_rohc));
        }
        Ok(())
    }

    /// Applies the feedback of ARQ that came, and writes new feedback.
    fn begin_arq(&mut self, now: Time) {
        for place in 0..self.arqs.len() {
            let n = self.arqs[place];
            let Some(link) = &mut self.conns[n].arq else { continue };
            link.begin(now);
            let feedback = link.feedback(now);
            if let Some(carrier) = self.conns[n].carrier {
                self.is_active[carrier] |= feedback.is_some();
                self.conns[carrier].set_control(n, now, feedback);
            }
        }
    }

    /// Returns `true` if no ARQ has blocks or feedback on the way.
    #[cfg(test)]
    pub(super) fn arqs_are_idle(&self) -> bool {
        self.arqs.iter().all(|n| self.conns[*n].arq.as_ref().is_some_and(|link| !link.is_open()))
    }

    /// Queues feedback of header compression that is written by `now`.
    fn queue_feedback(&mut self, now: Time, stream: &mut RandomStream) {
        let due: Vec<_> = self.feedback.extract_if(.., |(at, ..)| *at <= now).collect();
        for (at, conn, packet) in due {
            self.is_active[conn] = true;
            self.conns[conn].enqueue(packet, &self.mac, at, stream);
        }
    }

    /// Does what comes before bursts that begin at `now`.
    fn prepare(&mut self, now: Time, stream: &mut RandomStream) {
        if self.has_processors {
            self.drain_processors(now, stream);
        }
        if !self.feedback.is_empty() {
            self.queue_feedback(now, stream);
        }
        if !self.arqs.is_empty() {
            self.begin_arq(now);
        }
        for (conn, is_active) in self.conns.iter_mut().zip(&self.is_active) {
            if *is_active {
                conn.refill(&self.mac, now);
            }
        }
    }

    /// Changes the mean SNR of a station in dB, downlink and uplink.
    ///
    /// # Errors
    /// Returns an error if the cell does not have the direction.
    pub fn set_snr(&mut self, path: usize, snr: [f64; 2]) -> Result<(), InvalidConfig> {
        let station = self.paths.get(path).ok_or(NO_PATH)?.station;
        self.stations[station].set_snr(snr);
        self.find_changing();
        Ok(())
    }

    fn find_changing(&mut self) {
        let stations = &self.stations;
        self.changing = (0..stations.len()).filter(|n| stations[*n].is_changing()).collect();
    }

    /// Changes the limits of a direction's queues from the next packet on.
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn set_queue(
        &mut self,
        now: Time,
        path: usize,
        discipline: &Discipline,
    ) -> Result<(), InvalidConfig> {
        let conns = &mut self.conns;
        self.paths
            .get(path)
            .ok_or(NO_PATH)?
            .conns
            .iter()
            .try_for_each(|n| conns[*n].queue().set(discipline, now))
    }

    pub(super) fn has_periodic(&self) -> bool {
        self.has_periodic
    }

    fn frame_start(&self, number: u64) -> Time {
        Time::ZERO + self.frame.phy.frame() * number
    }

    /// Queues a packet for its connection or for the station's processor.
    fn accept(&mut self, number: usize, packet: Packet, now: Time, stream: &mut RandomStream) {
        let Some(path) = self.paths.get_mut(number) else { return };
        if packet.len() as u64 > path.mtu {
            path.too_big += 1;
            return packet.lose(Why::TooBig);
        }
        let conn = match path.conns[..] {
            [only] => Some(only).filter(|n| self.conns[*n].flow.takes_all()),
            _ => path.conns.iter().copied().find(|n| self.conns[*n].flow.takes(&packet)),
        };
        let conn = conn.or(path.conns.last().copied()).unwrap_or_default();
        let processor = self.stations[path.station].sending.as_mut().filter(|_| !path.is_downlink);
        match processor {
            Some(processor) => processor.take(conn, packet, now),
            None => {
                self.is_active[conn] = true;
                self.conns[conn].accept(packet, &self.mac, now, stream);
            }
        }
    }

    /// Moves packets that processors are done with into the queues.
    fn drain_processors(&mut self, now: Time, stream: &mut RandomStream) {
        let (conns, mac) = (&mut self.conns, &self.mac);
        for processor in self.stations.iter_mut().filter_map(|station| station.sending.as_mut()) {
            while let Some((at, conn, packet)) = processor.done(now) {
                self.is_active[conn] = true;
                conns[conn].accept(packet, mac, at, stream);
            }
        }
    }

    /// Returns `true` if a frame has anything to do.
    fn is_busy(&mut self) -> bool {
        let mut is_busy = self.has_periodic || !self.next_plan.bursts.is_empty() || !self.feedback.is_empty();
        for n in 0..self.is_active.len() {
            if self.is_active[n] {
                let conn = &self.conns[n];
                let has_work = conn.is_busy() || conn.demand > 0;
                self.is_active[n] = has_work || conn.coming > 0 || conn.contention != Contention::Idle;
                is_busy |= has_work;
            }
        }
        is_busy || (self.has_processors && self.stations.iter().any(Station::is_busy))
    }

    /// Begins a frame at `now`.
    fn begin_frame(&mut self, now: Time, stream: &mut RandomStream) {
        self.usage.frames += 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(self.frame_number, now);
        }
        self.prepare(now, stream);
        for n in &self.changing {
            self.stations[*n].begin_frame(stream);
        }
        let start = self.frame.uplink_start(&self.config);
        let is_tdd = self.frame.is_tdd();
        let relevant = if is_tdd { now + start } else { now + self.frame.phy.frame() };
        std::mem::swap(&mut self.plan, &mut self.next_plan);
        self.plan_uplink(relevant);
        let allocations = self.next_plan.bursts.len();
        let has_descriptors = now >= self.descriptors_due;
        if has_descriptors {
            self.descriptors_due = now + self.config.descriptor_interval;
        }
        self.send_downlink(now, allocations, has_descriptors, stream);
        if is_tdd {
            std::mem::swap(&mut self.plan, &mut self.next_plan);
            self.uplink_at = Some(now + start);
        } else {
            self.send_uplink(now, stream);
        }
    }

    /// Does what is due at `now`.
    fn catch_up(&mut self, now: Time, stream: &mut RandomStream) {
        if let Some(at) = self.uplink_at.filter(|at| *at <= now) {
            self.uplink_at = None;
            self.prepare(at, stream);
            self.send_uplink(at, stream);
        }
        if self.is_awake && self.frame_start(self.frame_number) <= now {
            self.begin_frame(now, stream);
            self.frame_number += 1;
            self.is_awake = self.is_busy() || self.uplink_at.is_some();
        }
    }

    /// Asks for the next frame if there is anything for it.
    fn awaken(&mut self, now: Time) {
        if !self.is_awake {
            self.is_awake = true;
            let duration = self.frame.phy.frame().as_nanos();
            self.frame_number = self.frame_number.max(now.as_nanos().div_ceil(duration));
        }
    }

    fn deadline(&self) -> Time {
        let frame = if self.is_awake { self.frame_start(self.frame_number) } else { Time::NEVER };
        let arrival = self.pipe.peek().map_or(Time::NEVER, |Reverse(next)| next.at);
        frame.min(arrival).min(self.uplink_at.unwrap_or(Time::NEVER))
    }

    /// Schedules the arrival of a burst's packets at the end of their symbols.
    pub(super) fn arrive(&mut self, conn: usize, at: impl Fn(usize) -> Time, done: &mut Vec<Done>) {
        if !self.conns[conn].sent_control.is_empty() || self.conns[conn].arq.is_some() {
            self.settle(conn, &at);
        }
        if self.conns[conn].rohc.is_some() {
            self.decompress(conn, &at, done);
        }
        let path_number = self.conns[conn].path;
        let path = &self.paths[path_number];
        let receiving = self.stations[path.station].receiving.as_mut();
        let mut receiving = receiving.filter(|_| path.is_downlink);
        for Done { packet, end } in done.drain(..) {
            let arrival = at(end) + path.delay;
            let arrival = match &mut receiving {
                Some(processor) => processor.pass(arrival),
                None => Some(arrival),
            };
            let Some(at) = arrival else {
                packet.lose(Why::Queue);
                continue;
            };
            self.in_flight += 1;
            let (number, port) = (self.in_flight, Port(path_number as u16));
            self.pipe.push(Reverse(InFlight { at, number, port, packet }));
        }
    }

    /// Notes when blocks and feedback of a burst arrive.
    fn settle(&mut self, conn: usize, at: &impl Fn(usize) -> Time) {
        let delay = self.paths[self.conns[conn].path].delay;
        if let Some(link) = &mut self.conns[conn].arq {
            link.settle(|end| at(end) + delay);
        }
        for sent in std::mem::take(&mut self.conns[conn].sent_control) {
            if let Some(link) = &mut self.conns[sent.of].arq {
                link.report(sent.written, sent.bytes, sent.is_rest, sent.end.map(|end| at(end) + delay));
            }
        }
    }

    /// Restores packets at the receiver, in place.
    fn decompress(&mut self, n: usize, at: &impl Fn(usize) -> Time, done: &mut Vec<Done>) {
        let delay = self.paths[self.conns[n].path].delay;
        for Done { packet, end } in std::mem::take(done) {
            let now = at(end) + delay;
            let Some(rohc) = &mut self.conns[n].rohc else { return };
            let received = rohc.receive(packet, now);
            let written = rohc.take_feedback();
            match received {
                Received::Packet(packet) => done.push(Done { packet, end }),
                Received::Feedback(of, elements) => {
                    if let Some(rohc) = &mut self.conns[of].rohc {
                        rohc.await_feedback(now, elements);
                    }
                }
                Received::Nothing => {}
            }
            if let (Some(written), Some(partner)) = (written, self.conns[n].rohc_partner) {
                self.feedback.push((now, partner, rohc::feedback(n, written)));
            }
        }
    }

    fn observe_conn(&self, now: Time, (conn, is_downlink): (&Conn, bool), observer: &mut dyn Observer) {
        let (counts, station) = (&conn.counts, &self.stations[conn.station]);
        observer.counter(&metrics::PDUS_SENT, counts.pdus);
        observer.counter(&metrics::PDUS_LOST, counts.pdus_lost);
        observer.counter(&metrics::FRAGMENTS, counts.fragments);
        observer.counter(&metrics::DROPPED_ERRORS, counts.dropped_errors);
        observer.counter(&metrics::GRANTED, counts.granted);
        if conn.flow.slip_indicator {
            observer.counter(&metrics::SLIP_GRANTS, counts.slip_grants);
        }
        if let Some(phs) = &conn.phs {
            observer.counter(&metrics::PHS_SAVED, phs.saved);
            observer.counter(&metrics::PHS_UNMATCHED, phs.unmatched);
        }
        if let Some(rohc) = &conn.rohc {
            observer.counter(&metrics::ROHC_BEFORE, rohc.before);
            observer.counter(&metrics::ROHC_AFTER, rohc.after);
            observer.counter(&metrics::ROHC_FEEDBACK, rohc.feedback);
            observer.counter(&metrics::NOT_DECOMPRESSED, rohc.failed);
        }
        if let Some(link) = &conn.arq {
            observer.counter(&metrics::ARQ_BLOCKS, link.counts.blocks);
            observer.counter(&metrics::ARQ_AGAIN, link.counts.again);
            observer.counter(&metrics::ARQ_FEEDBACK, link.counts.feedback);
            observer.counter(&metrics::DROPPED_LIFETIME, link.counts.dropped);
        }
        let direction = if is_downlink { &station.down } else { &station.up };
        observer.gauge(&metrics::PROFILE, direction.profile.number() as f64);
        if !is_downlink {
            observer.counter(&metrics::DROPPED_REQUESTS, counts.dropped_requests);
            observer.counter(&metrics::REQUESTS, counts.requests);
            observer.counter(&metrics::REQUESTS_COLLIDED, counts.collided);
            observer.counter(&metrics::PIGGYBACKS, counts.piggybacks);
            observer.counter(&metrics::POLLS, counts.polls);
        }
        conn.queued().observe(now, observer);
        conn.queued().observe_classes(now, observer);
    }

    fn observe_path(&self, now: Time, path: &Path, observer: &mut dyn Observer) {
        observer.part(&path.name);
        observer.counter(&link_metrics::DELIVERED, path.delivered);
        observer.counter(&link_metrics::DELIVERED_BYTES, path.delivered_bytes);
        observer.counter(&link_metrics::DROPPED_TOO_BIG, path.too_big);
        let station = &self.stations[path.station];
        let processor = if path.is_downlink { &station.receiving } else { &station.sending };
        if let Some(processor) = processor {
            observer.counter(&metrics::DROPPED_RING, processor.dropped);
        }
        for n in &path.conns {
            let conn = &self.conns[*n];
            if conn.name != path.name {
                observer.part(&conn.name);
            }
            self.observe_conn(now, (conn, path.is_downlink), observer);
        }
    }
}

/// Returns the identifier of a connection in a record.
fn cid(conn: usize) -> Cid {
    Cid((FIRST_CID + conn).min(LAST_CID) as u16)
}

impl Element for Wimax {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.catch_up(now, cx.stream());
        self.accept(usize::from(port.0), packet, now, cx.stream());
        self.awaken(now);
        self.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        if self.has_periodic {
            self.awaken(now);
        }
        self.catch_up(now, cx.stream());
        while self.pipe.peek().is_some_and(|Reverse(next)| next.at <= now) {
            let Some(Reverse(InFlight { port, packet, .. })) = self.pipe.pop() else { break };
            let path = &mut self.paths[usize::from(port.0)];
            path.delivered += 1;
            path.delivered_bytes += packet.len() as u64;
            cx.emit(port, packet);
        }
        self.deadline()
    }

    /// Returns the least time: a preamble and a symbol.
    fn lookahead(&self) -> Span {
        self.frame.phy.symbols(2)
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        let frames = now.as_secs_f64() / self.frame.phy.frame().as_secs_f64();
        let share = |used: u64, all: u32| used as f64 / (frames * f64::from(all)).max(1.0);
        observer.counter(&metrics::FRAMES, self.usage.frames);
        observer.gauge(&metrics::DOWNLINK_USE, share(self.usage.downlink, self.frame.downlink));
        observer.gauge(&metrics::UPLINK_USE, share(self.usage.uplink, self.frame.uplink));
        let frame = self.frame.phy.frame().as_secs_f64();
        let busy = |used: u64, all: u32| frame * used as f64 / f64::from(all.max(1));
        observer.gauge(&metrics::DOWNLINK_BUSY, busy(self.usage.downlink, self.frame.downlink));
        observer.gauge(&metrics::UPLINK_BUSY, busy(self.usage.uplink, self.frame.uplink));
        observer.gauge(&metrics::MAP_SHARE, self.usage.maps as f64 / self.usage.downlink.max(1) as f64);
        self.paths.iter().for_each(|path| self.observe_path(now, path, observer));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
