//! What losses may have hidden, and what shows that they did not.
//!
//! The TCP checksum, where it was right in the first packets, is a witness for all that it covers. For the rest, and where
//! there is no witness, there is the header's CRC: one of 3 bits proves little after losses, and one of 7 bits is waited for
//! where the compressor is known to send them ([`crate::confirm`]).

use super::super::header::Control;
use super::super::ip;
use super::{Decompressor, Draft, State};
use crate::config::DecompressorConfig;
use crate::confirm::BEHIND_CHANGES;
use crate::error::DecompressError;
use crate::job::Input;
use crate::profile::{Mode, PacketType};

/// Where one packet stands among those before it.
impl Decompressor {
    /// By how much the master sequence number went on.
    fn ahead(&self, control: Control) -> i16 {
        control.msn.wrapping_sub(self.reference.control.msn).cast_signed()
    }

    /// Whether so many packets were lost before this one that a change may be among them.
    pub(super) fn has_gap(&self, control: Control, config: &DecompressorConfig) -> bool {
        config.caution > 0 && !(1..=i16::from(config.repeats)).contains(&self.ahead(control))
    }

    fn failed_last(&self) -> bool {
        self.failures & 1 == 1
    }

    /// Whether losses, or a failure that may be one of them, put a packet in doubt. (Gaps are losses: the numbers are the
    /// compressor's.)
    fn is_in_doubt(&self, control: Control, config: &DecompressorConfig) -> bool {
        self.doubt > 0 || self.failed_last() || self.state != State::Full || self.has_gap(control, config)
    }

    /// Whether the TCP checksum of a packet must be right: because that is wanted, or because it is in doubt.
    pub(super) fn is_checked(&self, control: Control, config: &DecompressorConfig) -> bool {
        let is_witness = || config.caution > 0 && self.witness.is_trusted();
        config.verify || is_witness() && self.is_in_doubt(control, config)
    }

    /// Whether a packet with a right checksum shows that nothing that this does not cover changed before it: a compressor
    /// that confirms would still have sent CRCs of 7 bits. The steps that an IP-ID may have made show in seven bits of it.
    fn is_covered(&self, draft: &Draft, headers: &[u8], config: &DecompressorConfig) -> bool {
        let most = i16::from(config.repeats.saturating_add(BEHIND_CHANGES));
        let shows_id = || matches!(draft.kind, PacketType::Seq2 | PacketType::Seq6);
        config.mode == Mode::Unidirectional
            && self.doubt == 0
            && self.state == State::Full
            && self.reference.chain.links.len() == 1
            && (1..=most).contains(&self.ahead(draft.control))
            && (!draft.inner_ip_id.is_sequential() || shows_id() && self.is_id_still(draft, headers))
    }

    /// Whether the IP-ID went on as the master sequence number did.
    fn is_id_still(&self, draft: &Draft, headers: &[u8]) -> bool {
        let range = self.reference.chain.inner().range();
        let counter = |headers: &[u8]| draft.inner_ip_id.counter(ip::ip_id(&headers[range.clone()]));
        let step = counter(headers).wrapping_sub(counter(&self.reference.headers));
        step.cast_signed() == self.ahead(draft.control)
    }
}

/// The verdict.
impl Decompressor {
    /// How many packets losses hold back.
    pub(super) fn caution(&self, config: &DecompressorConfig) -> u8 {
        if self.reference.confirms && config.caution > 0 { u8::MAX } else { config.caution }
    }

    /// Whether a packet, about to be committed, is to be delivered after losses. One in doubt is refused where there is a
    /// way back, and the NACK brings a packet with a strong CRC; in U-mode those that follow must confirm it.
    pub(super) fn weigh(
        &mut self,
        draft: &Draft,
        headers: &[u8],
        input: &Input<'_>,
    ) -> Result<(), DecompressError> {
        let config = input.config;
        let is_confirming = self.reference.confirms && config.caution > 0;
        if is_confirming {
            self.wait_for_proof(draft, headers, config);
        } else {
            self.wait_for_more(draft, config);
        }
        let has_way_back = config.mode != Mode::Unidirectional;
        if self.doubt > 0 && has_way_back && (is_confirming || !draft.is_checked) {
            return Err(DecompressError::NotAllowedInState);
        }
        Ok(())
    }

    /// Of a compressor that confirms a CRC of 7 bits is waited for. Once so many packets failed that the context is
    /// damaged, that passes too often in so many packets: only a right checksum besides, or IR and IR-DYN will do.
    fn wait_for_proof(&mut self, draft: &Draft, headers: &[u8], config: &DecompressorConfig) {
        if !self.is_in_doubt(draft.control, config) {
            return;
        }
        let is_proven = if draft.has_crc7 {
            draft.is_checked || self.state == State::Full
        } else {
            draft.is_checked && self.is_covered(draft, headers, config)
        };
        self.doubt = if is_proven { 0 } else { u8::MAX };
    }

    /// Of others what a right TCP checksum has not witnessed waits for a few more packets, and so does what has an IP-ID
    /// that counts, which that checksum does not cover.
    fn wait_for_more(&mut self, draft: &Draft, config: &DecompressorConfig) {
        let counts = draft.inner_ip_id.is_sequential() || draft.inner_ip_id == ip::IpId::Zero;
        if draft.has_crc7 || draft.is_checked && !counts {
            self.doubt = 0;
        } else if self.has_gap(draft.control, config) {
            self.doubt = config.caution;
        }
    }
}
