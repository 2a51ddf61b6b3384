//! Kind of medium `dvb`: streams on DVB carriers.
//!
//! Each node that sends on a carrier has a multiplex of its streams there.

mod capture;
mod compressed;

use std::any::Any;
use std::collections::HashMap;

use crate::timing::Forecast;
use crate::{
    Config, DataPid, Encapsulation, Idle, Line, Modcod, PathConfig, Receiver, Refusal, RohcMode, Sender,
    Slots, Tables,
};
use bentpipe_net::Port;
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::ethernet::EtherType;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use bentpipe_site::{
    Assembly, At, CapturePoint, Changes, Changing, Compressed, Cost, Facts, LineUnits, MediumKind, Member,
    Named, Order, OwnRate, Part, Problem, Review, Sample, SharedParts, Site, Slot, Wired, line,
};
pub use capture::frame_in_udp;
pub(crate) use capture::in_udp_len;

/// Stream of packets in a transport stream, or in the frames of DVB-S2.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct Kind {
    /// The line that it is sent on.
    pub line: String,
    /// MODCOD of its frames, where streams have their own (VCM): only with GSE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub modcod: Option<Modcod>,
    /// PID of packets to groups. Default: they go in the stream of each link.
    ///
    /// All links from a node on this line with the same PID have that stream in common: each packet is sent once, to all receivers. Encapsulation and compression are those of the links, alike for all of them, without `to`. Only with ULE and MPE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast: Option<DataPid>,
    /// TS packets of the carrier in a buffer of the receiver's card, NULL packets counted. Full buffers are handed over. Default: 1.
    ///
    /// Not with DVB-S2, whose receivers hand over frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub receive_buffer: Option<u32>,
    /// Encapsulation and compression.
    #[serde(flatten)]
    pub stream: Config,
}

impl MediumKind for Kind {
    type Shared = Named<Line>;

