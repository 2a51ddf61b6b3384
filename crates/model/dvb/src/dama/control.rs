//! Network control centre: requests in, a burst time plan each superframe out.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_net::{Cx, Element, InvalidConfig, Observer, Packet, Port};
use bentpipe_units::{Rate, Time};

use super::allocate::{Claim, Scheduler};
use super::burst::Head;
use super::demand::Contract;
use super::plan::{Entry, Placement};
use super::request::Request;
use super::{Allocation, Config, Frame};
use crate::dama::metrics;

/// Assigns the capacity of a set of carriers. Input 0 takes requests; at output n leaves what the plan has for terminal
/// n, when it arrives there, which is when its superframe starts.
///
/// A request's way to the centre is part of [`Frame::control_delay`], wherever the receiver that passes it on is.
pub struct ControlCentre {
    frame: Arc<Frame>,
    /// Structure that follows.
    following: Option<Arc<Frame>>,
    /// Structures for those that read plans.
    frames: Frames,
    contracts: Vec<Contract>,
    stations: Vec<Station>,
    scheduler: Scheduler,
    placement: Placement,
    /// Requests with the times of their arrival at the centre, in order.
    inbox: VecDeque<(Time, Head)>,
    /// Superframe of the next plan.
    next: u64,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    requests: u64,
    asked: u64,
    constant: u64,
    rate: u64,
    volume: u64,
    free: u64,
    last: u64,
    /// Units of all plans.
    units: u64,
}

/// State of a terminal at the centre.
#[derive(Debug)]
struct Station {
    /// Units of its continuous assignment, and its limits.
    constant: u32,
    most_rate: u32,
    most_volume: u32,
    free: bool,
    /// Requested rate, and the last superframe for which it holds.
    rate: Rate,
    rate_until: u64,
    /// Cells requested and not assigned.
    volume: u64,
}

impl ControlCentre {
    /// Creates a centre for terminals with these contracts, in the order of their numbers.
    ///
    /// # Errors
    /// Returns an error if the continuous assignments exceed the capacity.
    pub fn new(frame: &Arc<Frame>, contracts: &[Contract]) -> Result<ControlCentre, InvalidConfig> {
        let stations: Vec<Station> = contracts.iter().map(|contract| Station::new(contract, frame)).collect();
        let constant: u64 = stations.iter().map(|station| u64::from(station.constant)).sum();
        let fits = constant <= u64::from(frame.units());
        InvalidConfig::ensure(fits, "carriers", "room for the constant assignments (cra) of all terminals")?;
        Ok(ControlCentre {
            frame: Arc::clone(frame),
            following: None,
            frames: Frames::new(frame),
            contracts: contracts.to_vec(),
            scheduler: Scheduler::new(frame.units(), frame.scheduling(), stations.len()),
            stations,
            placement: Placement::new(frame),
            inbox: VecDeque::new(),
            next: 0,
            counts: Counts::default(),
        })
    }

    /// Returns the structures of the carriers, which follow changes.
    pub fn frames(&self) -> Frames {
        self.frames.clone()
    }

    /// Changes the structure from the first superframe on that begins after `now`.
    ///
    /// # Errors
    /// Returns the key whose value is not possible; nothing is changed then.
    pub fn set_frame(&mut self, now: Time, config: &Config) -> Result<(), InvalidConfig> {
        let frame = Frame::following(config, &self.frame, now)?;
        let constant: u64 = self.contracts.iter().map(|of| u64::from(of.constant_units(&frame))).sum();
        let fits = constant <= u64::from(frame.units());
        InvalidConfig::ensure(fits, "carriers", "room for the constant assignments (cra) of all terminals")?;
        let frame = Arc::new(frame);
        self.frames.add(&frame);
        self.following = Some(frame);
        Ok(())
    }

    /// Adopts the structure that begins with the next plan.
    fn follow(&mut self) {
        let next = self.next;
        let Some(frame) = self.following.take_if(|frame| frame.first() <= next) else { return };
        self.scheduler = Scheduler::new(frame.units(), frame.scheduling(), self.stations.len());
        self.placement = Placement::new(&frame);
        for (station, contract) in self.stations.iter_mut().zip(&self.contracts) {
            let Station { rate, rate_until, volume, .. } = *station;
            *station = Station { rate, rate_until, volume, ..Station::new(contract, &frame) };
        }
        self.frame = frame;
    }

    /// Sends the plan of the next superframe.
    fn plan(&mut self, cx: &mut Cx<'_>) {
        self.follow();
        self.counts.units += u64::from(self.frame.units());
        self.read();
        let superframe = self.next;
        let claims: Vec<Claim> =
            self.stations.iter().map(|station| station.claim(superframe, &self.frame)).collect();
        self.counts.asked =
            claims.iter().map(|claim| u64::from(claim.constant + claim.rate) + u64::from(claim.volume)).sum();
        let given = self.scheduler.share(&claims);
        self.count(&given);
        let slots = self.placement.place(given.iter().map(Allocation::total));
        let cells_of_unit = self.frame.cells_of_unit();
        for (n, ((station, &allocation), slots)) in
            self.stations.iter_mut().zip(&given).zip(slots).enumerate()
        {
            station.volume = station.volume.saturating_sub(u64::from(allocation.volume) * cells_of_unit);
            if !slots.is_empty() {
                cx.emit(Port(n as u16), Entry { superframe, allocation, slots }.packet());
            }
        }
        self.next += 1;
    }

