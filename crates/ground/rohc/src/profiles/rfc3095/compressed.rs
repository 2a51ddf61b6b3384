//! Parser of compressed headers of types 0, 1 and 2. See RFC 3095 5.7.1 to 5.7.5, 5.11.3 and 5.11.4.

use crate::framework::error::DecompressError;
use crate::framework::octets::Reader;
use crate::framework::profile::PacketType;
use crate::framework::sdvl;

/// Low bits of a value, collected from several fields (RFC 3095 4.5.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) value: u32,
    pub(crate) count: u32,
}

impl Bits {
    pub(crate) const fn new(value: u8, count: u32) -> Self {
        Self { value: value as u32, count }
    }

    /// Appends less significant bits. Bits beyond 32 are lost at the top.
    pub(crate) const fn append(&mut self, value: u32, count: u32) {
        self.value = if count >= 32 { value } else { self.value << count | value };
        self.count = if self.count + count > 32 { 32 } else { self.count + count };
    }
}

/// CRC of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrcKind {
    None,
    Three,
    Seven,
}

/// The flags of one IP header in extension 3.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IpFlags(u8);

impl IpFlags {
    const fn is(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    pub(crate) const fn tos(self) -> bool {
        self.is(0x80)
    }

    pub(crate) const fn ttl(self) -> bool {
        self.is(0x40)
    }

    pub(crate) const fn df(self) -> bool {
        self.is(0x20)
    }

    pub(crate) const fn protocol(self) -> bool {
        self.is(0x10)
    }

    pub(crate) const fn extensions(self) -> bool {
        self.is(0x08)
    }

    pub(crate) const fn nbo(self) -> bool {
        self.is(0x04)
    }

    pub(crate) const fn rnd(self) -> bool {
        self.is(0x02)
    }

    /// Returns `true` if ip2 (inner flags of RTP profiles) or I2 (outer flags) is set.
    pub(crate) const fn last(self) -> bool {
        self.is(0x01)
    }
}

/// Extension 3 up to and including its timestamp. The rest needs the context and is read by the decompressor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension3 {
    /// Tsc; always set in profiles without RTP.
    pub(crate) scaled: bool,
    /// The Mode field of profiles without RTP; 0 or absent otherwise.
    pub(crate) mode: Option<u8>,
    /// I.
    pub(crate) id: bool,
    pub(crate) inner: Option<IpFlags>,
    pub(crate) outer: Option<IpFlags>,
    pub(crate) rtp: bool,
}

/// A compressed header, as far as the context is not needed to read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compact {
    pub(crate) kind: PacketType,
    pub(crate) sn: Bits,
    pub(crate) ts: Bits,
    /// Identification of the innermost IPv4 header that is not random.
    pub(crate) id: Bits,
    /// Identification of the outer IPv4 header (extension 2 without RTP).
    pub(crate) outer_id: Bits,
    pub(crate) marker: Option<bool>,
    pub(crate) crc: u8,
    pub(crate) crc_kind: CrcKind,
    pub(crate) extension3: Option<Extension3>,
}

/// Properties of a context that select its set of formats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) rtp: bool,
    pub(crate) reliable: bool,
    /// RND of inner and outer IP header; `None`: no IPv4 header.
    pub(crate) inner_rnd: Option<bool>,
    pub(crate) outer_rnd: Option<bool>,
}

impl Shape {
    /// Returns `true` if an identification is compressed: formats then have a T bit.
    const fn has_t(self) -> bool {
        matches!(self.inner_rnd, Some(false)) || matches!(self.outer_rnd, Some(false))
    }

    /// Returns the shape with the RND flags of an extension 3. See RFC 3095 5.7.5.1 and RFC 4815 8.3.
    fn after_extension3(mut self, octets: &[u8]) -> Self {
        let [flags, inner, rest @ ..] = octets else { return self };
        let has_inner = flags & 0x02 != 0;
        if flags >> 6 != 3 || !has_inner {
            return self;
        }
        let rnd = |octet: &u8| IpFlags(*octet).rnd();
        self.inner_rnd = self.inner_rnd.map(|_| rnd(inner));
        let has_outer = inner & 1 != 0;
        if let (true, Some(outer)) = (has_outer, rest.first()) {
            self.outer_rnd = self.outer_rnd.map(|_| rnd(outer));
        }
        self
    }
}