    fn check(all: &[Member<'_, Self>], lines: &Named<Line>, review: &mut Review<'_>) {
        all.iter().for_each(|member| check(member, all, lines, review));
    }

    fn facts(all: &[Member<'_, Self>], lines: &Named<Line>) -> Result<Vec<Facts>, Problem> {
        let rate = |member: &Member<'_, Self>| lines.get(&member.medium.line).map(Line::rate);
        let facts = |member: &Member<'_, Self>| Facts {
            rate: rate(member).unwrap_or_default(),
            delay: member.common.delay,
        };
        Ok(all.iter().map(facts).collect())
    }

    fn costs(all: &[Member<'_, Self>], lines: &Named<Line>) -> Result<Vec<Box<dyn Cost>>, Problem> {
        let tables = rates_of_tables(all, lines);
        let cost = |member: &Member<'_, Self>| -> Box<dyn Cost> {
            let kind = member.medium;
            let line = lines.get(&kind.line);
            let forecast = line.and_then(|line| Forecast::new(line, kind.modcod));
            let at = (Span::ZERO, forecast.as_ref().map(|forecast| forecast.rate(Span::ZERO)));
            Box::new(StreamCost {
                rate: at.1.or_else(|| line.map(Line::rate)).unwrap_or_default(),
                tables: tables.get(&(member.from, kind.line.as_str())).copied().unwrap_or_default(),
                line: line.cloned(),
                modcod: kind.modcod,
                forecast,
                since: at.0,
                stream: kind.stream.clone(),
                multiplex: format!("carrier {} of {}", kind.line, member.from),
            })
        };
        Ok(all.iter().map(cost).collect())
    }

    fn assembly<'s>(
        row: usize,
        all: Vec<Member<'s, Self>>,
        lines: &'s Named<Line>,
    ) -> Box<dyn Assembly + 's> {
        let (places, slots, wired) = (vec![None; all.len()], vec![None; all.len()], vec![None; all.len()]);
        Box::new(Multiplexes { row, all, lines, places, slots, wired })
    }

    /// Carriers are of the node that sends. Feedback would take the other machine's.
    fn cut(member: &Member<'_, Self>) -> Result<(), Problem> {
        let rohc = member.medium.stream.rohc.as_ref();
        if rohc.is_none_or(|rohc| rohc.mode == RohcMode::Unidirectional) {
            return Ok(());
        }
        let problem =
            "of a cut link needs feedback on the carrier of the other machine: expected \"unidirectional\"";
        Err(Problem::new(member.place.key("medium.rohc.mode"), problem))
    }

    fn change(at: &Changing<'_, Self>, to: &mut Changes) -> Result<(), Problem> {
        refuse_fixed(at)?;
        let (had, wanted) = (at.before.medium, at.after.medium);
        let number = usize::from(at.handle.port.0);
        if had != wanted {
            let wanted = wanted.clone();
            to.set(at.handle.line, at.key("medium"), wanted, move |sender: &mut Sender, now, kind: Kind| {
                sender.set_stream(now, number, &kind.stream, kind.modcod)
            });
        }
        if let Some(queue) = at.queue()? {
            to.set(at.handle.line, at.key("queue"), queue, move |sender: &mut Sender, now, queue| {
                sender.set_queue(now, number, &queue)
            });
        }
        at.faults(to)
    }

    fn change_shared(
        before: &Named<Line>,
        after: &Named<Line>,
        parts: &SharedParts<bentpipe_sim::ElementId>,
        to: &mut Changes,
    ) -> Result<(), Problem> {
        for (name, line) in after.iter().filter(|(name, line)| before.get(*name) != Some(*line)) {
            let key = format!("dvb.{name}");
            let (framed, plain) = (parts.get(&gse_part(name)), parts.get(&key));
            for (senders, in_frames) in [(framed, true), (plain, false)] {
                let Some(senders) = senders else { continue };
                let had = before.get(name).ok_or_else(|| Problem::new(&key, "no such line"))?;
                if let Some(fixed) = had.fixed_key(line, in_frames) {
                    return Err(fixed_part(&key, fixed));
                }
                for sender in senders {
                    to.set(*sender, &key, line.clone(), |sender: &mut Sender, now, line: Line| {
                        sender.set_line(now, &line)
                    });
                }
            }
        }
        Ok(())
    }

    fn multicast(&self) -> Option<String> {
        self.multicast.map(|pid| format!("{} {}", self.line, pid.pid().number()))
    }

    fn copy(&mut self, n: u32) {
        self.stream.pid = self.stream.pid.plus(n).unwrap_or(self.stream.pid);
    }
}

fn check(member: &Member<'_, Kind>, all: &[Member<'_, Kind>], lines: &Named<Line>, review: &mut Review<'_>) {
    let (place, kind) = (member.place, member.medium);
    review.ensure_named(lines, "line of DVB", &place.key("medium.line"), &kind.line);
    review.ensure(
        !place.is_with_medium("rate"),
        &place.key("medium"),
        "conflicts with the medium: the line has a rate",
    );
    line::refuse_framing(member, "conflicts with the medium: a stream has its own framing", review);
    check_multicast(member, all, review);
    let is_possible = kind.receive_buffer.is_none_or(|packets| (1..=100_000).contains(&packets));
    let key = place.key("medium.receive_buffer");
    review.ensure(is_possible, &key, "expected 1 to 100000 TS packets");
    let in_frames = matches!(lines.get(&kind.line), Some(Line::DvbS2 { .. }));
    review.ensure(
        kind.receive_buffer.is_none() || !in_frames,
        &key,
        "conflicts with DVB-S2, whose receivers hand over frames: expected a line of TS packets",
    );
    let back = all.iter().find(|other| other.link == member.link && other.way != member.way);
    let has_feedback = back.is_some_and(|back| back.medium.stream.rohc.is_some());
    let mode = kind.stream.rohc.as_ref().map_or(RohcMode::Unidirectional, |rohc| rohc.mode);
    review.ensure(
        mode == RohcMode::Unidirectional || has_feedback,
        &place.key("medium.rohc.mode"),
        "no way back for feedback: expected \"unidirectional\", or `dvb` with `rohc` in the other direction",
    );
}

