//! Uplink of a frame: grants of the base station, bursts of the stations, requests.

use bentpipe_units::{RandomStream, Time};
use bentpipe_wire::wman::{Grant, HEADER_LEN};

use super::air::{self, Burst as AirBurst, Content};
use super::cell::Wimax;
use super::config::{Cell, Scheduler, Service};
use super::conn::Blocks;
use super::contend::{Attempt, Contention};
use super::phy::{Profile, SHORT_PREAMBLE};
use super::plan::{Burst, Plan};
use super::share::{Claim, share};

impl Wimax {
    fn up_profile(&self, conn: usize) -> Profile {
        self.stations[self.conns[conn].station].up.profile
    }

    /// Grants the uplink that begins at `relevant`.
    pub(super) fn plan_uplink(&mut self, relevant: Time) {
        let mut plan = std::mem::take(&mut self.next_plan);
        plan.clear(self.stations.len(), self.frame.uplink_room());
        for n in self.up.iter().filter(|n| self.is_active[**n]) {
            self.conns[*n].coming = 0;
        }
        if self.has_periodic() {
            self.grant_periodic(relevant, &mut plan);
        }
        for of_service in 0..self.up_by.len() {
            if self.up_by[of_service].0 != Service::Ugs {
                self.grant_demands(of_service, &mut plan);
            }
        }
        self.next_plan = plan;
    }

    /// Grants and polls of services that need not ask.
    fn grant_periodic(&mut self, relevant: Time, plan: &mut Plan) {
        for place in 0..self.up.len() {
            let n = self.up[place];
            let (service, interval) = (self.conns[n].flow.service, self.conns[n].flow.interval());
            if !service.is_periodic() {
                continue;
            }
            let mut due = 0;
            while self.conns[n].due <= relevant {
                self.conns[n].due += interval;
                due += 1;
            }
            if due == 0 {
                continue;
            }
            due += self.conns[n].extra_grants(due);
            let (is_poll, bytes) = match service {
                Service::Ugs => (false, self.ugs_grant(n) * due),
                Service::ErtPs => (self.conns[n].grant_size <= HEADER_LEN, self.conns[n].grant_size * due),
                Service::RtPs | Service::NrtPs | Service::Be => (true, HEADER_LEN),
            };
            self.grant(n, bytes, is_poll, plan);
        }
    }

    /// Returns the bytes of an unsolicited grant: a PDU with one SDU.
    fn ugs_grant(&self, n: usize) -> usize {
        let flow = &self.conns[n].flow;
        self.mac.pdu_len_of(flow, flow.sdu.get() as usize)
    }

    /// Grants bytes to one connection, as far as there is room.
    fn grant(&mut self, n: usize, bytes: usize, is_poll: bool, plan: &mut Plan) {
        let station = self.conns[n].station;
        let symbols = plan.preamble(station) + self.up_profile(n).symbols(bytes);
        if symbols > plan.left {
            return;
        }
        plan.add(station, symbols);
        let conn = &mut self.conns[n];
        conn.counts.granted += bytes as u64;
        if is_poll {
            conn.counts.polls += 1;
            plan.polled.push(n);
        } else {
            conn.coming += bytes;
            self.is_active[n] = true;
        }
    }

    /// Grants what connections of a service asked for.
    fn grant_demands(&mut self, of_service: usize, plan: &mut Plan) {
        let mut claims = std::mem::take(&mut self.scratch.claims);
        claims.clear();
        let is_fair = self.config.scheduler == Scheduler::ProportionalFair;
        for &n in &self.up[self.up_by[of_service].1.clone()] {
            if !is_fair && !self.is_active[n] {
                continue;
            }
            let conn = &mut self.conns[n];
            if is_fair {
                conn.served *= 0.99;
            }
            if conn.demand == 0 {
                continue;
            }
            let profile = self.stations[conn.station].up.profile;
            let rank = match self.config.scheduler {
                Scheduler::RoundRobin => 0.0,
                Scheduler::ProportionalFair => conn.served / profile.bytes() as f64,
                Scheduler::Deadline => (conn.asked_at + conn.flow.latency).since(Time::ZERO).as_secs_f64(),
            };
            let preamble = plan.preamble(conn.station);
            let demand = u64::from(preamble + profile.symbols(conn.demand));
            let turn = u64::from(preamble + profile.symbols(self.mac.pdu_len(1500)));
            claims.push(Claim { conn: n, demand, turn, rank, granted: 0 });
        }
        share(self.config.scheduler, &mut claims, self.usage.frames as usize, u64::from(plan.left));
        for claim in &claims {
            self.give(*claim, plan);
        }
        self.scratch.claims = claims;
    }

