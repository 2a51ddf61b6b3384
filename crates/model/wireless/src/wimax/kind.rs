//! WiMAX links: the cells that they share, one element each.

use std::collections::HashMap;

use bentpipe_net::{InvalidConfig, Port};
use bentpipe_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use bentpipe_site::{
    Artefact, Assembly, At, Changes, Changing, Compressed, Cost, Facts, MediumKind, Member, Named, Order,
    Problem, Review, Sample, Scope, SharingCopies, Site, Takes, Wired, line,
};

use super::air::AirLog;
use super::cell::Wimax;
use super::config::{Cell, PathConfig, Payload, Radio, Service, ServiceFlow};
use super::conn::Mac;
use super::overhead::Frame;
use super::phy::{Profile, SHORT_PREAMBLE};
use super::picture::Picture;

/// A link of an 802.16 cell, between its base station and a subscriber station.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct Kind {
    /// Name of the cell that it belongs to.
    pub cell_name: String,
    /// Node of the base station. Default: the one that all links of the cell have in common.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Radio of the subscriber station.
    #[serde(flatten)]
    pub radio: Radio,
    /// Service flows of the uplink, the first that takes a packet. Default: one of best effort.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uplink: Vec<ServiceFlow>,
    /// Service flows of the downlink, the first that takes a packet. Default: one of best effort.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub downlink: Vec<ServiceFlow>,
}

/// Members of each cell, and what they have in common.
///
/// It is found once for all of them: cells may have thousands of links.
struct Members<'s>(HashMap<&'s str, OfCell<'s>>);

/// Members of a cell.
#[derive(Default)]
struct OfCell<'s> {
    /// Numbers of the members.
    numbers: Vec<usize>,
    /// Node of the base station, if the links have one.
    base: Option<&'s str>,
    copies: usize,
}

impl<'s> Members<'s> {
    fn of(all: &[Member<'s, Kind>]) -> Members<'s> {
        let mut cells: HashMap<&'s str, OfCell<'s>> = HashMap::new();
        for (n, member) in all.iter().enumerate() {
            let cell = cells.entry(&member.medium.cell_name).or_default();
            cell.numbers.push(n);
            cell.copies += member.copies as usize;
        }
        for cell in cells.values_mut() {
            cell.base = base(&cell.numbers.iter().map(|n| &all[*n]).collect::<Vec<_>>());
        }
        Members(cells)
    }

    /// Returns the numbers of a cell's members.
    fn numbers(&self, cell: &str) -> &[usize] {
        self.0.get(cell).map_or(&[], |cell| &cell.numbers)
    }

    /// Returns the node of the base station of a cell.
    fn base(&self, cell: &str) -> Option<&'s str> {
        self.0.get(cell)?.base
    }

    fn is_downlink(&self, member: &Member<'_, Kind>) -> bool {
        self.base(&member.medium.cell_name) == Some(member.from)
    }

    /// Returns the number of a cell's service flows of one direction.
    fn bursts(&self, cell: &str) -> usize {
        self.0.get(cell).map_or(0, |cell| cell.copies) / 2
    }

    /// Returns the name of the node of a member's subscriber station.
    fn station_name(&self, member: &Member<'_, Kind>) -> String {
        let node = if self.is_downlink(member) { member.to } else { member.from };
        node.to_owned()
    }
}

/// Share of lost blocks from which `check` has a line on them.
const MANY_LOST: f64 = 1e-3;

/// Problem of a cell whose links have no node in common.
const NO_BASE: &str = "no base station: expected links of a cell to have one node in common, or `base`";

/// Returns the node of the base station of a cell with these members.
fn base<'s>(members: &[&Member<'s, Kind>]) -> Option<&'s str> {
    let ends = |member: &&Member<'s, Kind>| [member.from, member.to];
    if let Some(named) = members.iter().find_map(|member| member.medium.base.as_deref()) {
        return members.iter().flat_map(ends).find(|node| *node == named);
    }
    // Of a lone link it is the first end.
    let has = |node: &&str| members.iter().all(|member| ends(member).contains(node));
    ends(members.first()?).into_iter().find(has)
}