/// Checks that a stream for groups is the same in all its members.
fn check_multicast(member: &Member<'_, Kind>, all: &[Member<'_, Kind>], review: &mut Review<'_>) {
    let (place, kind) = (member.place, member.medium);
    if kind.multicast.is_none() {
        return;
    }
    let key = place.key("medium.multicast");
    let in_packets = kind.stream.encapsulation != Encapsulation::Gse;
    review.ensure(in_packets, &key, "conflicts with GSE, which has no PIDs: expected \"ule\" or \"mpe\"");
    let mode = kind.stream.rohc.as_ref().map_or(RohcMode::Unidirectional, |rohc| rohc.mode);
    review.ensure(
        mode == RohcMode::Unidirectional,
        &place.key("medium.rohc.mode"),
        "conflicts with `multicast`: one compressor cannot heed the feedback of many decompressors. Expected \"unidirectional\"",
    );
    let is_of_it =
        |other: &&Member<'_, Kind>| other.from == member.from && other.medium.multicast() == kind.multicast();
    let first = all.iter().find(is_of_it).map_or(member, |first| first);
    review.ensure(
        common_stream(first.medium) == common_stream(kind),
        &key,
        "expected the same encapsulation and compression as other links with this PID have, apart from `pid` and `to`",
    );
}

/// Returns the configuration of the stream for groups, if there is one.
fn common_stream(kind: &Kind) -> Option<Config> {
    kind.multicast.map(|pid| Config { pid, to: None, ..kind.stream.clone() })
}

/// Refuses changes that both ends of a stream would have to make.
fn refuse_fixed(at: &Changing<'_, Kind>) -> Result<(), Problem> {
    let (had, wanted) = (at.before.medium, at.after.medium);
    let (old, new) = (&had.stream, &wanted.stream);
    let is_varied = |kind: &Kind| kind.modcod.is_some();
    at.refuse(&[
        ("medium.line", had.line == wanted.line, "it stays in the multiplex that it started in"),
        ("medium.pid", old.pid == new.pid, "the receiver listens to the one it started with"),
        (
            "medium.encapsulation",
            old.encapsulation == new.encapsulation,
            "the receiver expects what it started with",
        ),
        (
            "medium.to",
            old.to == new.to || old.encapsulation != Encapsulation::Gse,
            "the receiver of shared frames listens to the one it started with",
        ),
        ("medium.rohc", old.rohc == new.rohc, "contexts at both ends go by it"),
        (
            "medium.multicast",
            had.multicast == wanted.multicast,
            "receivers listen to the one they started with",
        ),
        (
            "medium.receive_buffer",
            had.receive_buffer == wanted.receive_buffer,
            "a card keeps the buffers that it started with",
        ),
        ("medium.modcod", is_varied(had) == is_varied(wanted), "expected another one where there is one"),
        ("delay", at.before.common.delay == at.after.common.delay, "slots arrive in their order"),
    ])
}

/// Returns the path of the senders of a line whose streams are GSE.
fn gse_part(line: &str) -> String {
    format!("dvb.{line} gse")
}

/// Returns the refusal of a change of a line at a key.
fn fixed_part(line: &str, key: &str) -> Problem {
    let why = match key {
        "modcod" | "symbol_rate" => {
            "cannot be changed while it runs: a transport stream in BBFRAMEs keeps its frames. Expected streams of GSE"
        }
        "es_n0_db" => "cannot be added or removed while it runs: expected a value from the start",
        _ => {
            "cannot be changed while it runs: expected the rate of a transport stream, symbol and code rate of DVB-S, or \
             `symbol_rate`, `modcod`, `es_n0_db`, `margin_db` or `reaction` of DVB-S2"
        }
    };
    Problem::new(if key.is_empty() { line.to_owned() } else { format!("{line}.{key}") }, why)
}

