//! ABR resource management cell and its rates (ATM Forum Traffic Management 4.0, ITU-T I.371).

use crate::atm::{PAYLOAD_LEN, crc10};
use crate::bytes::{be16, be32, put16, put32};
use crate::{Error, Layer};

/// The protocol of ABR.
const PROTOCOL_ABR: u8 = 1;
/// Value of reserved octets.
const RESERVED: u8 = 0x6a;

mod field {
    use std::ops::Range;

    pub(super) const PROTOCOL: usize = 0;
    pub(super) const MESSAGE: usize = 1;
    pub(super) const ER: usize = 2;
    pub(super) const CCR: usize = 4;
    pub(super) const MCR: usize = 6;
    pub(super) const QL: usize = 8;
    pub(super) const SN: usize = 12;
    pub(super) const RESERVED: Range<usize> = 16..46;
}

/// Rate in cells per second in RM cell format: 2^e (1 + m/512). A bit indicates whether it is above zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u16);

impl Rate {
    const NOT_ZERO: u16 = 1 << 14;
    const MANTISSA_BITS: u32 = 9;

    /// No cells at all.
    pub const ZERO: Rate = Rate(0);
    /// The largest rate, 4.3 thousand million cells per second.
    pub const MAX: Rate = Rate(0x7fff);

    /// Returns the largest rate that is not above `cells_per_second`; zero under 1 and for NaN.
    pub fn from_cells_per_second(cells_per_second: f64) -> Rate {
        if cells_per_second.is_nan() || cells_per_second < 1.0 {
            return Rate::ZERO;
        }
        // The nine bits after the leading one are the upper nine of the double's own mantissa.
        let bits = cells_per_second.to_bits();
        let exponent = (bits >> 52) - 1023;
        if exponent > 31 {
            return Rate::MAX;
        }
        Rate(Rate::NOT_ZERO | (exponent as u16) << Rate::MANTISSA_BITS | (bits >> 43) as u16 & 0x1ff)
    }

    /// Returns the rate in cells per second.
    pub fn cells_per_second(self) -> f64 {
        if self.0 & Rate::NOT_ZERO == 0 {
            return 0.0;
        }
        let exponent = u64::from(self.0 >> Rate::MANTISSA_BITS & 0x1f);
        f64::from_bits((exponent + 1023) << 52 | u64::from(self.0 & 0x1ff) << 43)
    }

    /// Returns the rate of a field, without the reserved bit. Exponent and mantissa of a zero rate are
    /// dropped too.
    pub const fn from_bits(bits: u16) -> Rate {
        if bits & Rate::NOT_ZERO == 0 { Rate::ZERO } else { Rate(bits & 0x7fff) }
    }

    /// Returns the field's sixteen bits; the uppermost is always zero.
    pub const fn bits(self) -> u16 {
        self.0
    }
}

/// An RM cell's payload as values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// DIR: whether the cell is on its way back to the source of the data.
    pub backward: bool,
    /// BN: whether a switch or the destination made it, and not the source.
    pub not_by_source: bool,
    /// CI: congestion was met.
    pub congestion: bool,
    /// NI: no increase.
    pub no_increase: bool,
    /// RA of I.371: a request that is acknowledged. Unused by the ATM Forum's ABR.
    pub request: bool,
    /// ER: the explicit rate.
    pub explicit: Rate,
    /// CCR: the source's cell rate of the moment.
    pub current: Rate,
    /// MCR: its guaranteed minimum.
    pub minimum: Rate,
    /// QL of I.371: queue length in cells. Unused by the ATM Forum's ABR.
    pub queue_len: u32,
    /// SN of I.371: sequence number. Unused by the ATM Forum's ABR.
    pub sequence: u32,
}

impl Repr {
    /// Reads a cell's payload of 48 bytes.
    ///
    /// # Errors
    /// `Truncated` under 48 bytes; `Checksum` if the CRC-10 does not match; `Unsupported` if it is not ABR's.
    pub fn parse(payload: &[u8]) -> Result<Repr, Error> {
        if payload.len() < PAYLOAD_LEN {
            return Err(Error::truncated(Layer::Rm, 0, PAYLOAD_LEN, payload.len()));
        }
        if !crc10::verify(&payload[..PAYLOAD_LEN]) {
            return Err(Error::checksum(Layer::Rm, 46));
        }
        if payload[field::PROTOCOL] != PROTOCOL_ABR {
            return Err(Error::unsupported(Layer::Rm, field::PROTOCOL, "protocol other than ABR"));
        }
        let message = |bit: u8| payload[field::MESSAGE] >> bit & 1 != 0;
        let rate = |at| Rate::from_bits(be16(payload, at));
        Ok(Repr {
            backward: message(7),
            not_by_source: message(6),
            congestion: message(5),
            no_increase: message(4),
            request: message(3),
            explicit: rate(field::ER),
            current: rate(field::CCR),
            minimum: rate(field::MCR),
            queue_len: be32(payload, field::QL),
            sequence: be32(payload, field::SN),
        })
    }

