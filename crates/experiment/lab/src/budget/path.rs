//! The way of a flow: its links, and the lengths of its packets on each.

use std::collections::BTreeSet;

use bentpipe_dvb::udlr;
use bentpipe_net::channel::pieces::{self, Stage};
use bentpipe_scenario::{Flow, Hop, Ip, Problem, Role, Scenario, Traffic, Way};
use bentpipe_site::{
    Compressed, Passage, Recorded, Router, Sample, Topology, TrafficKind, Window, header_len, path_mtu,
};
use bentpipe_telephony::load::VoiceLeg;
use bentpipe_transport::tcp;
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::ip::fragments;
use bentpipe_wire::ip::tcp::HEADER_LEN;

use super::conference::Mix;
use super::fragments::Fragments;
use super::medium::Media;
use super::sent::{Sent, at_least_one};
use super::states::{Part, States};
use super::takes::Takes;
use super::voice::Voice;

/// Packets between two nodes: those of a flow, or of its voice on a leg.
pub(super) struct Load<'a> {
    pub(super) ends: [&'a str; 2],
    pub(super) ip: Ip,
    /// Length of transport headers.
    pub(super) header_len: u64,
    /// Length of a packet and of an answer without their IP header.
    pub(super) segment_len: Option<u64>,
    pub(super) answer_len: u64,
    /// Set if it cuts its data to what the path carries.
    pub(super) cuts: bool,
    pub(super) answers: bool,
    /// Mean number of answers to a packet.
    pub(super) answers_per_packet: f64,
    /// Window, if it is a connection.
    pub(super) window: Option<Window>,
    /// Voice, if that is what it is.
    pub(super) voice: Option<Voice>,
    /// Packets of a file, if that is what they are.
    pub(super) recorded: Option<Recorded>,
    /// Reason why its rate is not known before the run.
    pub(super) unknown: Option<&'static str>,
    /// DSCP of its packets, if it is known.
    pub(super) dscp: Option<u8>,
    /// Longest packet that passes to all members of a group. No limit for others.
    pub(super) mtu: u64,
}

