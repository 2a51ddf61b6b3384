//! Traffic of TCP connections.

use bentpipe_cc::ControllerConfig;
use bentpipe_site::route::Route;
use bentpipe_site::{
    Ascent, Climbed, End, FlowAt, FlowEnds, FlowGround, FlowTakes, IpVersion, Opener, PathFacts, Problem,
    RealTraffic, TrafficKind, Window, header_len,
};
use bentpipe_units::{Bytes, Rate, Span, Time};
use bentpipe_wire::ip::Protocol;

use super::config::{Config, ReceiveBuffer};
use super::endpoint::Endpoint;
use super::ramp::{Climb, Ramp, ramp};
use super::receiver::QUICK_ACKS;
use super::window::Buffer;

/// Length of a TCP header without options.
const HEADER_LEN: u64 = 20;
/// Length of the timestamps option with its padding (RFC 7323 appendix A).
const TIMESTAMPS_LEN: u64 = 12;
/// Number of times in a tick at which a connection is forecast to begin.
const PHASES: u64 = 8;
/// Longest MSS: the longest IPv4 packet less 40.
const MAX_MSS: u64 = 65_495;

impl Config {
    /// Returns the most ACKs that release data before those of data do.
    ///
    /// An end that answers a SYN repeats its own with its timer and for each repeated one, and each has an ACK of the opener. In
    /// the other direction answers are SYNs, of which the first alone is accepted.
    fn first_acks(&self, route: &Route) -> u32 {
        if self.opened_by == Opener::Sender {
            return 1;
        }
        let round_trip = route.longest_trip();
        let (mut repeats, mut timeout) = (0, self.rto.initial);
        let mut at = timeout;
        while at <= round_trip && repeats < self.syn_retries {
            timeout = (timeout * 2).min(self.rto.max);
            (repeats, at) = (repeats + 1, at + timeout);
        }
        repeats.saturating_mul(2).saturating_add(1)
    }

    /// Returns the number of first segments that the receiver acknowledges one by one.
    ///
    /// The window of a SYN is not scaled. Where the buffer has room for much more, the first segment brings an update.
    fn alone(&self, smss: u64) -> u64 {
        let sayable = if self.window_scaling { u64::MAX } else { 0xffff };
        let buffer = Buffer::new(&self.receive_buffer, smss, sayable);
        let (space, unit) = (buffer.space(0), smss.min(buffer.clamp() / 2).max(1));
        let offered = space.min(0xffff).saturating_sub(smss);
        let is_far = space >= offered + unit && (offered < unit || space - offered >= buffer.clamp() / 2);
        // A receiver that opens the connection has sent an ACK before.
        let update = u64::from(is_far && self.opened_by == Opener::Sender);
        // Each segment that opens a window further has an ACK too.
        let opens = (buffer.clamp() - space).div_ceil(2 * smss.max(1));
        let quick = (space / (2 * smss.max(1))).clamp(2, QUICK_ACKS) + opens;
        if self.quick_acks { quick.max(update) } else { update }
    }
}

impl TrafficKind for Config {
    fn dscp(&self) -> Option<u8> {
        Some(0)
    }

    fn takes(&self) -> FlowTakes {
        FlowTakes { answers: true, application: true, ..FlowTakes::default() }
    }

