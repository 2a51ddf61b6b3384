//! Verification of packets after losses that may have hidden a change.
//!
//! The TCP checksum, where it was right in the first packets, is evidence for all that it covers. For the rest, and where
//! there is none, there is the header's CRC: one of 3 bits proves little after losses, and one of 7 bits is waited for
//! where the compressor is configured to send them ([`DecompressorConfig::peer_confirms`]).

use super::super::header::Control;
use super::super::ip;
use super::{Decompressor, Draft, State};
use crate::framework::config::DecompressorConfig;
use crate::framework::confirm::BEHIND_CHANGES;
use crate::framework::error::DecompressError;
use crate::framework::profile::{Mode, PacketType};
use crate::profiles::tcp::Input;

/// Position of a packet among those before it.
impl Decompressor {
    /// Returns the distance that the master sequence number advanced.
    fn ahead(&self, control: Control) -> i16 {
        control.msn.wrapping_sub(self.reference.control.msn).cast_signed()
    }

    /// Returns `true` if the losses before this packet may hide a change.
    pub(super) fn has_gap(&self, control: Control, config: &DecompressorConfig) -> bool {
        config.caution > 0 && !(1..=i16::from(config.repeats)).contains(&self.ahead(control))
    }

    fn failed_last(&self) -> bool {
        self.failures & 1 == 1
    }

    /// Returns `true` if losses or a failure put a packet in doubt. Gaps are losses, as the numbers are the
    /// compressor's.
    fn is_in_doubt(&self, control: Control, config: &DecompressorConfig) -> bool {
        self.doubt > 0 || self.failed_last() || self.state != State::Full || self.has_gap(control, config)
    }

    /// Returns `true` if the TCP checksum of a packet must be right.
    pub(super) fn is_checked(&self, control: Control, config: &DecompressorConfig) -> bool {
        let has_evidence = || config.caution > 0 && self.evidence.is_trusted();
        config.verify || has_evidence() && self.is_in_doubt(control, config)
    }

    /// Returns `true` if a right checksum shows that nothing changed before the packet. After a change of what the
    /// checksum does not cover, the compressor would still have sent CRC-7. The steps that an IP-ID may have made
    /// show in seven bits of it.
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

    /// Returns `true` if the IP-ID went on as the master sequence number did.
    fn is_id_still(&self, draft: &Draft, headers: &[u8]) -> bool {
        let range = self.reference.chain.inner().range();
        let counter = |headers: &[u8]| draft.inner_ip_id.counter(ip::ip_id(&headers[range.clone()]));
        let step = counter(headers).wrapping_sub(counter(&self.reference.headers));
        step.cast_signed() == self.ahead(draft.control)
    }
}

/// The verdict.
impl Decompressor {
    /// Decides if a packet, about to be committed, is delivered after losses. One in doubt is refused where there is a
    /// way back, and the NACK brings a packet with a strong CRC; in U-mode those that follow must confirm it.
    pub(super) fn weigh(
        &mut self,
        draft: &Draft,
        headers: &[u8],
        input: &Input<'_>,
    ) -> Result<(), DecompressError> {
        let config = input.config;
        if self.doubt == 0 && self.is_repeated(draft, headers) {
            return Ok(());
        }
        let is_confirming = config.peer_confirms && config.caution > 0;
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

    /// Returns `true` if the header is the last one. The channel then delivered a duplicate.
    fn is_repeated(&self, draft: &Draft, headers: &[u8]) -> bool {
        self.evidence.is_trusted()
            && self.ahead(draft.control) == 0
            && headers.starts_with(&self.reference.headers)
    }

    /// Holds back packets of a compressor that confirms until a CRC-7. Once the context is
    /// damaged, that passes too often by chance: a right checksum is needed as well, or IR or IR-DYN.
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

    /// Holds back packets of a compressor that does not confirm. A right TCP checksum proves them at once, but does not
    /// cover an IP-ID that counts.
    fn wait_for_more(&mut self, draft: &Draft, config: &DecompressorConfig) {
        let counts = draft.inner_ip_id.is_sequential() || draft.inner_ip_id == ip::IpId::Zero;
        if draft.has_crc7 || draft.is_checked && !counts {
            self.doubt = 0;
        } else if self.has_gap(draft.control, config) {
            self.doubt = config.caution;
        }
    }
}