/// Returns the rates of PAT and PMT by the node and the line of multiplexes.
fn rates_of_tables<'a>(
    all: &[Member<'a, Kind>],
    lines: &'a Named<Line>,
) -> HashMap<(&'a str, &'a str), Rate> {
    let mut streams: HashMap<(&str, &str), Vec<Config>> = HashMap::new();
    for member in all {
        let Some((line, at)) = lines.get_key_value(&member.medium.line) else { continue };
        if at.tables().is_some() {
            let copy = |n| {
                let mut kind = member.medium.clone();
                bentpipe_site::MediumKind::copy(&mut kind, n);
                kind.stream
            };
            streams.entry((member.from, line)).or_default().extend((0..member.copies).map(copy));
        }
    }
    let rate = |((from, line), streams): ((&'a str, &'a str), Vec<Config>)| {
        let interval = lines[line].tables()?;
        let tables = Tables::new(interval, 1, crate::tables::programmes(streams.iter()));
        let bytes = (tables.packets() * bentpipe_wire::ts::PACKET_LEN) as u64;
        Some(((from, line), Rate::of(Bytes::new(bytes), interval)))
    };
    streams.into_iter().filter_map(rate).collect()
}

/// Cost of packets in a stream.
struct StreamCost {
    rate: Rate,
    /// Rate of PAT and PMT of the multiplex.
    tables: Rate,
    line: Option<Line>,
    modcod: Option<Modcod>,
    /// Data fields over time, where there are frames.
    forecast: Option<Forecast>,
    /// Time from which on the forecast is asked.
    since: Span,
    stream: Config,
    multiplex: String,
}

impl Cost for StreamCost {
    fn rate(&self) -> Rate {
        self.rate
    }

    fn usable(&self) -> Rate {
        Rate::from_bps(self.rate.as_bps().saturating_sub(self.tables.as_bps()))
    }

    fn rates(&self) -> Vec<OwnRate> {
        self.forecast.as_ref().map(|forecast| forecast.rates(self.since)).unwrap_or_default()
    }

    /// Follows the signal: the sender knows it later, and steps to come end.
    fn follow(&mut self, before: &dyn Cost, at: Span) {
        let before = before.as_any().and_then(|before| before.downcast_ref::<StreamCost>());
        let forecast = before.and_then(|before| before.forecast.as_ref());
        if let (Some(forecast), Some(line)) = (forecast, &self.line) {
            let forecast = forecast.changed(at, line, self.modcod);
            (self.rate, self.since) = (forecast.rate(at), at);
            self.forecast = Some(forecast);
        }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn notes(&self, _len: usize) -> Vec<String> {
        let tables = (self.tables.as_bps() > 0).then(|| format!("PAT and PMT take {} of it", self.tables));
        tables.into_iter().collect()
    }

    fn wire_len(&self, len: usize) -> Bytes {
        self.stream.line_len(len)
    }

    fn mean_len(&self, len: usize) -> f64 {
        self.stream.octets(len, EtherType::IPV4)
    }

    /// Returns the time of whole frames, where there are frames.
    fn time(&self, len: usize) -> Span {
        let wire = self.wire_len(len);
        match &self.forecast {
            Some(forecast) => forecast.time(self.since, wire),
            None => self.usable().span_of(wire),
        }
    }

    fn compressed(&self, flows: u64, sample: &dyn Fn(u16) -> Option<Sample>) -> Option<Compressed> {
        compressed::compressed(&self.stream, flows, sample)
    }

    fn dropped(&self, sample: &dyn Fn() -> Option<Sample>) -> Option<f64> {
        self.stream.filter.dropped(sample)
    }

    fn shared(&self) -> Option<&str> {
        Some(&self.multiplex)
    }

    fn line_units(&self, nulls: bool) -> Option<LineUnits> {
        let line = self.line.as_ref()?;
        Some(capture::units_of(line, self.stream.encapsulation, nulls))
    }
}

/// Place of a member in its multiplex.
#[derive(Clone, Copy, Debug)]
struct Spot {
    /// Sending end.
    sender: Part,
    /// Number of the stream there.
    number: Port,
    /// Number of streams.
    streams: u16,
    /// Set if the streams are in baseband frames.
    in_frames: bool,
}

impl Spot {
    /// Returns the input for feedback that is to be sent.
    fn to_send(self) -> At {
        (self.sender, Port(self.streams + self.number.0))
    }

