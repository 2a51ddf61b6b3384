//! The profiles, in families that share a mechanism.

#[cfg(test)]
pub(crate) mod fast_path_tests;
mod rfc3095;
mod tcp;
mod uncompressed;
mod v2;

use alloc::vec::Vec;

use crate::framework::context::{
    CompressorFamilies, CompressorFamily, DecompressorFamilies, DecompressorFamily, Flows, Holder, Incoming,
    Restepped, Step, Stepped,
};

/// Index of the RFC 3095 family.
const RFC3095: usize = 0;
/// Index of TCP.
const TCP: usize = 1;
/// Index of version 2.
const V2: usize = 2;

/// Compressor contexts of all profiles.
#[derive(Debug, Default)]
pub(crate) struct Compressors {
    rfc3095: rfc3095::Compressors,
    tcp: tcp::Compressors,
    v2: v2::Compressors,
    uncompressed: uncompressed::Compressors,
}

impl CompressorFamilies for Compressors {
    const COUNT: usize = 4;

    #[inline]
    fn step(&mut self, flows: &Flows, step: &Step<'_>, out: &mut Vec<u8>) -> Option<Stepped> {
        self.rfc3095
            .step(flows, Holder::new(RFC3095), step, out)
            .or_else(|| self.tcp.step(flows, Holder::new(TCP), step, out))
            .or_else(|| self.v2.step(flows, Holder::new(V2), step, out))
    }

    fn get(&self, index: usize) -> &dyn CompressorFamily {
        match index {
            RFC3095 => &self.rfc3095,
            TCP => &self.tcp,
            V2 => &self.v2,
            _ => &self.uncompressed,
        }
    }

    fn get_mut(&mut self, index: usize) -> &mut dyn CompressorFamily {
        match index {
            RFC3095 => &mut self.rfc3095,
            TCP => &mut self.tcp,
            V2 => &mut self.v2,
            _ => &mut self.uncompressed,
        }
    }
}

/// Decompressor contexts of all profiles.
#[derive(Debug, Default)]
pub(crate) struct Decompressors {
    rfc3095: rfc3095::Decompressors,
    tcp: tcp::Decompressors,
    v2: v2::Decompressors,
    uncompressed: uncompressed::Decompressors,
}

impl DecompressorFamilies for Decompressors {
    const COUNT: usize = 4;

    #[inline]
    fn step(
        &mut self,
        index: usize,
        cid: u16,
        incoming: &Incoming<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Restepped> {
        match index {
            RFC3095 => self.rfc3095.step(cid, incoming, out),
            TCP => self.tcp.step(cid, incoming, out),
            V2 => self.v2.step(cid, incoming, out),
            _ => None,
        }
    }

    fn get(&self, index: usize) -> &dyn DecompressorFamily {
        match index {
            RFC3095 => &self.rfc3095,
            TCP => &self.tcp,
            V2 => &self.v2,
            _ => &self.uncompressed,
        }
    }

    fn get_mut(&mut self, index: usize) -> &mut dyn DecompressorFamily {
        match index {
            RFC3095 => &mut self.rfc3095,
            TCP => &mut self.tcp,
            V2 => &mut self.v2,
            _ => &mut self.uncompressed,
        }
    }
}