    fn real(&self, _ip: IpVersion) -> Result<RealTraffic, &'static str> {
        match self.opened_by {
            Opener::Sender => Ok(RealTraffic::Connection { controller: self.controller.name() }),
            Opener::Receiver => Err("its receiver opens the connection"),
        }
    }

    /// Fills in the MSS: the path's MTU less the headers.
    fn resolve(&mut self, path: &mut dyn FnMut() -> Option<PathFacts>, is_given: &dyn Fn(&str) -> bool) {
        if is_given("mss") {
            return;
        }
        if let Some(PathFacts { ip, mtu }) = path() {
            let headers = header_len(ip, HEADER_LEN).get();
            self.mss = Bytes::new(mtu.get().saturating_sub(headers).min(MAX_MSS));
        }
    }

    fn header_len(&self) -> u64 {
        HEADER_LEN + if self.timestamps { TIMESTAMPS_LEN } else { 0 }
    }

    fn segment_len(&self) -> Option<u64> {
        Some(self.mss.get() + HEADER_LEN)
    }

    fn cuts(&self) -> bool {
        true
    }

    fn window(&self) -> Option<Window> {
        let receive = match self.receive_buffer {
            ReceiveBuffer::Exact(bytes) => bytes.get(),
            // Twice SO_RCVBUF is accounted for, all but 1/2^scale of it is offered.
            ReceiveBuffer::Linux(linux) => {
                let memory = linux.rcvbuf.get().saturating_mul(2);
                memory - (memory >> linux.adv_win_scale.min(63))
            }
        };
        let unscaled = if self.window_scaling { u64::MAX } else { 65_535 };
        let ends = [self.send_buffer.get(), receive].map(|end| Bytes::new(end.min(unscaled)));
        Some(Window { most: ends[0].min(ends[1]), initial: self.initial_window, ends })
    }

    /// Returns the rate of a controller that has a fixed one.
    fn offered(&self, _packet: Bytes) -> Option<Rate> {
        match &self.controller {
            ControllerConfig::Fixed(fixed) => Some(fixed.rate),
            _ => None,
        }
    }

    fn answers_per_packet(&self) -> f64 {
        1.0 / f64::from(self.ack_every.max(1))
    }

    fn ascend(&self, path: &Ascent) -> Option<Climbed> {
        // What a program or a router decides is not known before the run.
        if matches!(self.controller, ControllerConfig::Custom(_)) || self.quick_start.is_some() {
            return None;
        }
        let smss = u32::try_from(path.payload.get()).unwrap_or(u32::MAX).max(1);
        let connection = self.connection(smss, self.initial_window);
        let tick = if self.timestamps { self.timestamp_granularity } else { Span::ZERO };
        // Where a law ends slow start at a delay, the times of ticks decide when.
        let phases = if self.controller.ends_slow_start_by_delays() && !tick.is_zero() { PHASES } else { 1 };
        let burst = self.max_burst.unwrap_or(u32::MAX);
        let first = self.first_acks(&path.route);
        let climb = |phase: u64| {
            let path = Ramp {
                path: &path.route,
                smss,
                ack_every: self.ack_every,
                ack_delay: self.ack_delay,
                alone: self.alone(smss.into()),
                tick,
                phase: tick * phase / phases,
                times_one: !self.timestamps,
                burst,
                first_burst: burst.saturating_mul(first),
                target: path.window.get(),
                full: path.full.get(),
                most: self.window().map_or(u64::MAX, |window| window.most.get()),
                most_acks: path.most_acks / phases,
                data: path.data.map_or(u64::MAX, Bytes::get),
                lasts: path.lasts,
            };
            ramp(&mut *self.controller.build(&connection), &path)
        };
        let climbs: Vec<Climb> = (0..phases).map(climb).collect();
        let acks = climbs.iter().map(|climb| climb.acks).sum();
        // The fastest: what a forecast says is the most that may come.
        let late = |climb: &Climb| {
            let end = climb.end.map_or(f64::INFINITY, Span::as_secs_f64);
            end - path.fastest.span_of(Bytes::new(climb.arrived)).as_secs_f64()
        };
        let whole = climbs.iter().filter_map(|climb| climb.whole).min();
        let Climb { time, end, arrived, .. } =
            climbs.into_iter().min_by(|a, b| late(a).total_cmp(&late(b)))?;
        Some(Climbed { time, acks, end, arrived: Bytes::new(arrived), whole })
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let pair = ground.pair(at, Protocol::TCP, self.opened_by)?;
        let begin = Time::ZERO + at.start;
        // What only receives has no use for a rate.
        let config = Config { quick_start: None, ..self.clone() };
        let ends = match self.opened_by {
            Opener::Sender => Endpoint::active(self.clone(), pair.local, pair.remote)
                .and_then(|sender| Ok((sender, Endpoint::passive(config, pair.remote)?))),
            Opener::Receiver => Endpoint::passive(self.clone(), pair.local).and_then(|sender| {
                Ok((sender, Endpoint::active(config, pair.remote, pair.local)?.starting_at(begin)))
            }),
        };
        let (sender, receiver) = ends.map_err(|error| at.impossible("", &error))?;
        let lasts = at.stop.map(|stop| stop.saturating_sub(at.start));
        let sender = sender.with_source(at.application.lasting(lasts)).starting_at(begin);
        Ok(FlowEnds {
            sender: End::switchable(sender, pair.sender),
            receivers: vec![End::new(receiver, pair.receiver)],
            judges: Vec::new(),
        })
    }
}
