//! Bits behind the receiver of a coded satellite link.
//!
//! Noise, inner code with Viterbi decoder, interleaver and Reed-Solomon code: the chain is that of DVB-S (EN 300 421). What a link delivers is laid into blocks of 188 bytes; 16 bytes of parity follow each.

use std::collections::BTreeMap;
use std::sync::Arc;

use bentpipe_units::{RandomStream, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::code::CodeRate;
use self::code::Events;
use super::metrics;
use crate::config::InvalidConfig;
use crate::{Observer, Packet};

mod code;

/// Bytes of data in a block.
const DATA: u64 = 188;
/// Bytes of a block with the parity.
const BLOCK: u64 = 204;
/// Wrong bytes that the outer decoder corrects.
const CORRECTABLE: usize = 8;
/// Branches of the interleaver.
const BRANCHES: u64 = 12;

/// Configuration of a coded link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodedConfig {
    /// Code rate of the inner code. No default.
    pub code_rate: CodeRate,
    /// Energy of a bit of data over noise density, in dB. Exactly one of `eb_n0_db` and `budget` is given.
    #[schemars(range(min = -10.0, max = 100.0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eb_n0_db: Option<f64>,
    /// Link budget that gives Eb/N0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Loss of a real modem against theory, in dB. Default: 0.
    #[schemars(range(min = 0.0, max = 30.0))]
    #[serde(default)]
    pub implementation_db: f64,
    /// Enables interleaver and Reed-Solomon code. Default: true.
    #[serde(default = "yes")]
    pub outer: bool,
    /// Enables the link layer's check, which drops packets with wrong bits. Otherwise the receiver's checksums have to
    /// detect them. Default: false.
    #[serde(default)]
    pub crc: bool,
}

/// Budget of a satellite's downlink.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Equivalent isotropically radiated power, in dBW. No default.
    #[schemars(range(min = -50.0, max = 150.0))]
    pub eirp_dbw: f64,
    /// Figure of merit of the receiver, in dB/K. No default.
    #[schemars(range(min = -100.0, max = 100.0))]
    pub g_t_db: f64,
    /// Carrier frequency, in GHz. No default.
    #[schemars(range(min = 0.1, max = 1000.0))]
    pub frequency_ghz: f64,
    /// Distance, in km. Default: 38000, of a geostationary satellite at an elevation of 40 to 45 degrees.
    #[schemars(range(min = 1.0, max = 1e10))]
    #[serde(default = "geostationary")]
    pub distance_km: f64,
    /// Losses by rain, gases and pointing, in dB. Default: 0.
    #[schemars(range(min = 0.0, max = 300.0))]
    #[serde(default)]
    pub losses_db: f64,
    /// Rate of the data. No default.
    pub rate: Rate,
}

fn yes() -> bool {
    true
}

fn geostationary() -> f64 {
    38_000.0
}

impl Budget {
    /// Returns Eb/N0 in dB: free space, and Boltzmann's constant of -228.6 dBW/K/Hz.
    pub fn eb_n0_db(&self) -> f64 {
        let db = |ratio: f64| 10.0 * libm::log10(ratio);
        // 4 pi d / lambda with kilometres and gigahertz.
        let free_space =
            2.0 * db(4e12 * std::f64::consts::PI * self.distance_km * self.frequency_ghz / 299_792_458.0);
        let noise = db(1.380_649e-23);
        self.eirp_dbw + self.g_t_db
            - free_space
            - self.losses_db
            - noise
            - db(self.rate.as_bytes_per_sec() * 8.0)
    }
}

impl CodedConfig {
    /// Returns Es/N0 of a coded bit, as a ratio.
    fn es_n0(&self) -> f64 {
        let eb_n0 = self.eb_n0_db.or(self.budget.map(|budget| budget.eb_n0_db())).unwrap_or(0.0);
        let outer = if self.outer { DATA as f64 / BLOCK as f64 } else { 1.0 };
        libm::pow(10.0, (eb_n0 - self.implementation_db) / 10.0) * self.code_rate.ratio() * outer
    }

    fn check(&self) -> Result<(), InvalidConfig> {
        let is_one = self.eb_n0_db.is_some() != self.budget.is_some();
        InvalidConfig::ensure(is_one, "eb_n0_db", "one of `eb_n0_db` and `budget`")?;
        let within = |value: f64, low: f64, high: f64| (low..=high).contains(&value);
        let is_ratio = self.eb_n0_db.is_none_or(|db| within(db, -10.0, 100.0));
        InvalidConfig::ensure(is_ratio, "eb_n0_db", "-10 to 100 dB")?;
        InvalidConfig::ensure(within(self.implementation_db, 0.0, 30.0), "implementation_db", "0 to 30 dB")?;
        self.budget.map_or(Ok(()), |budget| {
            let is_sound = budget.distance_km > 0.0
                && budget.frequency_ghz > 0.0
                && budget.rate.as_bytes_per_sec() > 0.0;
            let is_near = within(budget.eb_n0_db(), -10.0, 200.0);
            InvalidConfig::ensure(is_sound && is_near, "budget", "an Eb/N0 of -10 to 200 dB")
        })
    }

    /// Returns the mean part of packets of `len` bytes with wrong bits.
    ///
    /// It comes from the union bound. `None` where that is not close, near the code's threshold: there the decoder has to be run.
    pub(super) fn mean_loss(&self, len: usize) -> Option<f64> {
        let [events, _, bytes] = self.code_rate.bound(self.es_n0());
        if events >= code::CLOSE {
            return None;
        }
        if !self.outer {
            return Some(1.0 - libm::exp(-8.0 * len as f64 * events));
        }
        // The interleaver puts the bytes of an event into blocks of their own.
        let block = 1.0 - binomial_head(BLOCK as usize, CORRECTABLE, (8.0 * bytes).min(1.0));
        Some(1.0 - libm::pow(1.0 - block, len as f64 / DATA as f64))
    }
}

