//! Quick-Start (RFC 4782): the IP option that requests a rate, and the transport's answer.
//!
//! The same fields follow type and length in an IPv4 option, an IPv6 hop-by-hop option, and the response
//! options of TCP and DCCP (RFC 5634). The approval by routers is not decided here.

use crate::bytes::{be32, put32};
use crate::ip::Protocol;
use crate::ip::ipv4::OptionItem;
use crate::ip::{ipv4, ipv6};
use crate::{Error, Layer};

/// Type of the IPv4 option: not copied, class 0, number 25 (RFC 4782, section 13.1).
pub const IPV4_OPTION: u8 = 25;
/// Type of the IPv6 hop-by-hop option: skipped if unknown, mutable on the way (section 13.1).
pub const IPV6_OPTION: u8 = 0x26;
/// Kind of TCP's response option (section 4.2).
pub const TCP_OPTION: u8 = 27;
/// Type of DCCP's response option (RFC 5634, section 2.2.1).
pub const DCCP_OPTION: u8 = 45;
/// Length in bytes of what follows type and length.
pub const DATA_LEN: usize = 6;
/// The bits of a nonce.
pub const NONCE_MASK: u32 = 0x3fff_ffff;

/// Rate as a 4-bit code. 0 is none, N is 40 kbit/s times 2^N.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RateCode(u8);

impl RateCode {
    /// No rate: refused.
    pub const NONE: RateCode = RateCode(0);

    /// Returns the code in the low four bits.
    pub const fn from_bits(bits: u8) -> RateCode {
        RateCode(bits & 0xf)
    }

    /// Returns the four bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the rate in bits per second.
    pub const fn bps(self) -> u64 {
        if self.0 == 0 { 0 } else { 40_000 << self.0 }
    }

    /// Returns the lowest code for at least `bps` bits per second, at most 15. A sender requests this.
    pub fn at_least(bps: u64) -> RateCode {
        (0..15).map(RateCode).find(|code| code.bps() >= bps).unwrap_or(RateCode(15))
    }

    /// Returns the highest code for at most `bps` bits per second. A router approves this; [`RateCode::NONE`]
    /// under 80 kbit/s.
    pub fn at_most(bps: u64) -> RateCode {
        (0..=15).rev().map(RateCode).find(|code| code.bps() <= bps).unwrap_or(RateCode::NONE)
    }
}

/// Function of an IP option (sections 3.1 and 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// A sender asks.
    Request,
    /// Report of the approved rate by the sender.
    Report,
}

/// The IP option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpOption {
    /// Function of the option.
    pub function: Function,
    /// The rate asked for or approved.
    pub rate: RateCode,
    /// QS TTL: routers that take part decrement it with the hop limit.
    pub ttl: u8,
    /// 30 random bits, of which a router that lowers the rate makes some random again.
    pub nonce: u32,
}

impl IpOption {
    /// Reads what follows type and length.
    ///
    /// # Errors
    /// Returns an error if the length is not 6 or the function is not known.
    pub fn parse(data: &[u8]) -> Result<IpOption, Error> {
        if data.len() != DATA_LEN {
            return Err(Error::malformed(Layer::QuickStart, 1, "length other than 8"));
        }
        let function = match data[0] >> 4 {
            0 => Function::Request,
            8 => Function::Report,
            _ => {
                return Err(Error::unsupported(
                    Layer::QuickStart,
                    2,
                    "function other than request and report",
                ));
            }
        };
        Ok(IpOption { function, rate: RateCode::from_bits(data[0]), ttl: data[1], nonce: be32(data, 2) >> 2 })
    }

    /// Returns the bytes after type and length.
    pub fn data(&self) -> [u8; DATA_LEN] {
        let function = match self.function {
            Function::Request => 0,
            Function::Report => 8,
        };
        data(function << 4 | self.rate.bits(), self.ttl, self.nonce)
    }

    /// Returns the whole IPv4 option.
    pub fn ipv4(&self) -> [u8; DATA_LEN + 2] {
        whole(IPV4_OPTION, DATA_LEN as u8 + 2, self.data())
    }

    /// Lowers the rate to the one that a router approves, at most `rate`. The nonce's bits of the steps in
    /// between become those of `random` (section 3.4).
    pub fn lower(&mut self, rate: RateCode, random: u32) {
        if rate < self.rate {
            let steps = mask(rate) ^ mask(self.rate);
            self.nonce = self.nonce & !steps | random & steps & NONCE_MASK;
            self.rate = rate;
        }
    }
}

