//! The way of a flow: its links, and the lengths of its packets on each.

use std::collections::BTreeSet;

use bentpipe_dvb::udlr;
use bentpipe_scenario::{Flow, Hop, Ip, Problem, Way};
use bentpipe_site::{
    Compressed, Passage, Router, Sample, Topology, TrafficKind, Window, header_len, path_mtu, stage,
};
use bentpipe_telephony::load::VoiceLeg;
use bentpipe_units::{Rate, Span};

use super::medium::Media;
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
    pub(super) answers: bool,
    /// Window, if it is a connection.
    pub(super) window: Option<Window>,
    /// Voice, if that is what it is.
    pub(super) voice: Option<Voice>,
}

impl<'a> Load<'a> {
    /// Returns the packets of a flow to one of its receivers.
    ///
    /// Those to a proxy come first.
    pub(super) fn of_flow(flow: &'a Flow, to: &'a str) -> impl Iterator<Item = Load<'a>> {
        let kind = flow.traffic.kind();
        let leg = kind.first_leg();
        let from = leg.as_ref().map_or(flow.from.as_str(), |(proxy, _)| proxy);
        let rest =
            Load { voice: Voice::of_traffic(&flow.traffic), ..Load::of_kind(kind, [from, to], flow.ip) };
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
            answers: kind.takes().answers,
            window: kind.window(),
            voice: None,
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
            answers: true,
            window: None,
            voice: Some(Voice::of_leg(leg)),
        }
    }
}

/// Way of packets.
pub(super) struct Path {
    pub(super) nodes: Vec<String>,
    pub(super) mtu: u64,
    pub(super) payload: u64,
    pub(super) packet: u64,
    answer: u64,
    answers: bool,
    pub(super) window: Option<Window>,
    /// Links with what tunnels add to a packet there.
    there: Vec<(usize, Way, u64)>,
    back: Vec<(usize, Way, u64)>,
    /// Lengths behind header compression, by the links there, and by those back of voice.
    compressed: [Vec<Option<Compressed>>; 2],
    pub(super) voice: Option<Voice>,
}

/// Voice of one copy of a flow on a direction of a link.
pub(super) struct VoiceOn {
    /// Mean number of calls at a time.
    pub(super) calls: f64,
    pub(super) packets_per_s: f64,
    /// Length of its packets.
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
        let mtu = path_mtu(router, from, to, load.ip).map_err(at)?;
        let there = links(topology, router, from, to, load.ip, 0).map_err(at)?;
        let back = match load.answers {
            true => links(topology, router, to, from, load.ip, 0).map_err(at)?,
            false => Vec::new(),
        };
        let headers = header_len(load.ip, load.header_len).get();
        let longest = load.segment_len.map_or(mtu, |len| header_len(load.ip, len).get());
        let packet = longest.min(mtu);
        let nodes = nodes(topology, from, &there);
        let payload = packet.saturating_sub(headers);
        let answer = header_len(load.ip, load.answer_len).get().min(mtu);
        let Load { answers, window, voice, .. } = load;
        let compressed = Default::default();
        Ok(Path { nodes, mtu, payload, packet, answer, answers, window, there, back, compressed, voice })
    }

    /// Computes header compression of `flows` copies on each link outside of tunnels.
    pub(super) fn compress(&mut self, media: &Media<'_>, flow: &Flow, flows: impl Fn(usize) -> u64) {
        let voice = self.voice.as_ref();
        let leg = voice.and_then(|voice| voice.leg.as_ref());
        let sample = |copies| -> Option<Sample> {
            leg.map_or_else(|| flow.traffic.kind().sample(flow.ip, copies), |leg| leg.sample(flow.ip, copies))
        };
        let calls = leg.map_or(1.0, |leg| leg.calls);
        let on = |&(link, way, more): &(usize, Way, u64)| {
            let cost = (more == 0).then(|| media.cost(link, way))?;
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
            let ways = [(&self.there, self.packet), (&self.back, self.answer)].into_iter().enumerate();
            ways.flat_map(move |(n, (hops, len))| {
                let here = hops.iter().enumerate().filter(move |(_, hop)| (hop.0, hop.1) == (link, way));
                here.map(move |(at, hop)| VoiceOn {
                    calls: voice.calls,
                    packets_per_s: voice.packets_per_s[n],
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
        on(&self.there, self.packet).or_else(|| on(&self.back, self.answer))
    }

    /// Returns the link with the least rate of payload, and that rate.
    pub(super) fn bottleneck(&self, media: &Media<'_>) -> ((usize, Way), Rate) {
        let rate = |&(link, way, more): &(usize, Way, u64)| {
            let ip = match self.compressed().find(|(at, _)| *at == (link, way)) {
                Some((_, compressed)) => media
                    .cost(link, way)
                    .usable()
                    .mul_f64(self.packet as f64 / compressed.on_line_bytes.max(1.0)),
                None => media.cost(link, way).capacity((self.packet + more) as usize),
            };
            let limit = stage::limit(&media.side(link, way).stages.by_row());
            let ip = limit.map_or(ip, |limit| limit.min(ip));
            ((link, way), ip.mul_f64(self.payload as f64 / (self.packet + more).max(1) as f64))
        };
        let least = self.there.iter().map(rate).min_by_key(|(_, rate)| *rate);
        least.unwrap_or(((0, Way::Forward), Rate::default()))
    }

    /// Returns propagation and transmission of a full packet.
    pub(super) fn one_way(&self, media: &Media<'_>) -> Span {
        time(media, &self.there, self.packet)
    }

    /// Returns the one-way delay plus that of an answer, if it is answered.
    pub(super) fn min_rtt(&self, media: &Media<'_>) -> Option<Span> {
        self.answers.then(|| self.one_way(media) + time(media, &self.back, self.answer))
    }
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