impl MediumKind for Kind {
    type Shared = Named<Cell>;
    const SCOPE: Scope = Scope::Link;
    const TAKES: Takes = Takes {
        queue: None,
        channel: Some("a WiMAX link has none: expected `medium.snr` and `medium.fading`"),
        stages: None,
        real_ends: None,
    };

    fn check(all: &[Member<'_, Self>], cells: &Named<Cell>, review: &mut Review<'_>) {
        let members = Members::of(all);
        for member in all {
            check(&members, member, cells, review);
        }
        for (name, cell) in cells {
            check_cell((all, &members), name, cell, review);
        }
    }

    fn facts(all: &[Member<'_, Self>], cells: &Named<Cell>) -> Result<Vec<Facts>, Problem> {
        let members = Members::of(all);
        let facts = |member: &Member<'_, Self>| {
            let rate = cost(&members, member, cells)?.usable();
            Ok(Facts { rate, delay: member.common.delay })
        };
        all.iter().map(facts).collect()
    }

    fn costs(all: &[Member<'_, Self>], cells: &Named<Cell>) -> Result<Vec<Box<dyn Cost>>, Problem> {
        let members = Members::of(all);
        all.iter().map(|member| Ok(Box::new(cost(&members, member, cells)?) as Box<dyn Cost>)).collect()
    }

    fn assembly<'s>(
        row: usize,
        all: Vec<Member<'s, Self>>,
        cells: &'s Named<Cell>,
    ) -> Box<dyn Assembly + 's> {
        let logs = cells.iter().filter(|(_, cell)| cell.record.is_some());
        let logs = logs.map(|(name, _)| (name.as_str(), AirLog::default())).collect();
        Box::new(Cells { row, places: vec![None; all.len()], members: Members::of(&all), all, cells, logs })
    }

    fn change(at: &Changing<'_, Self>, to: &mut Changes) -> Result<(), Problem> {
        let (had, wanted) = (at.before.medium, at.after.medium);
        let is_same =
            Kind { radio: Radio { snr: wanted.radio.snr, ..had.radio.clone() }, ..had.clone() } == *wanted;
        at.refuse(&[
            ("medium", is_same, "expected another `snr`, or the link's queue"),
            ("delay", at.before.common.delay == at.after.common.delay, "frames keep their ranging"),
        ])?;
        let port = usize::from(at.handle.port.0);
        if let Some(queue) = at.queue()? {
            to.set(at.handle.line, at.key("queue"), queue, move |cell: &mut Wimax, now, queue| {
                cell.set_queue(now, port, &queue)
            });
        }
        if had.radio.snr != wanted.radio.snr {
            to.set(
                at.handle.line,
                at.key("medium.snr"),
                wanted.radio.snr,
                move |cell: &mut Wimax, _, snr| cell.set_snr(port, snr),
            );
        }
        Ok(())
    }
}

fn check(members: &Members<'_>, member: &Member<'_, Kind>, cells: &Named<Cell>, review: &mut Review<'_>) {
    let (place, kind) = (member.place, member.medium);
    review.ensure_named(cells, "cell", &place.key("medium.cell_name"), &kind.cell_name);
    if place.is_own("rate") || place.is_shared("rate") {
        review.refuse(&place.key("rate"), "a WiMAX link has no rate of a line: expected none");
    }
    line::refuse_framing(member, "a WiMAX link has its own: expected none", review);
    review.ensure(
        members.base(&kind.cell_name).is_some_and(|node| [member.from, member.to].contains(&node)),
        &place.key("medium.cell_name"),
        NO_BASE,
    );
    let mut found = |part: &str, checked: Result<(), InvalidConfig>| {
        if let Err(error) = checked {
            let problem = Problem::impossible(&place.key(part), &error);
            review.refuse(&problem.key, problem.problem);
        }
    };
    found("medium", kind.radio.check());
    for (flows, key) in [(&kind.uplink, "medium.uplink"), (&kind.downlink, "medium.downlink")] {
        flows.iter().enumerate().for_each(|(n, flow)| found(&format!("{key}.{n}"), flow.check()));
    }
}

