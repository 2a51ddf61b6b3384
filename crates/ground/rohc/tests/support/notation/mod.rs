//! A small interpreter of the formal notation of RFC 4997, for the profiles of RFC 5225.
//!
//! The notation is a relation between headers, contexts and compressed headers. [`Model::check`] takes a packet and what a
//! compressor made of it, and proves or refutes that the format named relates both: every bit must be the one that the notation
//! has there. It reads the notation from the text of the RFC. What the RFC defines in prose only is in `prose.rs`.
//!
//! Left out: several IP headers, extension headers and lists, timer-based timestamps.

mod conditions;
mod parse;
mod prose;
mod relation;

use std::collections::BTreeMap;

pub(crate) use parse::Notation;
use relation::{Part, State};

/// What a decompressor remembers, by the names of the notation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// Control fields.
    pub(crate) global: BTreeMap<String, u128>,
    /// Fields of a header, by the encoding method that describes it.
    pub(crate) local: BTreeMap<(String, String), u128>,
}

/// Names that a profile has in the notation.
struct Names {
    id: u128,
    base: &'static str,
    transport: &'static [&'static str],
}

const NAMES: [Names; 6] = [
    Names { id: 0x0101, base: "rtp_baseheader", transport: &["udp", "rtp"] },
    Names { id: 0x0102, base: "udp_baseheader", transport: &["udp"] },
    Names { id: 0x0103, base: "esp_baseheader", transport: &["esp"] },
    Names { id: 0x0104, base: "iponly_baseheader", transport: &[] },
    Names { id: 0x0107, base: "udplite_rtp_baseheader", transport: &["udp_lite", "rtp"] },
    Names { id: 0x0108, base: "udplite_baseheader", transport: &["udp_lite"] },
];

/// Both ends' context by the notation.
#[derive(Clone, Debug)]
pub(crate) struct Model<'a> {
    notation: &'a Notation,
    profile: usize,
    pub(crate) memory: Memory,
}

impl<'a> Model<'a> {
    /// Creates a context of a profile, without values.
    pub(crate) fn new(notation: &'a Notation, profile: u16) -> Self {
        let profile = NAMES.iter().position(|names| names.id == u128::from(profile)).expect("a profile");
        Self { notation, profile, memory: Memory::default() }
    }

    /// Checks that `rohc`, of the format named, is a header of `ip` in this context, and remembers what it says.
    pub(crate) fn check(&mut self, format: &str, rohc: &[u8], ip: &[u8]) -> Result<(), String> {
        let names = &NAMES[self.profile];
        let chain = self.chain(ip);
        let mut state = State::new(self.notation, &self.memory, rohc, ip, names.id);
        match format {
            "IR" => {
                state.expect(0xfd, 8)?;
                state.expect(names.id & 0xff, 8)?;
                state.crc8_of_ir()?;
                state.chain(&chain, Part::Static)?;
                state.chain(&chain, Part::Dynamic)?;
            }
            "co_repair" => {
                state.expect(0xfb, 8)?;
                state.co_repair_crcs(&chain)?;
                state.chain(&chain, Part::Dynamic)?;
            }
            _ => {
                state.base(names.base, format)?;
                state.chain(&chain, Part::Irregular)?;
            }
        }
        self.memory = state.finish(names.base, &chain)?;
        Ok(())
    }

    fn chain(&self, ip: &[u8]) -> Vec<&'static str> {
        let network = if ip[0] >> 4 == 6 { "ipv6" } else { "ipv4" };
        [network].into_iter().chain(NAMES[self.profile].transport.iter().copied()).collect()
    }
}
