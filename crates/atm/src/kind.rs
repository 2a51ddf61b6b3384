//! Virtual channels through a network of ATM switches.
//!
//! A link that is a virtual channel is to its nodes as any other: packets go in at one end and come out at the other. Cells
//! pass the lines of least delay, then the fewest.

mod bottleneck;
mod capture;
mod config;
mod network;
mod paths;

use crate::{Class, Encapsulation, Faults, Interface, Service};
use bentpipe_net::{Framing, InvalidConfig};
use bentpipe_sim::ElementId;
use bentpipe_units::{Bytes, Rate};
use bentpipe_wire::{aal5, llc};

use bentpipe_site::{
    Assembly, At, CaptureFormat, Changes, Changing, Cost, Facts, Form, MediumKind, Member, NativeChannel,
    Part, Problem, Review, Scope, SharedParts, Site, Takes, Way, Wired, set_all,
};
use bottleneck::Bottleneck;
pub use config::{Atm, AtmLine, AtmStream, CellChannel, CellSource, Kind};
use network::Network;
use paths::path;

const OTHER: &str = "a virtual channel has none of its own: expected none";

/// Queues without a limit would grow with what real hosts send: maximum length in cells.
const MAX_CELLS: u32 = 1_200_000;

impl MediumKind for Kind {
    type Shared = Atm;
    const SCOPE: Scope = Scope::Link;
    const TAKES: Takes = Takes {
        queue: Some(
            "a virtual channel has none of its own: expected `medium.limit`, or `atm.switch.NAME.limit`",
        ),
        channel: Some("a virtual channel has none of its own: expected `atm.line.NAME.channel`"),
        stages: Some(OTHER),
        real_ends: Some("a virtual channel"),
    };