/// Parses a header of type 0, 1 or 2 whose type octet is `first`. The reader is left in extension 3 or after
/// everything else.
pub(crate) fn parse(first: u8, reader: &mut Reader<'_>, shape: Shape) -> Result<Compact, DecompressError> {
    let mut compact = Compact {
        kind: PacketType::Uo0,
        sn: Bits::default(),
        ts: Bits::default(),
        id: Bits::default(),
        outer_id: Bits::default(),
        marker: None,
        crc: 0,
        crc_kind: CrcKind::None,
        extension3: None,
    };
    match (first >> 5, shape.reliable) {
        (0b000..=0b011, false) => compact.uo0(first),
        (0b000..=0b001, true) => compact.r0(first),
        (0b010..=0b011, true) => compact.r0_crc(first, reader)?,
        (0b100..=0b101, false) => compact.uo1(first, reader, shape)?,
        (0b100..=0b101, true) => compact.r1(first, reader, shape)?,
        (0b110, _) => compact.uor2(first, reader, shape)?,
        _ => return Err(DecompressError::Malformed("packet type")),
    }
    Ok(compact)
}

impl Compact {
    fn uo0(&mut self, first: u8) {
        self.sn = Bits::new(first >> 3 & 0x0f, 4);
        self.crc3(first);
    }

    fn r0(&mut self, first: u8) {
        self.kind = PacketType::R0;
        self.sn = Bits::new(first & 0x3f, 6);
    }

    fn r0_crc(&mut self, first: u8, reader: &mut Reader<'_>) -> Result<(), DecompressError> {
        let second = reader.u8()?;
        self.kind = PacketType::R0Crc;
        self.sn = Bits::new(first & 0x3f, 6);
        self.sn.append(u32::from(second >> 7), 1);
        self.crc7(second);
        Ok(())
    }

    fn crc3(&mut self, octet: u8) {
        (self.crc, self.crc_kind) = (octet & 0x07, CrcKind::Three);
    }

    fn crc7(&mut self, octet: u8) {
        (self.crc, self.crc_kind) = (octet & 0x7f, CrcKind::Seven);
    }

    fn uo1(&mut self, first: u8, reader: &mut Reader<'_>, shape: Shape) -> Result<(), DecompressError> {
        let second = reader.u8()?;
        self.crc3(second);
        self.sn = Bits::new(second >> 3 & 0x0f, 4);
        let top = second & 0x80 != 0;
        if !shape.rtp {
            self.kind = PacketType::Uo1;
            self.sn = Bits::new(second >> 3, 5);
            self.id = Bits::new(first & 0x3f, 6);
            return Ok(());
        }
        if !shape.has_t() {
            self.kind = PacketType::Uo1;
            self.ts = Bits::new(first & 0x3f, 6);
            self.marker = Some(top);
            return Ok(());
        }
        if first & 0x20 != 0 {
            self.kind = PacketType::Uo1Ts;
            self.ts = Bits::new(first & 0x1f, 5);
            self.marker = Some(top);
            return Ok(());
        }
        self.kind = PacketType::Uo1Id;
        self.id = Bits::new(first & 0x1f, 5);
        if top { self.extension(reader, shape, Some(false)) } else { Ok(()) }
    }

    fn r1(&mut self, first: u8, reader: &mut Reader<'_>, shape: Shape) -> Result<(), DecompressError> {
        let second = reader.u8()?;
        self.sn = Bits::new(first & 0x3f, 6);
        self.kind = PacketType::R1;
        if !shape.rtp {
            self.id = Bits::new(second & 0x7f, 7);
            return if second & 0x80 != 0 { self.extension(reader, shape, None) } else { Ok(()) };
        }
        self.marker = Some(second & 0x80 != 0);
        let extended = second & 0x40 != 0;
        // An extension 3 may change RND, and so whether there is a T bit.
        let shape = if extended { shape.after_extension3(reader.rest()) } else { shape };
        let t = shape.has_t().then_some(second & 0x20 != 0);
        match t {
            None => self.ts = Bits::new(second & 0x3f, 6),
            Some(true) => (self.kind, self.ts) = (PacketType::R1Ts, Bits::new(second & 0x1f, 5)),
            Some(false) => (self.kind, self.id) = (PacketType::R1Id, Bits::new(second & 0x1f, 5)),
        }
        if extended { self.extension(reader, shape, t) } else { Ok(()) }
    }

