//! Envelope of bursts in Ethernet (`m2m`), in which Wireshark reads MAC PDUs.

use super::need;
use crate::bytes::{be16, be32};
use crate::lan::ethernet::MacAddr;
use crate::{Error, Layer};

/// EtherType of the envelope.
pub const ETHERTYPE: u16 = 0x08f0;

const VERSION: u8 = 1;
const FRAME: u8 = 2;
const BURST: u8 = 3;
const FRAGMENT: u8 = 4;
const PDUS: u8 = 9;

/// Burst of concatenated MAC PDUs, with its place in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst<'a> {
    /// Receiver.
    pub to: MacAddr,
    /// Sender. Wireshark takes bursts from the base station's address as downlink.
    pub from: MacAddr,
    /// Sequence number of the envelope.
    pub sequence: u16,
    /// Frame number, 24 bits.
    pub frame: u32,
    /// Number of the burst in its frame.
    pub number: u8,
    /// PDUs.
    pub pdus: &'a [u8],
}

impl<'a> Burst<'a> {
    /// Bytes in front of the TLVs: Ethernet header, sequence number, number of TLVs.
    const TLVS_AT: usize = 14 + 4;

    /// Appends the Ethernet frame.
    ///
    /// # Panics
    /// Panics if the PDUs have 65536 bytes or more.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.to.0);
        out.extend(self.from.0);
        out.extend(ETHERTYPE.to_be_bytes());
        out.extend(self.sequence.to_be_bytes());
        out.extend(5_u16.to_be_bytes());
        let [_, a, b, c] = self.frame.to_be_bytes();
        out.extend([VERSION, 1, 1, FRAME, 3, a, b, c, BURST, 1, self.number, FRAGMENT, 1, 0]);
        super::channel::Tlv { kind: PDUS, value: self.pdus }.emit(out);
    }

    /// Parses an Ethernet frame with one whole burst.
    ///
    /// # Errors
    /// Returns an error if the bytes end early, the EtherType is another, or the burst is fragmented or missing.
    pub fn parse(bytes: &'a [u8]) -> Result<Burst<'a>, Error> {
        need(bytes, Burst::TLVS_AT)?;
        if be16(bytes, 12) != ETHERTYPE {
            return Err(Error::malformed(Layer::Wman, 12, "EtherType"));
        }
        let (to, from) = (MacAddr(crate::bytes::array(bytes, 0)), MacAddr(crate::bytes::array(bytes, 6)));
        let mut burst = Burst { to, from, sequence: be16(bytes, 14), frame: 0, number: 0, pdus: &[] };
        let count = usize::from(be16(bytes, 16));
        for tlv in super::channel::Tlvs::new(&bytes[Burst::TLVS_AT..]).take(count) {
            let tlv = tlv?;
            match (tlv.kind, tlv.value) {
                (FRAME, [a, b, c]) => burst.frame = be32(&[0, *a, *b, *c], 0),
                (BURST, [number]) => burst.number = *number,
                (FRAGMENT, [kind]) if *kind != 0 => {
                    return Err(Error::unsupported(Layer::Wman, Burst::TLVS_AT, "fragmented burst"));
                }
                (PDUS, pdus) => burst.pdus = pdus,
                _ => {}
            }
        }
        Ok(burst)
    }
}