impl<'a> Load<'a> {
    /// Returns the packets of a flow to one of its receivers.
    ///
    /// Those to a proxy come first.
    pub(super) fn of_flow(
        flow: &'a Flow,
        to: &'a str,
        recorded: Option<Recorded>,
        mix: Option<Mix>,
    ) -> impl Iterator<Item = Load<'a>> {
        let kind = flow.traffic.kind();
        let leg = kind.first_leg();
        let from = leg.as_ref().map_or(flow.from.as_str(), |(proxy, _)| proxy);
        let voice = mix.map(Voice::of_mix).or_else(|| Voice::of_traffic(&flow.traffic));
        let load = Load::of_kind(kind, [from, to], flow.ip);
        let listed = mix.map_or(0, |mix| (4.0 * mix.sources).round() as u64);
        let rest = Load {
            voice,
            recorded,
            header_len: load.header_len + listed,
            segment_len: load.segment_len.map(|len| len + listed),
            ..load
        };
        let first = leg.map(|(proxy, kind)| Load::of_kind(&*kind, [&flow.from, proxy], flow.ip));
        first.into_iter().chain([rest])
    }

    fn of_kind(kind: &dyn TrafficKind, ends: [&'a str; 2], ip: Ip) -> Load<'a> {
        Load {
            ends,
            ip,
            header_len: kind.header_len(),
            segment_len: kind.segment_len(),
            answer_len: kind.answer_len(),
            cuts: kind.cuts(),
            answers: kind.takes().answers,
            answers_per_packet: kind.answers_per_packet(),
            window: kind.window(),
            voice: None,
            recorded: None,
            unknown: kind.unknown_rate(),
            dscp: kind.dscp(),
            mtu: u64::MAX,
        }
    }
}

impl<'a> Load<'a> {
    /// Returns the packets of a leg of calls.
    pub(super) fn of_leg(leg: &'a VoiceLeg, ip: Ip) -> Load<'a> {
        let [there, back] = leg.ways;
        let len = |len: f64| len.round() as u64 + 8;
        Load {
            ends: leg.ends.each_ref().map(String::as_str),
            ip,
            header_len: len(there.len).saturating_sub(there.speech_len.round() as u64),
            segment_len: Some(len(there.len)),
            answer_len: len(back.len),
            cuts: false,
            answers: true,
            answers_per_packet: 0.0,
            window: None,
            voice: Some(Voice::of_leg(leg)),
            recorded: None,
            unknown: None,
            dscp: None,
            mtu: u64::MAX,
        }
    }
}

/// Hop limit of packets, and so the greatest number of links on a path.
pub(super) const MOST_LINKS: usize = 64;

/// Place that no packet of a flow passes.
#[derive(Clone, Debug)]
pub(super) struct Barrier {
    /// Number of the first link that they do not come to. That of all links if they come to the end, which refuses them.
    pub(super) hop: usize,
    /// Reason in a sentence.
    pub(super) why: String,
}

/// Way of packets.
pub(super) struct Path {
    pub(super) nodes: Vec<String>,
    pub(super) mtu: u64,
    pub(super) payload: u64,
    pub(super) packet: u64,
    /// Number of fragments of a datagram: payload and packet are means over them.
    pub(super) fragments: u64,
    /// Number of packets that are lost together. Fragments, or those of all segments of a bundle.
    pub(super) pieces: u64,
    /// Length of a whole packet and of its payload.
    pub(super) whole: [u64; 2],
    /// Numbers of links there and back on which the hop limit counts. Few have one.
    pub(super) links: [usize; 2],
    /// Place that none of its packets passes.
    pub(super) blocked: Option<Barrier>,
    /// Numbers of links there behind which a node makes packets of its own. Few have one.
    pub(super) stops: Vec<usize>,
    /// Set if what channels lose is sent again below its data.
    pub(super) repeats: bool,
    /// Set if it sends less where little arrives, and waits in outages.
    pub(super) waits: bool,
    /// Fragments of a packet and of an answer.
    longest: [Fragments; 2],
    /// Number and length of the fragments of an answer.
    answer: (u64, u64),
    answers: bool,
    /// Mean number of answers to a packet.
    answers_per_packet: f64,
    pub(super) window: Option<Window>,
    /// Links with what tunnels add to a packet there.
    there: Vec<(usize, Way, u64)>,
    back: Vec<(usize, Way, u64)>,
    /// Lengths behind header compression, by the links there, and by those back of voice.
    compressed: [Vec<Option<Compressed>>; 2],
    pub(super) voice: Option<Voice>,
    /// Mean rate of packets of a file.
    pub(super) recorded: Option<Rate>,
    /// Reason why its rate is not known before the run.
    pub(super) unknown: Option<&'static str>,
    /// Set if lengths of its packets are not known either.
    pub(super) is_unsized: bool,
    /// DSCP of its packets on each link there, where it is known.
    pub(super) dscps: Vec<Option<u8>>,
    /// Part of its packets that the filters of links drop, by links there.
    filtered: Vec<f64>,
}

/// Time of a resource that a bit of payload takes.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    pub(super) at: (usize, Way),
    pub(super) part: Part,
    /// Number of the link on the way there. Of answers it is that of all of them.
    pub(super) hop: usize,
    pub(super) own: f64,
    /// Length of its packets, if the time depends on it.
    pub(super) len: Option<usize>,
    /// DSCP of its packets, if it is known.
    pub(super) dscp: Option<u8>,
}

/// Voice of one copy of a flow on a direction of a link.
pub(super) struct VoiceOn {
    /// Mean number of calls at a time.
    pub(super) calls: f64,
    /// Packets of speech.
    pub(super) packets_per_s: f64,
    /// Packets of comfort noise per second, and the bytes by which one is shorter.
    pub(super) noise: (f64, u64),
    /// Length of its packets of speech.
    pub(super) len: u64,
    pub(super) compressed: Option<Compressed>,
}

impl Path {
    /// Creates the path of packets of a flow.
    pub(super) fn new(
        topology: &Topology,
        router: &mut Router<'_>,
        name: &str,
        load: Load<'_>,
    ) -> Result<Path, Problem> {
        let [from, to] = load.ends.map(|node| topology.number(node));
        let at = |problem: Problem| Problem::new(format!("flow.{name}.to"), problem.problem);
        let mtu = path_mtu(router, from, to, load.ip).map_err(at)?.min(load.mtu);
        let there = links(topology, router, from, to, load.ip, 0).map_err(at)?;
        let back = match load.answers {
            true => links(topology, router, to, from, load.ip, 0).map_err(at)?,
            false => Vec::new(),
        };
        let mut steps = |from: usize, to: usize, hops: &[(usize, Way, u64)]| match hops.len() > MOST_LINKS {
            true => router.path(from, to, load.ip).map_or(0, |path| path.len()),
            false => hops.len(),
        };
        let counts = [steps(from, to, &there), steps(to, from, &back)];
        // Packets of a file count whole, and by their mean length.
        let mean = load.recorded.as_ref().map(|file| file.bytes.get().div_ceil(file.packets.max(1)));
        let headers = if mean.is_some() { 0 } else { header_len(load.ip, load.header_len).get() };
        let is_unsized = load.unknown.is_some() && load.segment_len.is_none();
        let longest = load.segment_len.map_or(mtu, |len| header_len(load.ip, len).get());
        let longest = mean.unwrap_or(longest);
        let longest = if load.cuts { longest.min(mtu) } else { longest };
        let is_v4 = load.ip == Ip::V4;
        let (fragments, total) = fragments::sizes(is_v4, longest, mtu);
        let packet = total / fragments;
        let nodes = nodes(topology, from, &there);
        let whole = [longest, longest.saturating_sub(headers)];
        let payload = whole[1] / fragments;
        let answer_len = header_len(load.ip, load.answer_len).get();
        let answer = fragments::sizes(is_v4, answer_len, mtu);
        let answer = (answer.0, answer.1 / answer.0);
        let all = [longest, answer_len].map(|len| Fragments::of(load.ip, len, mtu));
        let Load { answers, window, voice, .. } = load;
        // Speech goes both ways.
        let speech = voice.as_ref().map(|voice| voice.packets_per_s[1] / voice.packets_per_s[0]);
        let answers_per_packet = speech.filter(|ratio| ratio.is_finite()).unwrap_or(load.answers_per_packet);
        let compressed = Default::default();
        let (dscps, filtered) = (vec![load.dscp; there.len()], vec![0.0; there.len()]);
        let rate = |file: &Recorded| Rate::of(file.bytes, file.lasts);
        let recorded = load.recorded.as_ref().filter(|file| !file.lasts.is_zero()).map(rate);
        Ok(Path {
            nodes,
            mtu,
            payload,
            packet,
            fragments,
            pieces: fragments,
            whole,
            links: counts,
            blocked: None,
            stops: Vec::new(),
            repeats: false,
            waits: false,
            longest: all,
            answer,
            answers,
            answers_per_packet,
            window,
            there,
            back,
            compressed,
            voice,
            recorded,
            unknown: load.unknown,
            dscps,
            filtered,
            is_unsized,
        })
    }

    /// Computes header compression of `flows` copies on each link outside of tunnels.
    pub(super) fn compress(&mut self, media: &Media<'_>, flow: &Flow, flows: impl Fn(usize) -> u64) {
        let voice = self.voice.as_ref();
        let leg = voice.and_then(|voice| voice.leg.as_ref());
        let sample = |copies| -> Option<Sample> {
            leg.map_or_else(|| flow.traffic.kind().sample(flow.ip, copies), |leg| leg.sample(flow.ip, copies))
        };
        let calls = leg.map_or(1.0, |leg| leg.calls);
        // Lengths behind compression are those of whole packets.
        let is_whole = self.fragments == 1;
        let on = |&(link, way, more): &(usize, Way, u64)| {
            let cost = (more == 0 && is_whole).then(|| media.cost(link, way))?;
            let flows = (flows(link) as f64 * calls).ceil() as u64;
            cost.compressed(flows.max(1), &sample)
        };
        let back = if voice.is_some() { self.back.iter().map(on).collect() } else { Vec::new() };
        self.compressed = [self.there.iter().map(on).collect(), back];
    }

    /// Returns its voice on a direction of a link, there and back.
    pub(super) fn voice_on(&self, link: usize, way: Way) -> impl Iterator<Item = VoiceOn> {
        let voice = self.voice.as_ref().into_iter();
        voice.flat_map(move |voice| {
            let ways = [(&self.there, self.packet), (&self.back, self.answer.1)].into_iter().enumerate();
            ways.flat_map(move |(n, (hops, len))| {
                let here = hops.iter().enumerate().filter(move |(_, hop)| (hop.0, hop.1) == (link, way));
                here.map(move |(at, hop)| VoiceOn {
                    calls: voice.calls,
                    packets_per_s: voice.packets_per_s[n],
                    noise: voice.noise,
                    len: len + hop.2,
                    compressed: self.compressed[n].get(at).copied().flatten(),
                })
            })
        })
    }

    /// Returns the links there that compress headers, with the lengths.
    pub(super) fn compressed(&self) -> impl Iterator<Item = ((usize, Way), Compressed)> {
        let links = self.there.iter().map(|(link, way, _)| (*link, *way));
        links.zip(&self.compressed[0]).filter_map(|(link, compressed)| Some((link, (*compressed)?)))
    }

    /// Returns the round trips in front of a node on the way and behind it.
    ///
    /// `None` if the way back does not pass it too.
    pub(super) fn legs(&self, topology: &Topology, media: &Media<'_>, node: usize) -> Option<[Span; 2]> {
        let at = 1 + self.there.iter().position(|hop| topology.link_ends(hop.0, hop.1)[1] == node)?;
        let back_at = 1 + self.back.iter().position(|hop| topology.link_ends(hop.0, hop.1)[1] == node)?;
        let [first, last] = [&self.there[..at], &self.there[at..]].map(|hops| time(media, hops, self.packet));
        let [back_first, back_last] =
            [&self.back[..back_at], &self.back[back_at..]].map(|hops| time(media, hops, self.answer.1));
        Some([first + back_last, back_first + last])
    }

    /// Returns the directions of links that it uses, each once.
    pub(super) fn directions(&self) -> BTreeSet<(usize, Way)> {
        self.there.iter().chain(&self.back).map(|(link, way, _)| (*link, *way)).collect()
    }

    /// Returns the length of its packets on a link: data forward, answers back.
    pub(super) fn packet_on(&self, link: usize, way: Way) -> Option<u64> {
        let on = |hops: &[(usize, Way, u64)], len: u64| {
            let hop = hops.iter().find(|hop| (hop.0, hop.1) == (link, way));
            hop.map(|(_, _, more)| len + more)
        };
        on(&self.there, self.packet).or_else(|| on(&self.back, self.answer.1))
    }

    /// Returns the length of its data's packets on a direction of a link.
    pub(super) fn data_on(&self, link: usize, way: Way) -> Option<u64> {
        let hop = self.there.iter().find(|hop| (hop.0, hop.1) == (link, way));
        hop.map(|(_, _, more)| self.packet + more)
    }

    /// Returns the numbers of packets there and of answers back for a bit of payload.
    pub(super) fn per_bit(&self) -> [f64; 2] {
        let data = self.fragments as f64 / (8 * self.whole[1].max(1)) as f64;
        [data, self.answers_per_packet * self.answer.0 as f64 * data / self.fragments as f64]
    }

    /// Returns the time of each resource that a bit of payload takes.
    ///
    /// Packets take it there, and answers back.
    pub(super) fn loads(&self, media: &Media<'_>) -> Vec<Taken> {
        let per_bit = 1.0 / (8 * self.whole[1].max(1)) as f64;
        // Cells, minimum frames and thresholds have no cost of a mean length.
        let pieces = |n: usize, (count, len): (u64, u64)| match self.longest[n] {
            of if of.count > 1 && of.count == count => [(of.longest, count - 1), (of.last, 1)],
            _ => [(len, count), (len, 0)],
        };
        let sent = pieces(0, (self.fragments, self.packet));
        let there = self.there.iter().zip(&self.compressed[0]).enumerate();
        let there = there.flat_map(|(n, (hop, compressed))| {
            sent.map(|(len, count)| (n, *hop, len, *compressed, count as f64 * per_bit))
        });
        let (last, answers) = (self.there.len(), self.answers_per_packet * per_bit);
        let answered = pieces(1, self.answer);
        let back = self.back.iter().enumerate().flat_map(|(n, hop)| {
            let compressed = self.compressed[1].get(n).copied().flatten();
            answered.map(|(len, count)| (last, *hop, len, compressed, count as f64 * answers))
        });
        let all = there.chain(back).filter(|(.., count)| *count > 0.0);
        all.flat_map(|(hop, (link, way, more), len, compressed, count)| {
            // Codepoints of answers are not known.
            let dscp = self.dscps.get(hop).copied().flatten();
            let packet = Sent { len: (len + more) as usize, compressed, dscp };
            packet.takes(media, (link, way)).into_iter().map(move |(part, seconds, len)| Taken {
                at: (link, way),
                part,
                hop,
                own: seconds * count,
                len,
                dscp,
            })
        })
        .collect()
    }

    /// Returns the parts of packets that come to each link there and to the end.
    ///
    /// Links carry duplicates. The end counts each packet once, and one in fragments with all of them. Nothing comes behind a barrier.
    pub(super) fn passing(&self, media: &Media<'_>, states: &States, state: usize, slows: bool) -> Vec<f64> {
        let (losses, time) = (&states.losses, states.start(state));
        let mut all = Vec::with_capacity(self.there.len() + 1);
        let blocked = self.blocked.as_ref().map_or(usize::MAX, |barrier| barrier.hop);
        let mut arrives = 1.0;
        for leg in self.legs_there() {
            let (first, mut comes) = (all.len(), arrives);
            let is_whole = whole(lengths(leg, self.packet), self.pieces, (media, states, state), slows);
            // What is lost is sent again.
            let repeats = self.repeats && is_whole > 0.0;
            comes = if repeats { comes / is_whole } else { comes };
            for (n, (link, way, more)) in leg.iter().enumerate() {
                all.push(if first + n < blocked { comes } else { 0.0 });
                let (at, len) = ((*link, *way), self.packet + more);
                let of_medium = states.cost(state, media, at).mean_loss(len as usize, 1);
                comes *= (1.0 - losses.part(at, time, len)) * (1.0 - of_medium) * losses.copies(at, time);
                comes *= 1.0 - self.filtered.get(first + n).copied().unwrap_or(0.0);
                comes *= if slows { 1.0 } else { states.received(state, at) };
            }
            arrives *= if repeats { 1.0 } else { is_whole };
        }
        all.push(if blocked == usize::MAX { arrives } else { 0.0 });
        all
    }

    /// Returns the part of packets that a state loses between nodes that make their own.
    pub(super) fn repeated(&self, media: &Media<'_>, states: &States, state: usize) -> f64 {
        let whole = |leg| whole(lengths(leg, self.packet), self.fragments, (media, states, state), true);
        1.0 - self.legs_there().map(whole).product::<f64>()
    }

    /// Returns the links there between nodes that make packets of their own.
    fn legs_there(&self) -> impl Iterator<Item = &[(usize, Way, u64)]> {
        let ends = self.stops.iter().copied().chain([self.there.len()]);
        let mut from = 0;
        ends.map(move |to| &self.there[std::mem::replace(&mut from, to)..to])
    }

    /// Returns the parts of its packets that come in a state, and that are answered.
    pub(super) fn answered(&self, media: &Media<'_>, states: &States, state: usize) -> [f64; 2] {
        let at = (media, states, state);
        let go = || lengths(&self.there, self.packet);
        let come = || lengths(&self.back, self.answer.1);
        let there = whole(go(), self.fragments, at, false);
        if self.fragments > 1 || self.answer.0 > 1 {
            return [there, there * whole(come(), self.answer.0, at, false)];
        }
        // Each copy of a packet has an answer.
        [there, whole(go().chain(come()), 1, at, false)]
    }

    /// Returns the links there, with what tunnels add to a packet.
    pub(super) fn hops_there(&self) -> &[(usize, Way, u64)] {
        &self.there
    }

    /// Computes what the filters of links drop of its packets, outside of tunnels.
    pub(super) fn filter(&mut self, media: &Media<'_>, flow: &Flow) {
        let on = |&(link, way, more): &(usize, Way, u64)| {
            let sample = || flow.traffic.kind().sample(flow.ip, 1);
            let is_plain = more == 0
                && self.fragments == 1
                && self.voice.as_ref().is_none_or(|voice| voice.leg.is_none());
            media.cost(link, way).dropped(&|| sample().filter(|_| is_plain))
        };
        self.filtered = self.there.iter().map(|hop| on(hop).unwrap_or(0.0)).collect();
    }

    /// Returns the place of the first link there whose filter drops all packets.
    pub(super) fn filter_of_all(&self) -> Option<usize> {
        self.filtered.iter().position(|part| *part == 1.0)
    }

    /// Returns `true` if answers take a part of what its packets pass.
    pub(super) fn answers(&self) -> bool {
        self.answers_per_packet > 0.0
    }

    /// Returns `true` if each of its packets has an answer that is asked for.
    pub(super) fn asks(&self) -> bool {
        self.window.is_none() && self.voice.is_none() && self.answers_per_packet > 0.0
    }

    /// Returns `true` if only its answers use a direction of a link.
    pub(super) fn answers_on(&self, link: usize, way: Way) -> bool {
        !self.there.iter().any(|hop| (hop.0, hop.1) == (link, way))
    }

    /// Returns the length of an answer, or of its fragments.
    pub(super) fn answer_len(&self) -> u64 {
        self.answer.1
    }

    /// Returns least, mean and greatest round trip without queueing in some states.
    pub(super) fn round_trips(
        &self,
        media: &Media<'_>,
        states: &States,
        of: &[(usize, f64)],
    ) -> Option<[Span; 3]> {
        self.answers.then_some(())?;
        let rtt = |state| self.ways_s(media, states, state).iter().sum::<f64>();
        let all = || of.iter().map(|(state, part)| (rtt(*state), part));
        let least = all().fold(f64::INFINITY, |least, (rtt, _)| least.min(rtt));
        let most = all().fold(0.0, |most: f64, (rtt, _)| most.max(rtt));
        Some([least, all().map(|(rtt, part)| rtt * part).sum(), most].map(Span::from_secs_f64))
    }

    /// Returns the mean goodput that a window allows in some states.
    ///
    /// Each has a round trip of its own.
    pub(super) fn window_rate(
        &self,
        most: Bytes,
        media: &Media<'_>,
        states: &States,
        of: &[(usize, f64)],
    ) -> Rate {
        let rates = of.iter().map(|(state, part)| {
            let rtt: Span = self.ways(media, states, *state).into_iter().sum();
            part * if rtt.is_zero() { 1e15 } else { Rate::of(most, rtt).as_bps() as f64 }
        });
        Rate::from_bps(rates.sum::<f64>().round() as u64)
    }

    /// Returns propagation and transmission there and back in a state, without queueing.
    pub(super) fn ways(&self, media: &Media<'_>, states: &States, state: usize) -> [Span; 2] {
        self.ways_s(media, states, state).map(Span::from_secs_f64)
    }

    fn ways_s(&self, media: &Media<'_>, states: &States, state: usize) -> [f64; 2] {
        [(&self.there, self.longest[0]), (&self.back, self.longest[1])].map(|(hops, fragments)| {
            let fixed = train(media, hops, fragments).as_secs_f64();
            let nominal: Span = hops.iter().map(|hop| media.delay(hop.0, hop.1)).sum();
            let delays: Span = hops.iter().map(|hop| states.delay(state, media, (hop.0, hop.1))).sum();
            let more = slower(hops, fragments, (media, states, state));
            (fixed - nominal.as_secs_f64() + delays.as_secs_f64() + more).max(0.0)
        })
    }

    /// Returns the first and the last link there that change with a state.
    pub(super) fn changes_there(&self, states: &States, state: usize) -> Option<[usize; 2]> {
        changed(&self.there, states, state)
    }

    /// Returns the first and the last link back that change with a state.
    pub(super) fn changes_back(&self, states: &States, state: usize) -> Option<[usize; 2]> {
        changed(&self.back, states, state)
    }

    /// Returns the seconds there in a state without queueing.
    pub(super) fn takes_there(&self, media: &Media<'_>, states: &States, state: usize) -> Takes {
        Takes::new(&self.there, self.ways_s(media, states, state)[0], (media, states, state))
    }

    /// Returns the seconds back in a state without queueing.
    pub(super) fn takes_back(&self, media: &Media<'_>, states: &States, state: usize) -> Takes {
        Takes::new(&self.back, self.ways_s(media, states, state)[1], (media, states, state))
    }

    /// Returns the links back.
    pub(super) fn ways_back(&self) -> Vec<(usize, Way)> {
        self.back.iter().map(|hop| (hop.0, hop.1)).collect()
    }

    /// Returns propagation and transmission of a full packet, or of all its fragments.
    pub(super) fn one_way(&self, media: &Media<'_>) -> Span {
        train(media, &self.there, self.longest[0])
    }

    /// Returns the mean wait of a packet and its answer for media. Round trips are without it.
    pub(super) fn waits(&self, media: &Media<'_>) -> Span {
        let of = |hops: &[(usize, Way, u64)], len: u64| -> Span {
            hops.iter().map(|hop| media.cost(hop.0, hop.1).waits((len + hop.2) as usize)).sum()
        };
        of(&self.there, self.packet) + of(&self.back, self.answer.1)
    }

    /// Returns the bytes that classes pass beyond their ceilings there. `None` without ceilings.
    pub(super) fn class_burst(&self, media: &Media<'_>) -> Option<u64> {
        let hops = self.there.iter().zip(&self.dscps).map(|(hop, dscp)| ((hop.0, hop.1), *dscp));
        let of_hop = |(at, dscp): ((usize, Way), Option<u8>)| {
            let classes = media.ceilings.numbers(at, dscp).into_iter();
            let bursts = classes.map(move |class| media.ceilings.burst(at, (class, dscp)));
            // A packet leaves whole where a bit of it may.
            bursts.map(move |burst| burst.get() + media.layout.mtu(at.0).get())
        };
        hops.flat_map(of_hop).reduce(|sum, burst| sum + burst)
    }

    /// Returns the mean number of answers to a packet.
    pub(super) fn answers_per_packet(&self) -> f64 {
        self.answers_per_packet
    }

    /// Returns the links back, with what tunnels add to a packet.
    pub(super) fn hops_back(&self) -> &[(usize, Way, u64)] {
        &self.back
    }

    /// Returns the lengths of a handshake's packets there and back.
    pub(super) fn handshake_len(&self, flow: &Flow) -> [u64; 2] {
        match &flow.traffic {
            Traffic::Tcp(tcp) => [syn_len(flow.ip, tcp); 2],
            _ => [self.packet.min(self.answer.1); 2],
        }
    }

    /// Returns the seconds of a transmission on a link, in a state or the file.
    pub(super) fn sending(
        &self,
        hop: &(usize, Way, u64),
        len: u64,
        (media, states, state): (&Media<'_>, &States, Option<usize>),
    ) -> f64 {
        let (at, len) = ((hop.0, hop.1), (len + hop.2) as usize);
        let in_file = media.cost(hop.0, hop.1).time(len).as_secs_f64();
        let factor = state.map_or(1.0, |state| states.factor((state, Part::Line), media, at, Some(len)));
        if factor > 0.0 { in_file / factor } else { in_file }
    }

    /// Returns the seconds between packets that wait on one of its links in a state. `None` while it is down.
    pub(super) fn distance(
        &self,
        hop: &(usize, Way, u64),
        len: u64,
        (media, states, state): (&Media<'_>, &States, Option<usize>),
    ) -> Option<f64> {
        let (at, len) = ((hop.0, hop.1), (len + hop.2) as usize);
        let in_file = 8.0 * len as f64 / at_least_one(media.cost(hop.0, hop.1).capacity(len));
        let factor = state.map_or(1.0, |state| states.factor((state, Part::Line), media, at, Some(len)));
        (factor > 0.0).then(|| in_file / factor)
    }
}

/// Returns the first and the last of some links that change with a state.
fn changed(hops: &[(usize, Way, u64)], states: &States, state: usize) -> Option<[usize; 2]> {
    let is_new = |hop: &(usize, Way, u64)| !states.are_alike([state - 1, state], (hop.0, hop.1));
    Some([hops.iter().position(is_new)?, hops.iter().rposition(is_new)?])
}

/// Returns the part of packets that arrive whole in a state.
///
/// They are in `pieces`, whose lengths are with the links. A sender that slows down waits in outages, which have no part here.
fn whole(
    hops: impl Iterator<Item = (usize, Way, u64)>,
    pieces: u64,
    (media, states, state): (&Media<'_>, &States, usize),
    slows: bool,
) -> f64 {
    let (mut stages, mut whole, mut is_copied) = (Vec::new(), 1.0, false);
    for (link, way, len) in hops {
        let at = (link, way);
        let of_medium = |count| states.cost(state, media, at).mean_loss(len as usize, count);
        match is_copied {
            true => stages.push(Stage::Loss(of_medium(1))),
            false => whole *= 1.0 - of_medium(pieces),
        }
        // What comes in one time is lost together.
        whole *= if slows { 1.0 } else { states.received(state, at) };
        stages.extend(states.losses.stages(at, states.start(state), len));
        is_copied |= stages.iter().any(|stage| matches!(stage, Stage::Copies(_)));
    }
    whole * pieces::arrives(&stages, pieces)
}

/// Returns links with the lengths of packets there.
fn lengths(hops: &[(usize, Way, u64)], len: u64) -> impl Iterator<Item = (usize, Way, u64)> {
    hops.iter().map(move |(link, way, more)| (*link, *way, len + more))
}

/// Returns the length of a SYN with the options of a connection.
fn syn_len(ip: Ip, tcp: &tcp::Config) -> u64 {
    let more = [(tcp.sack, 2), (tcp.timestamps, 10), (tcp.window_scaling, 3)];
    let options: u64 =
        4 + more.into_iter().map(|(is_there, len)| if is_there { len } else { 0 }).sum::<u64>();
    header_len(ip, HEADER_LEN as u64 + options.next_multiple_of(4)).get()
}

/// Returns the seconds by which transmissions are longer in a state than in the file.
///
/// Fragments follow each other at the slowest line.
fn slower(
    hops: &[(usize, Way, u64)],
    Fragments { count, mean, .. }: Fragments,
    (media, states, state): (&Media<'_>, &States, usize),
) -> f64 {
    let takes = |&(link, way, more): &(usize, Way, u64)| {
        let len = (mean + more) as usize;
        let in_file = media.cost(link, way).time(len).as_secs_f64();
        let factor = states.factor((state, Part::Line), media, (link, way), Some(len));
        (in_file, if factor > 0.0 { in_file / factor } else { in_file })
    };
    let all: Vec<(f64, f64)> = hops.iter().map(takes).collect();
    let train = |of: fn(&(f64, f64)) -> f64| {
        let slowest = all.iter().map(of).fold(0.0, f64::max);
        all.iter().map(of).sum::<f64>() + slowest * count.saturating_sub(1) as f64
    };
    train(|(_, now)| *now) - train(|(in_file, _)| *in_file)
}

/// Returns the time until the last of some packets of one length has arrived.
///
/// All but the last have the length of the first, and `len` is the mean. They queue at each link.
fn train(media: &Media<'_>, hops: &[(usize, Way, u64)], fragments: Fragments) -> Span {
    let Fragments { count, mean, longest, last } = fragments;
    if count == 1 {
        return time(media, hops, mean);
    }
    // Arrivals of the first one, of the last of those alike, and of the last one.
    let [mut first, mut alike, mut end] = [Span::ZERO; 3];
    let mut slowest = Span::ZERO;
    for &(link, way, more) in hops {
        let (cost, delay) = (media.cost(link, way), media.delay(link, way));
        let alone = |len: u64| cost.time((len + more) as usize);
        let next = |len: u64| cost.usable().span_of(cost.wire_len((len + more) as usize));
        if next(longest) < alone(longest) {
            // Frames have room for several.
            let whole = first + cost.time((mean * count + more * count) as usize);
            end = whole.max(end + alone(last)) + delay;
            alike = end;
        } else {
            alike += alone(longest) + alone(longest).saturating_sub(slowest) * (count - 2);
            end = (alike + alone(last)).max(end + alone(last)) + delay;
            alike += delay;
        }
        slowest = slowest.max(alone(longest).min(next(longest)));
        first += alone(longest) + delay;
    }
    end
}

fn time(media: &Media<'_>, hops: &[(usize, Way, u64)], len: u64) -> Span {
    let hop = |&(link, way, more): &(usize, Way, u64)| {
        media.delay(link, way) + media.cost(link, way).time((len + more) as usize)
    };
    hops.iter().map(hop).sum()
}

/// Returns the links from node to node; those under a tunnel with its header.
fn links(
    topology: &Topology,
    router: &mut Router<'_>,
    from: usize,
    to: usize,
    ip: Ip,
    more: u64,
) -> Result<Vec<(usize, Way, u64)>, Problem> {
    let mut all = Vec::new();
    for hop in router.path(from, to, ip).map_err(|error| Problem::new("", error.to_string()))? {
        match hop {
            Hop::Link(link, way) if topology.link[link].passage[way.index()] == Passage::Tunnelled => {
                let [a, b] = topology.link_ends(link, way);
                let more = more + udlr::OVERHEAD as u64;
                all.extend(links(topology, &mut Router::underlay(topology), a, b, Ip::V4, more)?);
            }
            Hop::Link(link, way) => all.push((link, way, more)),
            Hop::Tunnel(tunnel, way) => {
                let [a, b] = topology.tunnel_ends(tunnel, way);
                all.extend(links(topology, router, a, b, Ip::V4, more + 20)?);
            }
        }
    }
    Ok(all)
}

fn nodes(topology: &Topology, from: usize, hops: &[(usize, Way, u64)]) -> Vec<String> {
    let first = topology.name(from).to_owned();
    let next = |&(link, way, _): &(usize, Way, u64)| {
        topology.link[link].between[usize::from(way == Way::Forward)].clone()
    };
    std::iter::once(first).chain(hops.iter().map(next)).collect()
}

/// Returns the first node on a path that splits connections, and the link behind it.
pub(super) fn splitter<'s>(scenario: &'s Scenario, path: &Path) -> Option<(&'s str, &'s str)> {
    let [_, inner @ .., _] = &path.nodes[..] else { return None };
    inner.iter().find_map(|node| {
        let (node, _) = scenario.node.get_key_value(node)?;
        let mut links = scenario.roles_of(node).iter().filter_map(Role::splits_at);
        let is_on = |link: &&str| {
            let number = scenario.link.get_index_of(*link);
            path.directions().iter().any(|(on, _)| Some(*on) == number)
        };
        Some((node.as_str(), links.find(is_on)?))
    })
}