/// Checks a cell, and that its uplink has room for unsolicited grants and polls.
fn check_cell(of: (&[Member<'_, Kind>], &Members<'_>), name: &str, cell: &Cell, review: &mut Review<'_>) {
    let key = format!("cell.{name}");
    let frame = match Frame::new(cell) {
        Ok(frame) => frame,
        Err(error) => {
            let problem = Problem::impossible(&key, &error);
            return review.refuse(&problem.key, problem.problem);
        }
    };
    let (reserved, room) = (reserved(of, name, cell, &frame), f64::from(frame.uplink_room()));
    let problem = format!(
        "grants and polls of its service flows need {reserved:.1} uplink symbols per frame, where {room} are free: expected fewer flows, longer intervals or smaller SDUs"
    );
    review.ensure(reserved <= room, &key, problem);
}

/// Returns the uplink symbols per frame of unsolicited grants and polls.
fn reserved(
    (all, members): (&[Member<'_, Kind>], &Members<'_>),
    name: &str,
    cell: &Cell,
    frame: &Frame,
) -> f64 {
    let mac = Mac::new(cell);
    let symbols = |member: &Member<'_, Kind>, flow: &ServiceFlow| {
        let bytes = match flow.service {
            Service::Be => return 0.0,
            Service::Ugs | Service::ErtPs => mac.pdu_len_of(flow, flow.sdu.get() as usize),
            Service::RtPs | Service::NrtPs => bentpipe_wire::wman::HEADER_LEN,
        };
        let symbols = SHORT_PREAMBLE + profile(member, cell, false).symbols(bytes);
        let per_frame = frame.phy.frame().as_secs_f64() / flow.interval().as_secs_f64();
        f64::from(symbols) * per_frame * f64::from(member.copies)
    };
    let own = members.numbers(name).iter().map(|n| &all[*n]);
    let up = own.filter(|member| !members.is_downlink(member));
    up.map(|member| member.medium.uplink.iter().map(|flow| symbols(member, flow)).sum::<f64>()).sum()
}

/// Returns the burst profile that a station starts with.
fn profile(member: &Member<'_, Kind>, cell: &Cell, is_downlink: bool) -> Profile {
    let (radio, n) = (&member.medium.radio, usize::from(!is_downlink));
    radio.profile.map_or_else(|| Profile::fastest(radio.snr[n], cell.margins[0]), |profiles| profiles[n])
}

fn cost(members: &Members<'_>, member: &Member<'_, Kind>, cells: &Named<Cell>) -> Result<CellCost, Problem> {
    let name = &member.medium.cell_name;
    let none = || Problem::new(member.place.key("medium.cell_name"), "no such cell");
    let cell = cells.get(name).ok_or_else(none)?;
    let frame = Frame::new(cell).map_err(|error| Problem::impossible(&format!("cell.{name}"), &error))?;
    let is_downlink = members.is_downlink(member);
    let way = if is_downlink { "downlink" } else { "uplink" };
    let shared = format!("cell {name} {way}");
    let stations = members.bursts(name).max(1);
    Ok(CellCost {
        mac: Mac::new(cell),
        profile: profile(member, cell, is_downlink),
        snr: member.medium.radio.snr[usize::from(!is_downlink)],
        is_downlink,
        frame,
        shared,
        stations,
        flows: if is_downlink { &member.medium.downlink } else { &member.medium.uplink }.clone(),
        packet_rate: member.medium.radio.packet_rate,
        request_slots: cell.request_slots,
        backoff: cell.request_backoff[0],
    })
}

/// Returns a number of symbols in words.
fn counted(symbols: u32) -> String {
    if symbols == 1 { "1 symbol".to_owned() } else { format!("{symbols} symbols") }
}

/// Cost of packets in one direction of a cell.
struct CellCost {
    frame: Frame,
    mac: Mac,
    profile: Profile,
    /// SNR in dB.
    snr: f64,
    is_downlink: bool,
    shared: String,
    stations: usize,
    flows: Vec<ServiceFlow>,
    /// Packets per second that the station forwards.
    packet_rate: Option<u32>,
    /// Request slots of a frame.
    request_slots: u32,
    /// First window of their contention as a power of two.
    backoff: u8,
}

impl CellCost {
    /// Returns the symbols for data in a frame with bursts of some stations.
    fn symbols(&self, stations: usize) -> u32 {
        if self.is_downlink {
            self.frame.downlink_room(1, stations, false)
        } else {
            self.frame.uplink_room().saturating_sub(SHORT_PREAMBLE * stations as u32)
        }
    }

    /// Returns a line on the blocks that the channel takes, if they are many.
    fn lost(&self) -> Option<String> {
        let share = self.profile.block_error(self.snr);
        let name = self.profile.name();
        (share >= MANY_LOST).then(|| {
            format!(
                "at {} dB {name} loses {:.1} % of its blocks, one per symbol: none of the above counts losses",
                self.snr,
                100.0 * share
            )
        })
    }

    /// Returns a line for each service flow with ARQ.
    fn repeated(&self, len: usize) -> Vec<String> {
        let line = |(n, flow): (usize, &ServiceFlow)| {
            let arq = flow.arq.as_ref()?;
            let pdu = self.mac.pdu_len_of(flow, len);
            let sdu = pdu - self.mac.pdu_len_of(flow, 0);
            Some(format!(
                "with ARQ in service flow {}: {} blocks of {} B, PDU {pdu} B with their subheader; a window of {} B",
                n + 1,
                sdu.div_ceil(arq.block.get() as usize),
                arq.block.get(),
                u64::from(arq.window) * arq.block.get(),
            ))
        };
        self.flows.iter().enumerate().filter_map(line).collect()
    }

    /// Returns a line for each service flow that suppresses headers of packets.
    fn suppressed(&self, len: usize) -> Vec<String> {
        let line = |(n, flow): (usize, &ServiceFlow)| {
            let pdu = self.mac.pdu_len_of(flow, len);
            format!(
                "with headers suppressed in service flow {}: SDU {} B with index, PDU {pdu} B; alone {}",
                n + 1,
                pdu - self.mac.fixed,
                counted(self.profile.symbols(pdu)),
            )
        };
        self.flows.iter().enumerate().filter(|(_, flow)| flow.phs.is_some()).map(line).collect()
    }

    /// Returns a line for each service flow of UGS, with the grants of a packet.
    fn granted(&self, len: usize) -> Vec<String> {
        let line = |(n, flow): (usize, &ServiceFlow)| {
            let (grant, pdu) = (flow.sdu.get() as usize, self.mac.pdu_len_of(flow, len));
            let whole = self.mac.pdu_len_of(flow, grant);
            let grants =
                if pdu <= whole { 1 } else { (pdu - self.mac.fixed).div_ceil(self.mac.fragment_of(whole)) };
            let kept = if self.mac.fragments() || grants == 1 { "" } else { ", without fragmentation never" };
            let is_apart = self.flows[..n].iter().any(|flow| flow.payload == Some(Payload::Rtcp));
            let others = if is_apart { "" } else { "; longer ones, such as RTCP, hold up those behind them" };
            format!(
                "service flow {}, UGS: a grant of {grant} B each {}, of which this packet takes {grants}{kept}{others}",
                n + 1,
                flow.interval(),
            )
        };
        let of_ugs = |(_, flow): &(usize, &ServiceFlow)| !self.is_downlink && flow.service == Service::Ugs;
        self.flows.iter().enumerate().filter(of_ugs).map(line).collect()
    }

    /// Returns the mean time from a packet's arrival at an idle station to its grant.
    ///
    /// Grants and polls come at an interval. Others contend for a slot of the next frame, and a request is granted one frame later.
    fn until_grant(&self, service: Service, interval: Span) -> Span {
        let frame = self.frame.phy.frame();
        let granted = frame * if self.frame.is_tdd() { 1 } else { 2 };
        match service {
            Service::Ugs | Service::ErtPs => interval / 2,
            Service::RtPs => interval / 2 + granted,
            Service::NrtPs | Service::Be => {
                // Slots to let pass are drawn from the first window.
                let slots = f64::from(1_u32 << self.backoff) - f64::from(self.request_slots);
                let regions = (slots / 2.0 / f64::from(self.request_slots)).max(0.0);
                frame / 2 + frame.mul_f64(regions) + granted
            }
        }
    }

    fn rate_of(&self, stations: usize) -> Rate {
        let bytes = self.profile.capacity(self.symbols(stations));
        Rate::of(Bytes::new(bytes as u64), self.frame.phy.frame())
    }
}

impl Cost for CellCost {
    fn rate(&self) -> Rate {
        self.frame.phy.rate(self.profile)
    }

    fn usable(&self) -> Rate {
        self.rate_of(1)
    }

    fn wire_len(&self, len: usize) -> Bytes {
        Bytes::new(self.mac.pdu_len(len) as u64)
    }

    fn time(&self, len: usize) -> Span {
        let preamble = if self.is_downlink { 0 } else { SHORT_PREAMBLE };
        self.frame.phy.symbols(preamble + self.profile.symbols(self.mac.pdu_len(len)))
    }

    /// Returns lengths behind the first service flow with ROHC.
    fn compressed(&self, flows: u64, sample: &dyn Fn(u16) -> Option<Sample>) -> Option<Compressed> {
        let (flow, rohc) = self.flows.iter().find_map(|flow| Some((flow, flow.rohc.as_ref()?)))?;
        let (packet_bytes, compressed_bytes) = rohc.mean_lengths(flows, sample)?;
        let on_line_bytes = compressed_bytes + self.mac.pdu_len_of(flow, 0) as f64;
        Some(Compressed { packet_bytes, compressed_bytes, on_line_bytes })
    }

    fn shared(&self) -> Option<&str> {
        Some(&self.shared)
    }

    fn packet_rate(&self) -> Option<f64> {
        self.packet_rate.map(f64::from)
    }

    /// Returns the time until the next frame, or up to a grant.
    ///
    /// Of several service flows it is that of the slowest.
    fn waits(&self, _len: usize) -> Span {
        if self.is_downlink {
            return self.frame.phy.frame() / 2;
        }
        let of_flows = self.flows.iter().map(|flow| self.until_grant(flow.service, flow.interval()));
        of_flows.max().unwrap_or_else(|| self.until_grant(Service::Be, Span::ZERO))
    }

    fn sharing_copies(&self) -> SharingCopies {
        SharingCopies::All
    }

    fn notes(&self, len: usize) -> Vec<String> {
        let (pdu, bytes) = (self.mac.pdu_len(len), self.profile.bytes());
        let symbols = self.profile.symbols(pdu);
        let preamble = if self.is_downlink { "" } else { " and a preamble" };
        let sdu = pdu - self.mac.fixed;
        let per_second = |stations| self.rate_of(stations).as_bps() / 8 / pdu as u64;
        let (one, all) = (per_second(1), per_second(self.stations));
        let mut notes = vec![
            self.frame.describe(self.is_downlink, 1, 1),
            format!(
                "packet of {len} B: SDU {sdu} B, PDU {pdu} B with header and CRC {} B; alone {} of {bytes} B ({}){preamble}",
                self.mac.fixed,
                counted(symbols),
                self.profile.name(),
            ),
            format!(
                "at most {one} packets/s of one station, {all} with bursts of {} stations in each frame: {} flows of 50 packets/s",
                self.stations,
                all / 50
            ),
        ];
        let more = if self.is_downlink { "" } else { ", for a request and a grant" };
        notes.push(format!(
            "packets wait for a frame of {}{more}: delays are without that",
            self.frame.phy.frame()
        ));
        notes.extend(self.lost());
        notes.extend(self.granted(len));
        notes.extend(self.suppressed(len));
        notes.extend(self.repeated(len));
        notes
    }
}

/// Cells with their members.
struct Cells<'s> {
    row: usize,
    all: Vec<Member<'s, Kind>>,
    members: Members<'s>,
    cells: &'s Named<Cell>,
    places: Vec<Option<At>>,
    /// Records of the cells that have one.
    logs: Vec<(&'s str, AirLog)>,
}

impl Assembly for Cells<'_> {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), Problem> {
        for (n, (name, cell)) in self.cells.iter().enumerate() {
            let members = self.members.numbers(name);
            let many = || Problem::new(format!("cell.{name}"), "more than 32767 stations");
            u16::try_from(members.len()).map_err(|_| many())?;
            let mut element = self.build(name, cell, members)?;
            if let Some((_, log)) = self.logs.iter().find(|(of, _)| of == name) {
                element.record(log);
            }
            let element = site.add(Order::Shared(self.row, n), format!("wimax/{name}"), element);
            for (port, member) in members.iter().enumerate() {
                self.places[*member] = Some((element, Port(port as u16)));
            }
        }
        Ok(())
    }

    fn wire(&mut self, member: usize, _: &mut Site<'_>) -> Result<Wired, Problem> {
        let place = self.places[member];
        let member = &self.all[member];
        let line = place.ok_or_else(|| Problem::new(member.place.key("medium.cell_name"), "no such cell"))?;
        Ok(Wired::new(line, cost(&self.members, member, self.cells)?.usable()))
    }

    /// Returns a capture and a picture of each recorded cell.
    fn artefacts(&self) -> Vec<Artefact<At>> {
        let files = |(name, log): &(&str, AirLog)| {
            let (capture, picture) = (log.clone(), log.clone());
            let drawn =
                self.cells.get(*name).and_then(|cell| Picture::new(name, cell, self.stations(name)).ok());
            let taps = || Vec::new();
            [
                Some(Artefact {
                    file: format!("cell-{name}.pcap"),
                    taps: taps(),
                    write: Box::new(move |out| capture.write_capture(out)),
                }),
                drawn.map(|drawn| Artefact {
                    file: format!("cell-{name}.svg"),
                    taps: taps(),
                    write: Box::new(move |out| drawn.write(&picture, out)),
                }),
            ]
        };
        self.logs.iter().flat_map(files).flatten().collect()
    }
}