/// The transport's answer: TCP option 27, DCCP option 45 (section 4.2; RFC 5634, section 2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Received rate, approved by all routers if the other fields agree; `None` if refused.
    pub rate: RateCode,
    /// Hop limit less QS TTL as they arrived, modulo 256.
    pub ttl_diff: u8,
    /// The nonce as it arrived.
    pub nonce: u32,
}

impl Response {
    /// Returns the answer to a request that arrived with `hop_limit`.
    pub fn to(request: &IpOption, hop_limit: u8) -> Response {
        Response { rate: request.rate, ttl_diff: hop_limit.wrapping_sub(request.ttl), nonce: request.nonce }
    }

    /// Reads what follows kind and length.
    ///
    /// # Errors
    /// Returns an error if the length is not 6.
    pub fn parse(data: &[u8]) -> Result<Response, Error> {
        if data.len() != DATA_LEN {
            return Err(Error::malformed(Layer::QuickStart, 1, "length other than 8"));
        }
        Ok(Response { rate: RateCode::from_bits(data[0]), ttl_diff: data[1], nonce: be32(data, 2) >> 2 })
    }

    /// Returns the bytes after kind and length.
    pub fn data(&self) -> [u8; DATA_LEN] {
        data(self.rate.bits(), self.ttl_diff, self.nonce)
    }

    /// Returns `true` if it answers `request`, sent with `hop_limit`, with every router's consent. The
    /// difference of the hop limits is unchanged, the rate is not higher, and the nonce is unchanged in the
    /// bits of the approved rate (sections 3.4 and 4.4).
    pub fn is_consent(&self, request: &IpOption, hop_limit: u8) -> bool {
        let kept = NONCE_MASK & !mask(request.rate) | mask(self.rate);
        self.rate > RateCode::NONE
            && self.rate <= request.rate
            && self.ttl_diff == hop_limit.wrapping_sub(request.ttl)
            && (self.nonce ^ request.nonce) & kept == 0
    }
}

/// Returns the nonce's bits for codes up to `rate`: two for each.
fn mask(rate: RateCode) -> u32 {
    (1 << (2 * u32::from(rate.bits()))) - 1
}

fn data(first: u8, second: u8, nonce: u32) -> [u8; DATA_LEN] {
    let mut data = [first, second, 0, 0, 0, 0];
    put32(&mut data, 2, nonce << 2);
    data
}

fn whole(kind: u8, len: u8, data: [u8; DATA_LEN]) -> [u8; DATA_LEN + 2] {
    let mut option = [kind, len, 0, 0, 0, 0, 0, 0];
    option[2..].copy_from_slice(&data);
    option
}

/// Returns the data offset and content of the option in a packet's first bytes. `None` if the packet has no
/// such option or is malformed.
pub fn find(packet: &[u8]) -> Option<(usize, IpOption)> {
    match packet.first()? >> 4 {
        4 if packet[0] > 0x45 => find_v4(packet),
        6 if packet.get(6) == Some(&Protocol::HOP_BY_HOP.0) => find_v6(packet),
        _ => None,
    }
}

fn find_v4(packet: &[u8]) -> Option<(usize, IpOption)> {
    let header_len = usize::from(packet[0] & 0xf) * 4;
    let options = packet.get(ipv4::HEADER_LEN..header_len)?;
    let found = ipv4::Options::parse(options).ok()?;
    let is_it = |item: &OptionItem<'_>| item.kind == IPV4_OPTION;
    let option = IpOption::parse(found.iter().find(is_it)?.data).ok()?;
    Some((ipv4::HEADER_LEN + offset(options, IPV4_OPTION, 0, 1)?, option))
}

fn find_v6(packet: &[u8]) -> Option<(usize, IpOption)> {
    let header = packet.get(ipv6::HEADER_LEN..)?;
    let len = 8 * (usize::from(*header.get(1)?) + 1);
    let options = header.get(2..len)?;
    let at = offset_v6(options)?;
    let option = IpOption::parse(options.get(at..at + DATA_LEN)?).ok()?;
    Some((ipv6::HEADER_LEN + 2 + at, option))
}

/// Returns the offset of the data of option `kind` in a parsed options field.
fn offset(options: &[u8], kind: u8, end: u8, nop: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        match *options.get(at)? {
            this if this == kind => return Some(at + 2),
            this if this == end => return None,
            this if this == nop => at += 1,
            _ => at += usize::from(*options.get(at + 1)?).max(2),
        }
    }
}

/// Returns the offset in hop-by-hop options, whose lengths exclude type and length. RFC 8200, section 4.2.
fn offset_v6(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *options.get(at)? {
            IPV6_OPTION if *options.get(at + 1)? as usize == DATA_LEN => return Some(at + 2),
            0 => at += 1,
            _ => at += 2 + usize::from(*options.get(at + 1)?),
        }
    }
}