    /// Returns the payload's length in bytes.
    pub const fn buffer_len(&self) -> usize {
        PAYLOAD_LEN
    }

    /// Writes the payload with its CRC-10.
    ///
    /// # Panics
    /// If `buffer` is shorter than 48 bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let payload = &mut buffer[..PAYLOAD_LEN];
        let flags = [self.backward, self.not_by_source, self.congestion, self.no_increase, self.request];
        payload[field::PROTOCOL] = PROTOCOL_ABR;
        payload[field::MESSAGE] = flags.iter().fold(0, |bits, &flag| bits << 1 | u8::from(flag)) << 3;
        put16(payload, field::ER, self.explicit.bits());
        put16(payload, field::CCR, self.current.bits());
        put16(payload, field::MCR, self.minimum.bits());
        put32(payload, field::QL, self.queue_len);
        put32(payload, field::SN, self.sequence);
        payload[field::RESERVED].fill(RESERVED);
        payload[field::RESERVED.end..].fill(0);
        crc10::fill(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_of_known_lines() {
        // 155.52, 149.76 and 10 Mbit/s in cells of 424 bits.
        for (rate_bps, bits, decoded) in
            [(155.52e6, 0x64cc, 366_592.0), (149.76e6, 0x64b1, 352_768.0), (10e6, 0x5ce1, 23_584.0)]
        {
            let rate = Rate::from_cells_per_second(rate_bps / 424.0);
            assert_eq!((rate.bits(), rate.cells_per_second()), (bits, decoded));
        }
        assert_eq!(Rate::from_cells_per_second(0.99), Rate::ZERO);
        assert_eq!(Rate::from_cells_per_second(1.0).bits(), 0x4000);
        assert_eq!(Rate::from_cells_per_second(f64::INFINITY), Rate::MAX);
        assert_eq!(Rate::from_bits(0xbfff), Rate::ZERO);
    }

    #[test]
    fn a_forward_cell_as_a_source_writes_it() {
        let rate = |bps: f64| Rate::from_cells_per_second(bps / 424.0);
        let repr = Repr { explicit: rate(155.52e6), current: rate(10e6), ..Repr::default() };
        let mut payload = [0xff; PAYLOAD_LEN];
        repr.emit(&mut payload);
        let head = [1, 0, 0x64, 0xcc, 0x5c, 0xe1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            (&payload[..16], &payload[16..46], &payload[46..]),
            (&head[..], &[0x6a; 30][..], &[0, 0x90][..])
        );
        assert_eq!(Repr::parse(&payload), Ok(repr));
        assert_eq!(Repr::parse(&payload[..47]), Err(Error::truncated(Layer::Rm, 0, 48, 47)));
        payload[0] = 2;
        crc10::fill(&mut payload);
        assert!(matches!(Repr::parse(&payload).unwrap_err().kind, crate::Kind::Unsupported(_)));
    }

    proptest! {
        #[test]
        fn rates_lose_at_most_one_part_in_512(cells_per_second in 1.0..4e9_f64) {
            let rate = Rate::from_cells_per_second(cells_per_second);
            let decoded = rate.cells_per_second();
            prop_assert!(decoded <= cells_per_second && cells_per_second < decoded * (1.0 + 1.0 / 512.0));
            prop_assert_eq!(Rate::from_cells_per_second(decoded), rate);
        }

        #[test]
        fn round_trip(flags: [bool; 5], rates: [u16; 3], queue_len: u32, sequence: u32) {
            let [backward, not_by_source, congestion, no_increase, request] = flags;
            let [explicit, current, minimum] = rates.map(Rate::from_bits);
            let repr = Repr {
                backward, not_by_source, congestion, no_increase, request,
                explicit, current, minimum, queue_len, sequence,
            };
            let mut payload = [0xff; PAYLOAD_LEN];
            repr.emit(&mut payload);
            prop_assert_eq!(Repr::parse(&payload), Ok(repr));
        }
    }
}