impl<'s> Cells<'s> {
    /// Returns the names of a cell's stations, in the order of their numbers.
    fn stations(&self, cell: &str) -> Vec<String> {
        let own = self.members.numbers(cell).iter().map(|n| &self.all[*n]);
        let mut links: Vec<(usize, String)> =
            own.map(|member| (member.link, self.members.station_name(member))).collect();
        links.sort();
        links.dedup_by_key(|(link, _)| *link);
        links.into_iter().map(|(_, name)| name).collect()
    }

    /// Returns the base station of a cell with links.
    ///
    /// Copies of a base station are nodes of their own, and have no cell in common.
    fn base(&self, members: &[usize]) -> Result<Option<&'s str>, Problem> {
        let Some(first) = members.first().map(|n| &self.all[*n]) else { return Ok(None) };
        let found = self.members.base(&first.medium.cell_name);
        found.map(Some).ok_or_else(|| Problem::new(first.place.key("medium.cell_name"), NO_BASE))
    }

    fn build(&self, name: &str, cell: &Cell, members: &[usize]) -> Result<Wimax, Problem> {
        let mut links: Vec<usize> = members.iter().map(|n| self.all[*n].link).collect();
        links.sort_unstable();
        links.dedup();
        let base = self.base(members)?;
        let path = |n: &usize| {
            let member = &self.all[*n];
            let station = links.binary_search(&member.link).unwrap_or_default();
            path(member, station, base == Some(member.from))
        };
        let paths: Vec<PathConfig> = members.iter().map(path).collect();
        Wimax::new(cell, &paths).map_err(|refusal| match refusal.path {
            Some(n) => {
                Problem::impossible(&self.all[members[n]].place.key(refusal.part), &refusal.impossible)
            }
            None => Problem::impossible(&format!("cell.{name}"), &refusal.impossible),
        })
    }
}

fn path(member: &Member<'_, Kind>, station: usize, is_downlink: bool) -> PathConfig {
    let kind = member.medium;
    PathConfig {
        name: member.path(),
        station,
        is_downlink,
        radio: kind.radio.clone(),
        flows: if is_downlink { kind.downlink.clone() } else { kind.uplink.clone() },
        queue: member.common.queue.clone().unwrap_or_default(),
        delay: member.common.delay,
        mtu: member.common.mtu,
    }
}
