//! Downlink of a frame: shares of its symbols, then bursts by profile.

use bentpipe_units::{RandomStream, Time};

use super::air::{Burst, Content};
use super::cell::Wimax;
use super::config::Scheduler;
use super::conn::Blocks;
use super::phy::{LONG_PREAMBLE, Profile, TAIL};
use super::share::{Claim, share};

/// Parts of a symbol, a multiple of the bytes of every profile.
const PARTS: u64 = 864;

/// Returns the parts of a symbol that bytes take.
fn parts(bytes: usize, profile: Profile) -> u64 {
    bytes as u64 * PARTS / profile.bytes() as u64
}

impl Wimax {
    /// Schedules the downlink of the frame that begins at `now`, and lets its packets arrive.
    pub(super) fn send_downlink(
        &mut self,
        now: Time,
        allocations: usize,
        has_descriptors: bool,
        stream: &mut RandomStream,
    ) {
        let mut claims = std::mem::take(&mut self.scratch.claims);
        self.claim_downlink(&mut claims);
        let mut profiles = [false; Profile::ALL.len()];
        claims.iter().for_each(|claim| profiles[self.down_profile(claim.conn).number()] = true);
        let bursts = profiles.iter().filter(|used| **used).count();
        let room = self.frame.downlink_room(bursts, allocations, has_descriptors);
        let first_symbol = self.frame.downlink - room;
        self.record_overhead(first_symbol);
        self.usage.maps += u64::from(first_symbol);
        self.usage.downlink += u64::from(first_symbol);
        // Each burst loses its tail, and each but one a part of its last symbol.
        let spare = bursts.saturating_sub(1) as u64 * PARTS;
        let tails = (0..profiles.len()).filter(|n| profiles[*n]).map(|n| parts(TAIL, Profile::ALL[n]) + 1);
        let units = (u64::from(room) * PARTS).saturating_sub(spare + tails.sum::<u64>());
        self.share_downlink(&mut claims, units);
        let mut order = std::mem::take(&mut self.scratch.order);
        order.clear();
        order.extend(claims.iter().filter(|claim| claim.granted > 0).map(|claim| {
            let profile = self.down_profile(claim.conn);
            (claim.conn, (claim.granted as usize * profile.bytes()).div_ceil(PARTS as usize))
        }));
        order.sort_by_key(|(conn, _)| self.down_profile(*conn));
        self.fill_downlink(now, first_symbol, &order, stream);
        (self.scratch.claims, self.scratch.order) = (claims, order);
    }

    /// Records what is in front of the bursts.
    fn record_overhead(&self, first: u32) {
        let [preamble, fch, maps] = [LONG_PREAMBLE, LONG_PREAMBLE + 1, first].map(f64::from);
        self.record_area(true, [0.0, preamble], Content::Preamble);
        self.record_area(true, [preamble, fch], Content::Fch);
        self.record_area(true, [fch, maps], Content::Maps);
    }

    /// Shares units among the services in their order.
    fn share_downlink(&self, claims: &mut [Claim], mut units: u64) {
        let service = |claim: &Claim| self.conns[claim.conn].flow.service;
        for of_service in claims.chunk_by_mut(|a, b| service(a) == service(b)) {
            units = share(self.config.scheduler, of_service, self.usage.frames as usize, units);
        }
    }

    fn down_profile(&self, conn: usize) -> Profile {
        self.stations[self.conns[conn].station].down.profile
    }

    /// Collects what connections have for the downlink.
    fn claim_downlink(&mut self, claims: &mut Vec<Claim>) {
        claims.clear();
        let scheduler = self.config.scheduler;
        for &n in &self.down {
            let is_fair = scheduler == Scheduler::ProportionalFair;
            if !is_fair && !self.is_active[n] {
                continue;
            }
            let conn = &mut self.conns[n];
            if is_fair {
                conn.served *= 0.99;
            }
            if !conn.is_backlogged() {
                continue;
            }
            let profile = self.stations[conn.station].down.profile;
            let rank = match scheduler {
                Scheduler::RoundRobin => 0.0,
                Scheduler::ProportionalFair => conn.served / profile.bytes() as f64,
                Scheduler::Deadline => {
                    (conn.head_since() + conn.flow.latency).since(Time::ZERO).as_secs_f64()
                }
            };
            // The sum of roundings must not cost the last packet its place.
            let demand = parts(conn.need(&self.mac), profile) + 1;
            let turn = parts(self.mac.pdu_len(1500), profile);
            claims.push(Claim { conn: n, demand, turn, rank, granted: 0 });
        }
    }

    fn fill_downlink(&mut self, now: Time, first: u32, order: &[(usize, usize)], stream: &mut RandomStream) {
        let mut done = std::mem::take(&mut self.scratch.done);
        let (mut start, mut at, mut current) = (first, 0, None);
        for (conn, bytes) in order {
            let profile = self.down_profile(*conn);
            if current != Some(profile) {
                start += current.map_or(0, |last: Profile| last.symbols(at));
                (at, current) = (0, Some(profile));
            }
            let room = profile.capacity(self.frame.downlink.saturating_sub(start)).min(at + bytes);
            let loss = self.stations[self.conns[*conn].station].down.loss;
            let mut blocks = Blocks::new(profile.bytes(), loss);
            let is_recorded = self.is_recorded();
            let target = &mut self.conns[*conn];
            target.record = is_recorded.then(Vec::new);
            let end = target.fill((at, room), false, &self.mac, (now, stream), &mut blocks, &mut done);
            target.counts.granted += (end - at) as u64;
            target.served += (end - at) as f64;
            let phy = self.frame.phy;
            let arrival = |end: usize| now + phy.symbols(start + profile.symbols(end));
            self.arrive(*conn, arrival, &mut done);
            if is_recorded && end > at {
                let station = self.conns[*conn].station;
                let place = [at, end].map(|byte| f64::from(start) + byte as f64 / profile.bytes() as f64);
                self.record_area(true, place, Content::Burst { station, profile });
                let (pdus, sent) =
                    (self.recorded(*conn), now + phy.symbols(start + (at / profile.bytes()) as u32));
                self.record_burst(Burst { at: sent, station, is_downlink: true, pdus });
            }
            at = end;
        }
        let symbols = start - first + current.map_or(0, |last| last.symbols(at));
        self.usage.downlink += u64::from(symbols);
        self.scratch.done = done;
    }
}
