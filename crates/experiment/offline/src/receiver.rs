//! Decompressor's end of a ROHC channel, for packets that a capture may have truncated.

use bentpipe_rohc::{DecompressError, Decompressed, Decompressor, DecompressorConfig, DecompressorStats};

/// A packet on the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit<'a> {
    /// Length in bytes, of which `bytes` may be fewer.
    pub(crate) len: usize,
    pub(crate) bytes: &'a [u8],
}

/// Decompressor's end of a channel.
#[derive(Debug)]
pub(crate) struct Receiver {
    decompressor: Decompressor,
    /// Known bytes of the last restored packet.
    ip: Vec<u8>,
    feedback: Vec<u8>,
}

/// Restored packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) decompressed: Decompressed,
    /// Length in bytes.
    pub(crate) len: usize,
}

impl Receiver {
    pub(crate) fn new(config: DecompressorConfig) -> Receiver {
        Receiver { decompressor: Decompressor::new(config), ip: Vec::new(), feedback: Vec::new() }
    }

    /// Decompresses a ROHC packet; the result is then in [`Receiver::ip`]. Returns `None` if no packet was in it.
    ///
    /// # Errors
    /// Returns an error if it cannot be decompressed.
    pub(crate) fn receive(
        &mut self,
        at: std::time::Duration,
        unit: Unit<'_>,
    ) -> Result<Option<Received>, DecompressError> {
        self.ip.clear();
        if unit.bytes.len() == unit.len {
            let restored = self.decompressor.decompress(at, unit.bytes, &mut self.ip)?;
            return Ok(restored.map(|decompressed| Received { decompressed, len: self.ip.len() }));
        }
        let restored = self.decompressor.decompress_header(at, unit.bytes, unit.len, &mut self.ip)?;
        Ok(restored.map(|decompressed| {
            self.ip.extend_from_slice(unit.bytes.get(decompressed.header_in..).unwrap_or_default());
            let len = decompressed.header_out + unit.len - decompressed.header_in;
            Received { decompressed, len }
        }))
    }

    pub(crate) fn ip(&self) -> &[u8] {
        &self.ip
    }

    /// Describes a lack of contexts, if packets were refused where contexts gave way to others.
    pub(crate) fn lack_of_contexts(&self) -> Option<String> {
        let DecompressorStats { displaced, refused, received, .. } = self.decompressor.stats();
        (displaced > 0 && refused > 0).then(|| {
            format!("more flows at a time than the decompressor has room for: contexts gave way {displaced} times, {refused} of {received} packets were refused; --max-contexts limits its contexts")
        })
    }

    /// Returns the feedback to the last packets, which may be empty.
    pub(crate) fn take_feedback(&mut self) -> &[u8] {
        self.feedback.clear();
        self.decompressor.take_feedback(&mut self.feedback);
        &self.feedback
    }
}