/// Writes `option` over the one that [`find`] found, and corrects the header checksum. It is at `at`; the
/// checksum is IPv4's.
///
/// # Panics
/// Panics if there is not enough room for it at `at`.
pub fn replace(packet: &mut [u8], at: usize, option: &IpOption) {
    packet[at..at + DATA_LEN].copy_from_slice(&option.data());
    if packet[0] >> 4 == 4 {
        ipv4::Packet::new_unchecked(packet).fill_checksum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::ipv6::ext::OptionsRepr;

    const REQUEST: IpOption =
        IpOption { function: Function::Request, rate: RateCode(5), ttl: 99, nonce: 0x2aaa_aaaa };

    #[test]
    fn codes_are_the_table_of_section_3_1() {
        let kbps = [0, 80, 160, 320, 640, 1280, 2560, 5120, 10_240, 20_480, 40_960, 81_920, 163_840, 327_680];
        for (code, kbps) in kbps.into_iter().enumerate() {
            assert_eq!(RateCode::from_bits(code as u8).bps(), kbps * 1000);
        }
        assert_eq!((RateCode(14).bps(), RateCode(15).bps()), (655_360_000, 1_310_720_000));
        assert_eq!(RateCode::at_least(1_024_000).bps(), 1_280_000);
        assert_eq!(RateCode::at_least(u64::MAX), RateCode(15));
        assert_eq!(RateCode::at_most(1_024_000).bps(), 640_000);
        assert_eq!(RateCode::at_most(79_999), RateCode::NONE);
    }

    #[test]
    fn options_are_read_as_written() {
        for function in [Function::Request, Function::Report] {
            let option = IpOption { function, ..REQUEST };
            assert_eq!(IpOption::parse(&option.data()), Ok(option));
        }
        let response = Response::to(&REQUEST, 64);
        assert_eq!(Response::parse(&response.data()), Ok(response));
        assert!(IpOption::parse(&[0x30, 0, 0, 0, 0, 0]).is_err());
        assert!(IpOption::parse(&[0; 5]).is_err());
    }

    #[test]
    fn consent_needs_every_router_and_an_honest_receiver() {
        let answer =
            |request: &IpOption, hop_limit| Response::to(request, hop_limit).is_consent(&REQUEST, 64);
        // Three routers took part, or one of them did not.
        assert!(answer(&IpOption { ttl: 96, ..REQUEST }, 61));
        assert!(!answer(&IpOption { ttl: 97, ..REQUEST }, 61));
        let mut lowered = REQUEST;
        lowered.lower(RateCode(3), 0x1555_5555);
        assert_eq!(lowered.rate, RateCode(3));
        // Steps 5 to 4 and 4 to 3 are bits 6 to 9 (section 3.4).
        assert_eq!(lowered.nonce ^ REQUEST.nonce, 0x3c0);
        assert!(answer(&lowered, 64));
        // The receiver cannot pretend that the rate was not lowered.
        assert!(!answer(&IpOption { rate: RateCode(5), ..lowered }, 64));
        assert!(!answer(&IpOption { rate: RateCode::NONE, ..REQUEST }, 64));
    }

    #[test]
    fn the_option_is_found_and_replaced_in_both_versions() {
        let options =
            ipv4::Options::parse(&[[1, 1, 1, 1].as_slice(), &REQUEST.ipv4()].concat()).expect("options");
        let header = ipv4::Repr {
            options,
            ..ipv4::Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP, 0)
        };
        let mut bytes = vec![0; header.buffer_len()];
        header.emit(&mut bytes);
        assert_eq!(find(&bytes), Some((26, REQUEST)));
        let changed = IpOption { rate: RateCode(2), ttl: 98, ..REQUEST };
        replace(&mut bytes, 26, &changed);
        assert_eq!(find(&bytes), Some((26, changed)));
        ipv4::Packet::new_checked(&bytes[..]).expect("a packet").verify_checksum().expect("its checksum");

        let data = REQUEST.data();
        let hop_by_hop = OptionsRepr { next: Protocol::UDP, options: &[(5, &[0, 0]), (IPV6_OPTION, &data)] };
        let mut bytes = vec![0; 40 + hop_by_hop.buffer_len()];
        (bytes[0], bytes[6]) = (0x60, Protocol::HOP_BY_HOP.0);
        hop_by_hop.emit(&mut bytes[40..]);
        assert_eq!(find(&bytes), Some((48, REQUEST)));
        replace(&mut bytes, 48, &changed);
        assert_eq!(find(&bytes), Some((48, changed)));
        for len in 0..bytes.len() {
            find(&bytes[..len]);
        }
    }
}