    fn check(all: &[Member<'_, Self>], _: &Atm, review: &mut Review<'_>) {
        for member in all {
            let place = member.place;
            review.ensure(!place.is_own("rate"), &place.own_key("rate"), OTHER);
            review.ensure(!place.is_own("delay"), &place.own_key("delay"), OTHER);
            // A scenario as an older version ran it has that of AAL5.
            if member.line.framing() != (Framing::Aal5LlcSnap { sdh: false }) {
                const FRAMING: &str = "a virtual channel has its own: expected `medium.encapsulation`";
                bentpipe_site::line::refuse_framing(member, FRAMING, review);
            }
        }
    }

    fn mtu(&self) -> Bytes {
        // RFC 2225.
        Bytes::new(9180)
    }

    fn facts(all: &[Member<'_, Self>], atm: &Atm) -> Result<Vec<Facts>, Problem> {
        all.iter().map(|member| facts(member, atm)).collect()
    }

    fn costs(all: &[Member<'_, Self>], atm: &Atm) -> Result<Vec<Box<dyn Cost>>, Problem> {
        let cost = |member: &Member<'_, Self>| -> Result<Box<dyn Cost>, Problem> {
            let lines = facts(member, atm)?.rate;
            let vc = member.medium.clone();
            let rate = peak(vc.service).map_or(lines, |peak| peak.min(lines));
            let yields = matches!(vc.service.class(), Class::Abr | Class::Ubr);
            let bottleneck = if yields { Bottleneck::of(member, atm) } else { None };
            Ok(Box::new(ChannelCost { rate, vc, bottleneck }))
        };
        all.iter().map(cost).collect()
    }

    fn assembly<'s>(row: usize, all: Vec<Member<'s, Self>>, atm: &'s Atm) -> Box<dyn Assembly + 's> {
        let natives = Vec::new();
        Box::new(Channels {
            row,
            all,
            atm,
            ends: Vec::new(),
            natives,
            native_ends: Vec::new(),
            faults: SharedParts::new(),
        })
    }

    fn change(at: &Changing<'_, Self>, to: &mut Changes) -> Result<(), Problem> {
        let Kind { service, encapsulation, limit, receive } = at.after.medium;
        let (before, expected) = (at.before.medium, "expected what the scenario started with");
        at.refuse(&[
            ("medium.service", *service == before.service, expected),
            ("medium.encapsulation", *encapsulation == before.encapsulation, expected),
            ("medium.limit", *limit == before.limit, expected),
        ])?;
        match (before.receive, *receive) {
            (had, wanted) if had == wanted => {}
            (Some(_), Some(config)) => {
                let path = format!("vc/{}/{}", at.handle.name, at.handle.from);
                to.set(
                    at.handle.line,
                    at.key("medium.receive"),
                    config,
                    move |end: &mut Interface, now, config| {
                        let is_there = end.set_receive(now, &path, &config)?;
                        InvalidConfig::ensure(is_there, "receive", "an end with a receive buffer")
                    },
                );
            }
            (had, _) => {
                let there = if had.is_some() { "cannot be removed" } else { "cannot be added" };
                let problem = format!("{there} while it runs: expected what the scenario started with");
                return Err(Problem::new(at.after.place.key("medium.receive"), problem));
            }
        }
        Ok(())
    }

    fn change_shared(
        before: &Atm,
        after: &Atm,
        parts: &SharedParts<ElementId>,
        to: &mut Changes,
    ) -> Result<(), Problem> {
        if before.without_channels() != after.without_channels() {
            return Err(Problem::new("", bentpipe_site::UNCHANGEABLE));
        }
        for (name, line) in &after.line {
            if line.channel != before.line[name].channel {
                change_line(name, line, parts, to)?;
            }
        }
        Ok(())
    }

    fn bound(&mut self, link: &str, notices: &mut Vec<String>) {
        self.limit.get_or_insert_with(|| {
            notices.push(format!("link \"{link}\": ends without a limit get one of {MAX_CELLS} cells"));
            MAX_CELLS
        });
    }
}

/// Adds changes of the faults of a line, in both directions.
fn change_line(
    name: &str,
    line: &AtmLine,
    parts: &SharedParts<ElementId>,
    to: &mut Changes,
) -> Result<(), Problem> {
    let faults = line.channel.as_ref().map_or(&[][..], |channel| channel.faults());
    for way in Way::BOTH {
        let elements = parts.get(&format!("line/{name}/{}", way.name())).map_or(&[][..], Vec::as_slice);
        let key = format!("atm.line.{name}.channel");
        set_all(key, elements, faults.to_vec(), to, |element: &mut Faults, _, config| element.set(&config))?;
    }
    Ok(())
}

/// Returns the rate and delay of the lines that a channel passes.
fn facts(member: &Member<'_, Kind>, atm: &Atm) -> Result<Facts, Problem> {
    let ends = if member.way == Way::Forward { [member.from, member.to] } else { [member.to, member.from] };
    let path = path(atm, ends[0], ends[1])
        .map_err(|problem| Problem::new(format!("{}.between", member.place.link_key()), problem))?;
    let lines = || path.iter().map(|(line, _)| &atm.line[*line]);
    let rate = lines().map(AtmLine::cell_rate).min().unwrap_or_default();
    let facts = Facts { rate, delay: lines().map(|line| line.delay).sum() };
    // A scenario as an older version ran it has them.
    let said = [
        ("rate", member.line.rate.is_some_and(|rate| rate != facts.rate)),
        ("delay", member.place.is_shared("delay") && member.common.delay != facts.delay),
    ];
    match said.iter().find(|(_, differs)| *differs) {
        Some((key, _)) => Err(Problem::new(
            format!("{}.{key}", member.place.link_key()),
            "of a virtual channel is that of the lines that it passes: expected none",
        )),
        None => Ok(facts),
    }
}

/// Returns the peak cell rate of a service, if it has one.
fn peak(service: Service) -> Option<Rate> {
    match service {
        Service::Cbr { pcr } | Service::Vbr { pcr } | Service::Ubr { pcr } => pcr,
        Service::Abr(abr) => abr.pcr,
    }
}

/// Cost of packets on a virtual channel.
struct ChannelCost {
    /// Maximum rate of the channel on its lines.
    rate: Rate,
    vc: Kind,
    /// Line with the least capacity left, for ABR and UBR.
    bottleneck: Option<Bottleneck>,
}

impl ChannelCost {
    /// Returns the length of a CPCS-PDU's payload with a packet of `len` bytes (RFC 2684).
    fn pdu_len(&self, len: usize) -> usize {
        match self.vc.encapsulation {
            Encapsulation::LlcSnap => len + llc::HEADER_LEN,
            Encapsulation::VcMux => len,
        }
    }
}

impl Cost for ChannelCost {
    fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the usable rate: what streams of other categories leave. That of ABR excludes one RM cell in each
    /// `nrm`.
    fn usable(&self) -> Rate {
        let left = self.bottleneck.as_ref().map_or(self.rate, |bottleneck| bottleneck.left.min(self.rate));
        match self.vc.service {
            Service::Abr(abr) => {
                let nrm = u128::from(abr.nrm.max(1));
                Rate::from_bps((u128::from(left.as_bps()) * (nrm - 1) / nrm) as u64)
            }
            _ => left,
        }
    }

    fn notes(&self, _len: usize) -> Vec<String> {
        let is_abr = matches!(self.vc.service, Service::Abr(_));
        self.bottleneck.as_ref().map(|bottleneck| bottleneck.notes(is_abr)).unwrap_or_default()
    }

    fn cells(&self, len: usize) -> Option<(u64, Bytes)> {
        let len = self.pdu_len(len);
        Some((aal5::cells(len) as u64, Bytes::new(aal5::pad_len(len) as u64)))
    }

    fn wire_len(&self, len: usize) -> Bytes {
        Bytes::new(aal5::wire_len(self.pdu_len(len)) as u64)
    }
}

struct Channels<'s> {
    row: usize,
    all: Vec<Member<'s, Kind>>,
    atm: &'s Atm,
    /// Ends of each member's channel, that of the sending node first, and the channel.
    ends: Vec<([At; 2], capture::Pdus)>,
    /// Channels of flows, each with the member that offers it.
    natives: Vec<(usize, NativeChannel)>,
    native_ends: Vec<[At; 2]>,
    faults: SharedParts<Part>,
}

impl Assembly for Channels<'_> {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), Problem> {
        let network = Network::new(self.atm)?;
        let led = network.with_channels(self.row, &self.all, &self.natives, site)?;
        (self.ends, self.native_ends, self.faults) = (led.members, led.natives, led.faults);
        Ok(())
    }

    fn wire(&mut self, member: usize, _: &mut Site<'_>) -> Result<Wired, Problem> {
        let ([input, output], _) = self.ends[member];
        let rate = facts(&self.all[member], self.atm)?.rate;
        Ok(Wired { output, is_observed: false, ..Wired::new(input, rate) })
    }

    fn add_native(&mut self, member: usize, channel: &NativeChannel) -> Option<usize> {
        let is_offered = channel.form == Form::CellPayloads;
        is_offered.then(|| self.natives.push((member, channel.clone())));
        is_offered.then(|| self.natives.len() - 1)
    }

    fn native(&self, number: usize) -> Option<[At; 2]> {
        self.native_ends.get(number).copied()
    }

    fn packets(&self, member: usize) -> Box<dyn CaptureFormat> {
        Box::new(self.ends[member].1)
    }

    fn shared_parts(&self) -> SharedParts<Part> {
        self.faults.clone()
    }
}
