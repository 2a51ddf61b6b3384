//! Packets out of ROHC.
//!
//! A decompressor's end of a channel restores them, also those that a capture has truncated.

use bentpipe_rohc::{
    CidSpace, DecompressError, Decompressed, Decompressor, DecompressorConfig, DecompressorStats,
};

use crate::refusal::Refusal;
use crate::{Packet, Reason, Select, Wanted};

/// A packet on the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    /// Length in bytes, of which `bytes` may be fewer.
    pub len: usize,
    /// Bytes that are known.
    pub bytes: &'a [u8],
}

/// Decompressor's end of a channel.
#[derive(Debug)]
pub struct Receiver {
    decompressor: Decompressor,
    /// Known bytes of the last restored packet.
    ip: Vec<u8>,
    feedback: Vec<u8>,
}

/// Restored packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Result of the decompressor.
    pub decompressed: Decompressed,
    /// Length in bytes.
    pub len: usize,
}

impl Receiver {
    /// Creates the end of a channel.
    pub fn new(config: DecompressorConfig) -> Receiver {
        Receiver { decompressor: Decompressor::new(config), ip: Vec::new(), feedback: Vec::new() }
    }

    /// Decompresses a ROHC packet; the result is then in [`Receiver::ip`]. Returns `None` if no packet was in it.
    ///
    /// # Errors
    /// Returns an error if it cannot be decompressed.
    pub fn receive(
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

    /// Returns the known bytes of the last restored packet.
    pub fn ip(&self) -> &[u8] {
        &self.ip
    }

    /// Describes a lack of contexts, if packets were refused where contexts gave way to others.
    pub fn lack_of_contexts(&self) -> Option<String> {
        let DecompressorStats { displaced, refused, received, .. } = self.decompressor.stats();
        (displaced > 0 && refused > 0).then(|| {
            format!("more flows at a time than the decompressor has room for: contexts gave way {displaced} times, {refused} of {received} packets were refused; --max-contexts limits its contexts")
        })
    }

    /// Returns the feedback to the last packets, which may be empty.
    pub fn take_feedback(&mut self) -> &[u8] {
        self.feedback.clear();
        self.decompressor.take_feedback(&mut self.feedback);
        &self.feedback
    }
}

/// Restoration of the packets of a capture, and the choice among those restored.
#[derive(Debug)]
pub(crate) struct Restoration {
    receiver: Receiver,
    select: Select,
    wanted: Wanted,
}

impl Restoration {
    /// Creates a restoration, with the choice of the records that have the packets to restore.
    pub(crate) fn new(config: DecompressorConfig, select: Select) -> (Restoration, Select) {
        let has_large_cids = matches!(config.channel.cids, CidSpace::Large { .. });
        let of_records =
            Select { interface: select.interface.clone(), vlan: select.vlan, ..Select::default() };
        let select = Select { interface: None, vlan: None, ..select };
        let wanted = Wanted::Rohc { has_large_cids, pdcp: None };
        (Restoration { receiver: Receiver::new(config), select, wanted }, of_records)
    }

    /// Returns the kind of packet that is restored.
    pub(crate) fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// Returns the known bytes of the last restored packet.
    pub(crate) fn ip(&self) -> &[u8] {
        self.receiver.ip()
    }

    /// Restores the IP packet of a ROHC packet, and returns its length.
    ///
    /// It is in [`Restoration::ip`] then.
    ///
    /// # Errors
    /// The reason for which there is none, or it is not selected.
    pub(crate) fn restore(&mut self, packet: &Packet<'_>) -> Result<usize, Refusal> {
        let len = self.restore_any(packet)?;
        let restored = Packet { len, bytes: self.receiver.ip(), ..*packet };
        match self.select == Select::default() || self.select.admits_packet(&restored) {
            true => Ok(len),
            false => Err((Reason::NotSelected, format!("not selected by {}", self.select).into())),
        }
    }

    /// Restores an IP packet, whether it is selected or not.
    ///
    /// # Errors
    /// The reason for which there is none.
    pub(crate) fn restore_any(&mut self, packet: &Packet<'_>) -> Result<usize, Refusal> {
        match self.receiver.receive(packet.at(), Unit { len: packet.len, bytes: packet.bytes }) {
            Ok(Some(received)) => Ok(received.len),
            Ok(None) => Err((Reason::Content, "of ROHC without a packet, such as feedback".into())),
            Err(error) => {
                Err((Reason::Malformed, format!("of ROHC that cannot be restored: {error}").into()))
            }
        }
    }
}