    /// Returns the input for feedback that came.
    fn came(self) -> At {
        (self.sender, Port(2 * self.streams + self.number.0))
    }
}

struct Multiplexes<'s> {
    row: usize,
    all: Vec<Member<'s, Kind>>,
    lines: &'s Named<Line>,
    places: Vec<Option<Spot>>,
    /// Slots of each member's carrier.
    slots: Vec<Option<Slots>>,
    wired: Vec<Option<Wired>>,
}

impl Assembly for Multiplexes<'_> {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), Problem> {
        let mut multiplexes: IndexMap<String, Vec<usize>> = IndexMap::new();
        for (n, member) in self.all.iter().enumerate() {
            if let Some((line, _)) = self.lines.get_key_value(&member.medium.line) {
                multiplexes.entry(format!("dvb/{line}/{}", member.from)).or_default().push(n);
            }
        }
        for (n, (path, members)) in multiplexes.into_iter().enumerate() {
            let sender = self.sender(&members)?;
            let slots = sender.slots();
            let sender = site.add(Order::Shared(self.row, n), path, sender);
            for (number, member) in members.iter().enumerate() {
                let kind = self.all[*member].medium;
                let is_gse = kind.stream.encapsulation == Encapsulation::Gse;
                let in_frames = is_gse || matches!(self.lines[&kind.line], Line::DvbS2 { .. });
                let (number, streams) = (Port(number as u16), members.len() as u16);
                self.places[*member] = Some(Spot { sender, number, streams, in_frames });
                self.slots[*member] = Some(slots.clone());
            }
        }
        Ok(())
    }

    fn wire(&mut self, number: usize, site: &mut Site<'_>) -> Result<Wired, Problem> {
        let member = self.all[number];
        let none = || Problem::new(member.place.key("medium.line"), "no such line");
        let spot = self.places[number].ok_or_else(none)?;
        let (line, path) = ((spot.sender, spot.number), member.path());
        let channels = site.faults((member.link, member.way, &path), member.common, member.place, line)?;
        let last = channels.last().map_or(line, |last| (*last, Port(0)));
        let receiver = Receiver::new(&member.medium.stream)
            .map_err(|error| Problem::impossible(&member.place.key("medium"), &error))?;
        let receiver = match common_stream(member.medium) {
            Some(common) => receiver
                .hearing(&common)
                .map_err(|error| Problem::impossible(&member.place.key("medium"), &error))?,
            None => receiver,
        };
        let receiver = match (member.medium.receive_buffer, &self.slots[number]) {
            (Some(packets), Some(slots)) => receiver.behind_card(slots.clone(), packets),
            _ => receiver,
        };
        let stream = &member.medium.stream;
        let label = self.lines[&member.medium.line].label(stream, spot.number.0.into(), spot.streams.into());
        let receiver = match label {
            Some(label) => receiver.of_label(label),
            None => receiver,
        };
        let order = Order::Link(member.link, member.way, Slot::Receiver);
        let receiver = site.add(order, format!("{path}/receiver"), receiver);
        site.connect(last, (receiver, Port(0)));
        let (output, receiver) = ((receiver, Port(0)), Some(receiver));
        let rate = self.lines[&member.medium.line].rate();
        let wired = Wired { output, channels, receiver, ..Wired::new(line, rate) };
        self.wired[number] = Some(wired.clone());
        Ok(wired)
    }

    /// Connects each receiving end to the sending end of the other direction, for feedback.
    fn end(&mut self, site: &mut Site<'_>) {
        for (n, member) in self.all.iter().enumerate() {
            let is_back = |other: &usize| {
                let other = &self.all[*other];
                other.link == member.link && other.way != member.way
            };
            let back = (0..self.all.len()).find(is_back).and_then(|back| self.places[back]);
            let receiver = self.wired[n].as_ref().and_then(|wired| wired.receiver);
            if let (Some(_), Some(back), Some(receiver)) = (self.places[n], back, receiver) {
                site.connect((receiver, Port(1)), back.to_send());
                site.connect((receiver, Port(2)), back.came());
            }
        }
    }

    fn on_line(&self, member: usize, nulls: bool) -> Option<CapturePoint<At>> {
        let spot = self.places[member]?;
        let (suffix, kind) = (capture::suffix(spot.in_frames), self.all[member].medium);
        let merge = if kind.stream.encapsulation == Encapsulation::Gse {
            None
        } else {
            let idle = Idle::new(self.lines.get(&kind.line)?, self.slots[member].clone()?);
            let farthest = self.siblings(spot).map(|n| self.all[n].common.delay).max().unwrap_or_default();
            Some(capture::Merge::new(idle, self.all[member].common.delay, farthest, nulls))
        };
        let inputs = match merge {
            None => vec![self.first(member)?],
            Some(_) => self.siblings(spot).filter_map(|n| self.first(n)).collect(),
        };
        let format = Box::new(capture::Units::new(spot.in_frames, merge));
        Some(CapturePoint { suffix, inputs, format })
    }

    fn shared_parts(&self) -> SharedParts<Part> {
        let mut parts = SharedParts::new();
        for (member, spot) in self.all.iter().zip(&self.places) {
            let Some(spot) = spot else { continue };
            let is_gse = member.medium.stream.encapsulation == Encapsulation::Gse;
            let line = &member.medium.line;
            let key = if is_gse { gse_part(line) } else { format!("dvb.{line}") };
            let senders: &mut Vec<Part> = parts.entry(key).or_default();
            if !senders.contains(&spot.sender) {
                senders.push(spot.sender);
            }
        }
        parts
    }
}