    /// Processes the requests that are in time.
    fn read(&mut self) {
        let Some(cutoff) = self.frame.cutoff(self.next) else { return };
        let (frame, superframe) = (&self.frame, self.next);
        let stations = &mut self.stations;
        self.inbox.retain(|(at, head)| {
            if *at > cutoff {
                return true;
            }
            if let Some(station) = stations.get_mut(usize::from(head.terminal)) {
                head.requests.iter().for_each(|request| station.ask(*request, superframe, frame));
            }
            false
        });
    }

    fn count(&mut self, given: &[Allocation]) {
        let sum = |of: fn(&Allocation) -> u32| given.iter().map(|given| u64::from(of(given))).sum::<u64>();
        self.counts.constant += sum(|given| given.constant);
        self.counts.rate += sum(|given| given.rate);
        self.counts.volume += sum(|given| given.volume);
        self.counts.free += sum(|given| given.free);
        self.counts.last = sum(Allocation::total);
    }
}

/// Structures of a set of carriers in time, shared by all that read its plans.
#[derive(Clone, Debug)]
pub struct Frames(Arc<Mutex<Vec<Arc<Frame>>>>);

impl Frames {
    fn new(frame: &Arc<Frame>) -> Frames {
        Frames(Arc::new(Mutex::new(vec![Arc::clone(frame)])))
    }

    fn add(&self, frame: &Arc<Frame>) {
        let mut frames = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        frames.retain(|other| other.first() < frame.first());
        frames.push(Arc::clone(frame));
        // Plans are of the present superframe.
        let old = frames.len().saturating_sub(2);
        frames.drain(..old);
    }

    /// Returns the structure of a superframe.
    pub fn of(&self, superframe: u64) -> Option<Arc<Frame>> {
        let frames = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        frames.iter().rfind(|frame| frame.first() <= superframe).or(frames.first()).cloned()
    }
}

impl Station {
    fn new(contract: &Contract, frame: &Frame) -> Station {
        let [most_rate, most_volume] = contract.units_on_demand(frame);
        Station {
            constant: contract.constant_units(frame),
            most_rate,
            most_volume,
            free: contract.fca,
            rate: Rate::default(),
            rate_until: 0,
            volume: 0,
        }
    }

    fn ask(&mut self, request: Request, superframe: u64, frame: &Frame) {
        match request {
            Request::Rate(kbit_s) => {
                self.rate = Rate::from_bps(u64::from(kbit_s) * 1000);
                self.rate_until = superframe + u64::from(frame.timeout()) - 1;
            }
            Request::Volume(cells) => self.volume = self.volume.saturating_add(cells.into()),
            Request::AbsoluteVolume(cells) => self.volume = cells.into(),
        }
    }

    fn claim(&self, superframe: u64, frame: &Frame) -> Claim {
        let rate = if superframe <= self.rate_until { frame.units_for(self.rate) } else { 0 };
        let volume = u32::try_from(self.volume.div_ceil(frame.cells_of_unit())).unwrap_or(u32::MAX);
        Claim {
            constant: self.constant,
            rate: rate.saturating_sub(self.constant).min(self.most_rate),
            volume: volume.min(self.most_volume),
            free: self.free,
            most: frame.units_of_one(),
        }
    }
}

impl Element for ControlCentre {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if let Some(head) = Head::parse(&packet) {
            let at = (packet.created_at() + self.frame.control_delay()).max(cx.now());
            self.counts.requests += 1;
            self.inbox.push_back((at, head));
        }
        self.frame.superframe_start(self.next)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if self.frame.superframe_start(self.next) <= cx.now() {
            self.plan(cx);
        }
        self.frame.superframe_start(self.next)
    }

    /// Returns `true` if input reaches output at once, which is never. A request takes effect after a round trip at
    /// the earliest. The loop over a receiver includes the terminal's delay as well.
    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        let counts = &self.counts;
        let plans = counts.units.max(self.frame.units().into());
        observer.counter(&metrics::PLANS, self.next);
        observer.counter(&metrics::REQUESTS, counts.requests);
        observer.counter(&metrics::UNITS_CONSTANT, counts.constant);
        observer.counter(&metrics::UNITS_RATE, counts.rate);
        observer.counter(&metrics::UNITS_VOLUME, counts.volume);
        observer.counter(&metrics::UNITS_FREE, counts.free);
        observer.gauge(&metrics::UNITS_ASKED, counts.asked as f64);
        observer.gauge(&metrics::UNITS_ASSIGNED, counts.last as f64);
        let all = counts.constant + counts.rate + counts.volume + counts.free;
        observer.gauge(&metrics::SHARE_ASSIGNED, all as f64 / plans as f64);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