    /// Adds a claim's symbols to the plan; a preamble alone would be wasted.
    fn give(&mut self, claim: Claim, plan: &mut Plan) {
        let (symbols, profile) = (claim.granted as u32, self.up_profile(claim.conn));
        let conn = &mut self.conns[claim.conn];
        let preamble = plan.preamble(conn.station);
        if symbols <= preamble {
            return;
        }
        let bytes = profile.capacity(symbols - preamble).min(conn.demand);
        plan.add(conn.station, symbols);
        conn.demand -= bytes;
        conn.coming += bytes;
        conn.served += bytes as f64;
        conn.counts.granted += bytes as u64;
    }

    /// Executes the allocations of the uplink that begins at `start`.
    pub(super) fn send_uplink(&mut self, start: Time, stream: &mut RandomStream) {
        let mut plan = std::mem::take(&mut self.plan);
        let mut symbol = self.frame.contention_end();
        for burst in &plan.bursts {
            self.send_burst(*burst, &plan, (start, symbol), stream);
            symbol += burst.symbols;
        }
        self.usage.uplink += u64::from(symbol);
        self.contend(start, stream);
        plan.bursts.clear();
        self.plan = plan;
    }

    /// Fills a station's burst: answers to polls, then its connections by service.
    fn send_burst(
        &mut self,
        burst: Burst,
        plan: &Plan,
        (start, first): (Time, u32),
        stream: &mut RandomStream,
    ) {
        let station = &self.stations[burst.station];
        let profile = station.up.profile;
        let mut blocks = Blocks::new(profile.bytes(), station.up.loss);
        let room = profile.capacity(burst.symbols - SHORT_PREAMBLE);
        let (is_recorded, mut pdus) = (self.is_recorded(), Vec::new());
        let mut done = std::mem::take(&mut self.scratch.done);
        let mut at = 0;
        for &n in &plan.polled {
            if self.conns[n].station == burst.station {
                let asked = self.answer_poll(n, start, room - at);
                if is_recorded && asked > 0 {
                    pdus.push(air::request(self.cid(n), self.conns[n].demand));
                }
                at += asked;
            }
        }
        for place in 0..self.up_of[burst.station].len() {
            let n = self.up_of[burst.station][place];
            if !self.conns[n].is_backlogged() {
                continue;
            }
            let (mac, coming) = (self.mac, self.coming_later(n));
            let conn = &mut self.conns[n];
            let need = conn.need(&mac);
            let waits = need > room - at + coming;
            let asks = self.config.piggyback && conn.flow.service != Service::Ugs && waits;
            let indicates = conn.flow.slip_indicator;
            let lost_before = conn.counts.pdus_lost;
            conn.record = is_recorded.then(Vec::new);
            let end = conn.fill((at, room), asks || indicates, &mac, (start, stream), &mut blocks, &mut done);
            if indicates && end > at && conn.counts.pdus_lost == lost_before {
                conn.slips = waits;
            }
            if asks && end > at && conn.counts.pdus_lost == lost_before {
                conn.counts.piggybacks += 1;
                conn.demand = conn.need(&mac).saturating_sub(coming);
                conn.asked_at = start;
                let attempt = Attempt::first(self.config.request_backoff);
                conn.contention = Contention::Waiting(attempt, start + self.config.grant_timeout);
            } else if end > at {
                conn.contention = Contention::Idle;
            }
            if end > at {
                conn.sent_at = start;
            }
            if conn.flow.service == Service::ErtPs {
                conn.grant_size = need.max(HEADER_LEN);
            }
            let phy = self.frame.phy;
            if is_recorded {
                let subheader = match (asks, indicates) {
                    (true, _) => Some(Grant::Piggyback(air::piggyback(self.conns[n].need(&mac)))),
                    (_, true) => Some(Grant::Ugs { slip: waits, poll_me: false }),
                    _ => None,
                };
                pdus.extend(self.recorded_uplink(n, subheader));
            }
            let arrival = |end: usize| start + phy.symbols(first + SHORT_PREAMBLE + profile.symbols(end));
            self.arrive(n, arrival, &mut done);
            at = end;
        }
        self.shrink_grants(burst.station);
        self.scratch.done = done;
        if is_recorded {
            let (station, data) = (burst.station, first + SHORT_PREAMBLE);
            self.record_area(false, [first, data].map(f64::from), Content::Preamble);
            let content = Content::Burst { station, profile };
            self.record_area(false, [data, first + burst.symbols].map(f64::from), content);
            if !pdus.is_empty() {
                let at = start + self.frame.phy.symbols(data);
                self.record_burst(AirBurst { at, station, is_downlink: false, pdus });
            }
        }
    }

    /// Returns the bytes of a connection's PDUs, the first with its grant management subheader.
    fn recorded_uplink(&mut self, n: usize, subheader: Option<Grant>) -> Vec<Vec<u8>> {
        let first = self.conns[n].record.as_mut().and_then(|record| record.first_mut());
        if let (Some(first), Some(subheader)) = (first, subheader) {
            first.grant = Some(subheader.field());
        }
        self.recorded(n)
    }