impl Multiplexes<'_> {
    /// Returns the members of a multiplex.
    fn siblings(&self, spot: Spot) -> impl Iterator<Item = usize> {
        let is_sibling = move |n: &usize| self.places[*n].is_some_and(|other| other.sender == spot.sender);
        (0..self.all.len()).filter(is_sibling)
    }

    /// Returns the input where units of a member arrive first.
    fn first(&self, member: usize) -> Option<At> {
        let wired = self.wired[member].as_ref()?;
        Some((wired.channels.first().copied().or(wired.receiver)?, Port(0)))
    }

    fn sender(&self, members: &[usize]) -> Result<Sender, Problem> {
        let paths: Vec<PathConfig> = members.iter().map(|member| path(&self.all[*member])).collect();
        let line = &self.all[members[0]].medium.line;
        // Inputs of 16 bits have room for three of each stream.
        if paths.len() > usize::from(u16::MAX / 3) {
            return Err(Problem::new(format!("dvb.{line}"), "more than 21845 streams from one node"));
        }
        Sender::new(&self.lines[line], &paths).map_err(|refusal| self.problem(line, members, &refusal))
    }

    fn problem(&self, line: &str, members: &[usize], refusal: &Refusal) -> Problem {
        let member = refusal.path.and_then(|number| members.get(number));
        let part = if refusal.part == "dvb" { "medium" } else { refusal.part };
        let key = member.map_or(format!("dvb.{line}"), |member| self.all[*member].place.key(part));
        Problem::impossible(&key, &refusal.impossible)
    }
}

fn path(member: &Member<'_, Kind>) -> PathConfig {
    let (common, kind) = (member.common, member.medium);
    PathConfig {
        name: member.path(),
        dvb: kind.stream.clone(),
        common: common_stream(kind),
        modcod: kind.modcod,
        queue: common.queue.clone().unwrap_or_default(),
        delay: common.delay,
        mtu: common.mtu,
    }
}