/// Returns the probability of at most `most` successes of `trials`.
fn binomial_head(trials: usize, most: usize, p: f64) -> f64 {
    if p >= 1.0 {
        return 0.0;
    }
    let mut term = libm::exp(trials as f64 * libm::log1p(-p));
    let mut sum = term;
    for k in 0..most {
        term *= (trials - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
        sum += term;
    }
    sum.min(1.0)
}

/// Receiver of a coded link.
#[derive(Debug)]
pub struct Coded {
    code_rate: CodeRate,
    es_n0: f64,
    /// Found with the first packet: a link that carries none costs nothing.
    events: Option<Arc<Events>>,
    pub(super) crc: bool,
    layout: Layout,
    /// Bit of the stream sent at which the next event begins. `None` before the first packet.
    event_at: Option<u64>,
    /// Wrong bytes of blocks to come: place in the block, wrong bits.
    wrong: BTreeMap<u64, Vec<(u8, u8)>>,
    /// Present block and its wrong bytes behind the outer decoder.
    block: Option<(u64, Vec<(u8, u8)>)>,
    /// Byte of data that comes next.
    next: u64,
    /// Bytes that the outer decoder has corrected.
    corrected: u64,
    /// Blocks that it could not correct.
    uncorrectable: u64,
}

/// Layout of the stream sent.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Bytes of a block.
    block: u64,
    /// Branches of the interleaver. Byte `i` of a block is sent `i % branches` blocks later.
    branches: u64,
    /// Wrong bytes of a block that are corrected.
    correctable: usize,
}

impl Coded {
    /// Creates a receiver.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(config: &CodedConfig) -> Result<Coded, InvalidConfig> {
        config.check()?;
        let layout = if config.outer {
            Layout { block: BLOCK, branches: BRANCHES, correctable: CORRECTABLE }
        } else {
            Layout { block: DATA, branches: 1, correctable: 0 }
        };
        Ok(Coded {
            code_rate: config.code_rate,
            es_n0: config.es_n0(),
            events: None,
            crc: config.crc,
            layout,
            event_at: None,
            wrong: BTreeMap::new(),
            block: None,
            next: 0,
            corrected: 0,
            uncorrectable: 0,
        })
    }

    /// Returns `true` if bits of a packet are wrong behind the decoders, which it flips.
    pub(super) fn damage(&mut self, packet: &mut Packet, stream: &mut RandomStream) -> bool {
        let mut is_damaged = false;
        self.wrong_bits(packet.len() as u64, stream, |bit| {
            packet.flip_bit(bit);
            is_damaged = true;
        });
        is_damaged
    }

    /// Calls `wrong` with each wrong bit of the next `len` bytes.
    pub fn wrong_bits(&mut self, len: u64, stream: &mut RandomStream, mut wrong: impl FnMut(u64)) {
        let (first, end) = (self.next, self.next + len);
        self.next = end;
        for block in first / DATA..end.div_ceil(DATA) {
            for (place, mask) in self.enter(block, stream) {
                let byte = block * DATA + u64::from(*place);
                if (first..end).contains(&byte) {
                    let bits = (0..8).filter(|bit| mask & (0x80 >> bit) != 0);
                    bits.for_each(|bit| wrong(8 * (byte - first) + bit));
                }
            }
        }
    }

    /// Shows what the outer decoder has done.
    pub fn observe(&self, observer: &mut dyn Observer) {
        observer.counter(&metrics::CORRECTED, self.corrected);
        observer.counter(&metrics::UNCORRECTABLE, self.uncorrectable);
    }

    /// Returns the wrong bytes of data of a block behind the outer decoder.
    fn enter(&mut self, block: u64, stream: &mut RandomStream) -> &[(u8, u8)] {
        if self.block.as_ref().is_none_or(|(number, _)| *number != block) {
            self.draw_until(8 * self.layout.block * (block + self.layout.branches), stream);
            let mut wrong = self.wrong.remove(&block).unwrap_or_default();
            if wrong.len() <= self.layout.correctable {
                self.corrected += wrong.len() as u64;
                wrong.clear();
            } else {
                self.uncorrectable += 1;
                wrong.retain(|(place, _)| u64::from(*place) < DATA);
            }
            self.block = Some((block, wrong));
        }
        self.block.as_ref().map_or(&[], |(_, wrong)| wrong)
    }

    /// Draws the events that begin before a bit of the stream sent.
    fn draw_until(&mut self, end: u64, stream: &mut RandomStream) {
        let Layout { block, branches, .. } = self.layout;
        let find = || Events::of(self.code_rate, self.es_n0);
        let events = Arc::clone(self.events.get_or_insert_with(find));
        let mut at = match self.event_at {
            Some(at) => at,
            None => stream.failures_before_success(events.begins),
        };
        while at < end {
            let event = events.draw(stream);
            for bit in event {
                let bit = at + u64::from(*bit);
                let (sent, mask) = (bit / 8, 0x80 >> (bit % 8));
                let place = sent % block;
                // What was sent for blocks before the first one is of no packet.
                let Some(of) = (sent / block).checked_sub(place % branches) else { continue };
                let wrong = self.wrong.entry(of).or_default();
                match wrong.iter_mut().find(|(other, _)| u64::from(*other) == place) {
                    Some((_, bits)) => *bits ^= mask,
                    None => wrong.push((place as u8, mask)),
                }
            }
            let len = 1 + event.last().map_or(0, |last| u64::from(*last));
            at = at.saturating_add(len).saturating_add(stream.failures_before_success(events.begins));
        }
        self.event_at = Some(at);
    }
}

#[cfg(test)]
mod tests;