    /// Returns the bytes that a map already grants for a frame after the present one.
    fn coming_later(&self, n: usize) -> usize {
        if self.frame.is_tdd() { 0 } else { self.conns[n].coming }
    }

    /// Answers a poll with a request for all that waits, and returns its bytes.
    fn answer_poll(&mut self, n: usize, now: Time, room: usize) -> usize {
        let coming = self.coming_later(n);
        let conn = &mut self.conns[n];
        let need = conn.need(&self.mac).saturating_sub(coming);
        if need == 0 || room < HEADER_LEN {
            return 0;
        }
        conn.demand = need;
        conn.asked_at = now;
        if conn.flow.service == Service::ErtPs {
            conn.grant_size = need;
        }
        HEADER_LEN
    }

    /// Shrinks the grants of ertPS connections without packets to a request.
    fn shrink_grants(&mut self, station: usize) {
        for &n in &self.up_of[station] {
            let conn = &mut self.conns[n];
            let silent =
                conn.station == station && conn.flow.service == Service::ErtPs && !conn.is_backlogged();
            if silent && conn.counts.pdus == conn.pdus_at_grant {
                conn.grant_size = HEADER_LEN;
            }
            conn.pdus_at_grant = conn.counts.pdus;
        }
    }

    /// Processes contention of connections with packets and without a grant for request slots.
    fn contend(&mut self, now: Time, stream: &mut RandomStream) {
        let mut requests = std::mem::take(&mut self.scratch.requests);
        requests.clear();
        for place in 0..self.up.len() {
            let n = self.up[place];
            if !self.is_active[n] {
                continue;
            }
            if let Some(slot) = self.pass_slots(n, now, stream) {
                requests.push((slot, n));
            }
        }
        for (slot, n) in &requests {
            let alone = requests.iter().filter(|(other, _)| other == slot).count() == 1;
            let loss = Profile::Bpsk12.block_error(self.stations[self.conns[*n].station].up.mean);
            let received = alone && !stream.chance(if loss < 1e-9 { 0.0 } else { loss });
            let coming = self.coming_later(*n);
            let conn = &mut self.conns[*n];
            conn.counts.requests += 1;
            conn.counts.collided += u64::from(!alone);
            if received {
                conn.demand = conn.need(&self.mac).saturating_sub(coming);
                conn.asked_at = now;
            }
        }
        if self.is_recorded() {
            self.record_contention(now, &requests);
        }
        self.scratch.requests = requests;
    }

    /// Records ranging, the request slots, and the requests that did not collide.
    fn record_contention(&self, start: Time, requests: &[(u32, usize)]) {
        let slots = self.config.request_slots;
        let first = self.frame.contention_end() - slots * self.frame.slot;
        if first > 0 {
            self.record_area(false, [0.0, first.into()], Content::Ranging);
        }
        for slot in 0..slots {
            let from = first + slot * self.frame.slot;
            let of_slot: Vec<usize> =
                requests.iter().filter(|(in_slot, _)| *in_slot == slot).map(|(_, n)| *n).collect();
            let content = Content::Slot(of_slot.len());
            self.record_area(false, [from, from + self.frame.slot].map(f64::from), content);
            if let [n] = of_slot[..] {
                let pdus = vec![air::request(self.cid(n), self.conns[n].need(&self.mac))];
                let (station, at) =
                    (self.conns[n].station, start + self.frame.phy.symbols(from + SHORT_PREAMBLE));
                self.record_burst(AirBurst { at, station, is_downlink: false, pdus });
            }
        }
    }

    /// Returns the slot in which a connection asks in this region.
    fn pass_slots(&mut self, n: usize, now: Time, stream: &mut RandomStream) -> Option<u32> {
        let Cell { request_backoff: backoff, piggyback, request_attempts, .. } = self.config;
        let (mac, coming) = (self.mac, self.coming_later(n));
        let conn = &mut self.conns[n];
        if !conn.flow.service.contends() {
            return None;
        }
        if conn.need(&mac) <= coming {
            conn.contention = Contention::Idle;
            return None;
        }
        let has_asked = piggyback && (coming > 0 || conn.sent_at == now);
        let start =
            |attempt: Attempt, stream: &mut RandomStream| Contention::Backoff(attempt, attempt.draw(stream));
        conn.contention = match conn.contention {
            // A grant answers the request; what a burst left over rode on it as a piggyback request.
            same if has_asked => same,
            Contention::Idle => start(Attempt::first(backoff), stream),
            Contention::Waiting(attempt, until) if until <= now => {
                let next = attempt.next(backoff);
                if next.tries < request_attempts {
                    start(next, stream)
                } else {
                    conn.drop_head(&mac, now);
                    Contention::Idle
                }
            }
            same => same,
        };
        let (attempt, slot) = conn.contention.pass(self.config.request_slots)?;
        conn.contention = Contention::Waiting(attempt, now + self.config.grant_timeout);
        Some(slot)
    }
}
