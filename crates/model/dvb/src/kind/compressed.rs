//! Mean lengths of packets behind header compression, for budgets.
//!
//! A flow's packets go through the compressor of the stream, over whole cycles of its refreshes. Behind optimistic and
//! reliable mode is a decompressor whose feedback comes at once. Packets of other flows and losses are left out.

use std::time::Duration;

use bentpipe_net::Packet;
use bentpipe_rohc::{Compressor, Decompressor};
use bentpipe_site::{Compressed, Sample};
use bentpipe_units::Time;
use bentpipe_wire::ethernet::EtherType;

use crate::config::{Cid, Rohc};
use crate::filter::{Action, Filter};
use crate::{Config, RohcMode};

/// Maximum number of packets of a sample.
const MAX_PACKETS: u64 = 1 << 18;

/// Maximum number of flows of a sample that are more than contexts.
const MAX_CROWDED: u64 = 32_768;

/// Cycles of refreshes that are averaged, behind one that is not.
const CYCLES: u64 = 3;

/// Packets of a cycle without refreshes.
const NO_REFRESH: u64 = 500;

/// Large CIDs of one octet; the others have two (RFC 5795, section 5.3.1).
const SHORT_CIDS: u64 = 128;

/// Returns the mean lengths of packets of `flows` flows; `None` without compression or a sample.
pub(super) fn compressed(
    config: &Config,
    flows: u64,
    sample: &dyn Fn(u16) -> Option<Sample>,
) -> Option<Compressed> {
    let rohc = config.rohc.as_ref()?;
    let contexts = u64::from(rohc.contexts);
    let cycle = cycle(rohc, sample(1)?);
    // Flows that take each other's contexts all count.
    let most = if flows > contexts { MAX_CROWDED } else { MAX_PACKETS / ((CYCLES + 1) * cycle) };
    let sampled = u16::try_from(flows.min(most).max(1)).ok()?;
    let all = MAX_PACKETS.min((CYCLES + 1) * cycle * u64::from(sampled));
    let more_cid = cid_octets(rohc, flows) - cid_octets(rohc, sampled.into());
    let (mut channel, mut sum) = (Channel::new(rohc, &config.filter), Sum::default());
    for (n, (at, packet)) in (0..all).zip(sample(sampled)?) {
        let carried = channel.carry(at, &packet);
        if let Some(carried) = carried.filter(|_| n >= all / (CYCLES + 1)) {
            sum.add(config, packet.len(), carried, more_cid);
        }
    }
    sum.mean()
}

/// Returns the packets of a flow from one refresh to the next.
fn cycle(rohc: &Rohc, sample: Sample) -> u64 {
    let times: Vec<Time> = sample.take(2).map(|(at, _)| at).collect();
    let step = times.last().zip(times.first()).map_or(0, |(last, first)| last.since(*first).as_nanos());
    let by_time = rohc.refresh_interval.as_nanos() / step.max(1);
    let packets = [u64::from(rohc.refresh), by_time].into_iter().filter(|packets| *packets > 0).min();
    let packets = packets.filter(|_| rohc.mode == RohcMode::Unidirectional).unwrap_or(NO_REFRESH);
    (packets + u64::from(rohc.refresh_repeats)).min(MAX_PACKETS / (CYCLES + 1))
}

/// Returns the mean octets of the CIDs of `flows` flows.
fn cid_octets(rohc: &Rohc, flows: u64) -> f64 {
    let flows = flows.clamp(1, u64::from(rohc.contexts).max(1));
    match rohc.cid {
        // CID 0 is left out.
        Cid::Small => (flows - 1) as f64 / flows as f64,
        Cid::Large => 1.0 + flows.saturating_sub(SHORT_CIDS) as f64 / flows as f64,
    }
}

/// Both ends of header compression.
struct Channel<'a> {
    compressor: Compressor,
    /// Decompressor, if it gives feedback.
    decompressor: Option<Decompressor>,
    filter: &'a Filter,
    bytes: Vec<u8>,
    rohc: Vec<u8>,
    out: Vec<u8>,
}

/// Length of a packet that is carried, and its type.
type Carried = (usize, EtherType);

impl Channel<'_> {
    fn new<'a>(rohc: &Rohc, filter: &'a Filter) -> Channel<'a> {
        let has_feedback = rohc.mode != RohcMode::Unidirectional;
        Channel {
            compressor: Compressor::new(rohc.compressor()),
            decompressor: has_feedback.then(|| Decompressor::new(rohc.decompressor())),
            filter,
            bytes: Vec::new(),
            rohc: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Returns length and type of a carried packet; `None` if the filter drops it.
    fn carry(&mut self, at: Time, packet: &Packet) -> Option<Carried> {
        self.bytes.clear();
        packet.write_to(&mut self.bytes);
        let plain = (self.bytes.len(), EtherType::IPV4);
        let decision = self.filter.judge(&self.bytes, 0);
        match decision.action {
            Action::Drop => return None,
            Action::Plain => return Some(plain),
            Action::Compress => self.compressor.restrict(decision.profiles),
        }
        let now = Duration::from_nanos(at.as_nanos());
        self.rohc.clear();
        if self.compressor.compress(now, &self.bytes, &mut self.rohc).is_err() {
            return Some(plain);
        }
        self.answer(now);
        Some((self.rohc.len(), EtherType::ROHC))
    }

    /// Passes feedback of the last packet to the compressor.
    fn answer(&mut self, now: Duration) {
        let Some(decompressor) = &mut self.decompressor else { return };
        self.out.clear();
        let _ = decompressor.decompress(now, &self.rohc, &mut self.out);
        self.out.clear();
        if decompressor.take_feedback(&mut self.out) {
            self.compressor.feedback(&self.out);
        }
    }
}

/// Sums of lengths in bytes.
#[derive(Default)]
struct Sum {
    packets: u64,
    before: f64,
    after: f64,
    on_line: f64,
}

impl Sum {
    /// Adds a packet. `more_cid` is what CIDs are longer than in the sample.
    fn add(&mut self, config: &Config, before: usize, (after, kind): Carried, more_cid: f64) {
        let more_cid = if kind == EtherType::ROHC { more_cid } else { 0.0 };
        let [shorter, longer] = [after, after + 1].map(|len| config.octets(len, kind));
        self.packets += 1;
        self.before += before as f64;
        self.after += after as f64 + more_cid;
        self.on_line += shorter + more_cid * (longer - shorter);
    }

    fn mean(&self) -> Option<Compressed> {
        let mean = |sum: f64| sum / self.packets as f64;
        (self.packets > 0).then(|| Compressed {
            packet_bytes: mean(self.before),
            compressed_bytes: mean(self.after),
            on_line_bytes: mean(self.on_line),
        })
    }
}