    fn uor2(&mut self, first: u8, reader: &mut Reader<'_>, shape: Shape) -> Result<(), DecompressError> {
        self.kind = PacketType::Uor2;
        if !shape.rtp {
            self.sn = Bits::new(first & 0x1f, 5);
            let last = reader.u8()?;
            self.crc7(last);
            return if last & 0x80 != 0 { self.extension(reader, shape, None) } else { Ok(()) };
        }
        let [second, last] = reader.array()?;
        self.crc7(last);
        self.sn = Bits::new(second & 0x3f, 6);
        self.marker = Some(second & 0x40 != 0);
        let extended = last & 0x80 != 0;
        let shape = if extended { shape.after_extension3(reader.rest()) } else { shape };
        let t = shape.has_t().then_some(second & 0x80 != 0);
        let bits = Bits::new(first & 0x1f, 5);
        match t {
            None => {
                self.ts = bits;
                self.ts.append(u32::from(second >> 7), 1);
            }
            Some(true) => (self.kind, self.ts) = (PacketType::Uor2Ts, bits),
            Some(false) => (self.kind, self.id) = (PacketType::Uor2Id, bits),
        }
        if extended { self.extension(reader, shape, t) } else { Ok(()) }
    }

    /// Reads an extension. `t` is the T bit of the base header, if it has one.
    fn extension(
        &mut self,
        reader: &mut Reader<'_>,
        shape: Shape,
        t: Option<bool>,
    ) -> Result<(), DecompressError> {
        let first = reader.u8()?;
        if first >> 6 == 3 {
            return self.extension3(first, reader, shape);
        }
        self.sn.append(u32::from(first >> 3 & 7), 3);
        let (plus, octets) = (u32::from(first & 7), first >> 6);
        if !shape.rtp {
            return self.short_extension_without_rtp(plus, octets, reader);
        }
        // No T bit: both halves are timestamp (RFC 3095 5.7.5).
        let (plus_is_ts, minus_is_ts) = (t != Some(false), t != Some(true));
        let mut plus = Bits { value: plus, count: 3 };
        if octets == 2 {
            plus.append(u32::from(reader.u8()?), 8);
        }
        self.field(plus_is_ts).append(plus.value, plus.count);
        if octets >= 1 {
            let minus = u32::from(reader.u8()?);
            self.field(minus_is_ts).append(minus, 8);
        }
        Ok(())
    }

    fn field(&mut self, ts: bool) -> &mut Bits {
        if ts { &mut self.ts } else { &mut self.id }
    }

    fn short_extension_without_rtp(
        &mut self,
        plus: u32,
        octets: u8,
        reader: &mut Reader<'_>,
    ) -> Result<(), DecompressError> {
        if octets == 2 {
            self.outer_id = Bits { value: plus, count: 3 };
            self.outer_id.append(u32::from(reader.u8()?), 8);
        } else {
            self.id.append(plus, 3);
        }
        if octets >= 1 {
            self.id.append(u32::from(reader.u8()?), 8);
        }
        Ok(())
    }

    fn extension3(
        &mut self,
        flags: u8,
        reader: &mut Reader<'_>,
        shape: Shape,
    ) -> Result<(), DecompressError> {
        let has_inner = flags & 0x02 != 0;
        let inner = if has_inner { Some(IpFlags(reader.u8()?)) } else { None };
        let has_outer = if shape.rtp { inner.is_some_and(IpFlags::last) } else { flags & 0x01 != 0 };
        let outer = if has_outer { Some(IpFlags(reader.u8()?)) } else { None };
        if flags & 0x20 != 0 {
            self.sn.append(u32::from(reader.u8()?), 8);
        }
        if shape.rtp && flags & 0x10 != 0 {
            let (ts, bits) = sdvl::read(reader)?;
            self.ts.append(ts, bits);
        }
        self.extension3 = Some(Extension3 {
            scaled: !shape.rtp || flags & 0x08 != 0,
            mode: (!shape.rtp).then_some(flags >> 3 & 3),
            id: flags & 0x04 != 0,
            inner,
            outer,
            rtp: shape.rtp && flags & 0x01 != 0,
        });
        Ok(())
    }
}
