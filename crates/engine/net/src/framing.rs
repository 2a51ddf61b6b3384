//! Link-layer overhead of an IP packet on the wire.

use bentpipe_units::{Bytes, Rate};
use bentpipe_wire::aal5;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// LLC, OUI and EtherType before a routed packet (RFC 2684, section 5.1).
const LLC_SNAP_LEN: usize = 8;

/// The bytes that a link layer spends on a packet of network-layer bytes.
///
/// Only lengths: the frame itself is not made, since nothing between the two ends of a link looks at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Framing {
    /// No overhead.
    #[default]
    None,
    /// Ethernet on the medium (IEEE 802.3), with frames padded to 64 bytes. Preamble 8, header 14, FCS 4 and
    /// interframe gap 12 bytes.
    Ethernet,
    /// LLC/SNAP (8 bytes) and AAL5 (8-byte trailer, padding) in 53-byte ATM cells (RFC 2684, I.363.5).
    Aal5LlcSnap {
        /// Enables an SDH or SONET rate, of which cells get 260 of 270 columns. That is 149.76 of 155.52
        /// Mbit/s. Default: false, the rate is the cells' own.
        #[serde(default)]
        sdh: bool,
    },
    /// Fixed number of additional bytes per packet.
    Fixed {
        /// Bytes added to each packet. No default.
        overhead: Bytes,
    },
}

impl Framing {
    /// Returns the bytes on the wire for a packet of `len_bytes`.
    #[inline]
    pub fn wire_len(&self, len_bytes: usize) -> Bytes {
        let len = len_bytes as u64;
        Bytes::new(match self {
            Framing::None => len,
            Framing::Ethernet => (len + 18).max(64) + 20,
            Framing::Aal5LlcSnap { .. } => aal5::wire_len(LLC_SNAP_LEN + len_bytes) as u64,
            Framing::Fixed { overhead } => len + overhead.get(),
        })
    }

    /// Returns the part of a line's rate for the bytes counted by [`Framing::wire_len`].
    pub fn usable(&self, line: Rate) -> Rate {
        match self {
            Framing::Aal5LlcSnap { sdh: true } => {
                Rate::from_bps((u128::from(line.as_bps()) * 260 / 270) as u64)
            }
            _ => line,
        }
    }

    /// Returns the throughput of packets of `len_bytes` on a line of rate `line`. Only their own bytes count.
    pub fn capacity(&self, line: Rate, len_bytes: usize) -> Rate {
        let wire = self.wire_len(len_bytes).get().max(1);
        let bits = u128::from(self.usable(line).as_bps()) * len_bytes as u128 / u128::from(wire);
        Rate::from_bps(bits as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_on_the_wire() {
        assert_eq!(Framing::None.wire_len(1500), Bytes::new(1500));
        assert_eq!(Framing::Ethernet.wire_len(1500), Bytes::new(1538));
        assert_eq!(Framing::Ethernet.wire_len(20), Bytes::new(84));
        assert_eq!(Framing::Fixed { overhead: Bytes::new(22) }.wire_len(45), Bytes::new(67));
        // 9160 bytes of IPv6-in-IPv4 payload and the 20 of the outer header: 192 cells.
        let aal5 = Framing::Aal5LlcSnap { sdh: false };
        assert_eq!(aal5.wire_len(9180), Bytes::new(192 * 53));
        assert_eq!(aal5.wire_len(32), Bytes::new(53));
        assert_eq!(aal5.wire_len(33), Bytes::new(106));
    }

    #[test]
    fn cells_get_their_share_of_an_sdh_line() {
        let line = Rate::from_bps(155_520_000);
        assert_eq!(Framing::Aal5LlcSnap { sdh: true }.usable(line), Rate::from_bps(149_760_000));
        let capacity = Framing::Aal5LlcSnap { sdh: true }.capacity(line, 9180);
        assert_eq!(capacity.as_bps(), 149_760_000 * 9180 / (192 * 53));
    }
}
