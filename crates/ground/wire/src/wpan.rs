//! MAC frames of IEEE 802.15.4: beacon, data, acknowledgement and command frames with their FCS.
//!
//! *Models*: frame control, addressing with and without PAN ID compression, frame versions 0 (2003) and 1 (2006), the FCS.
//! *Does not model*: security, frames of version 2 (2015), and the content of beacons and commands, which is kept as bytes.
//!
//! *References*: IEEE 802.15.4-2006, clauses 7.2.1 and 7.2.2. Its text was not available: layouts agree with Wireshark's
//! dissector, which the tests call.

use crate::{Error, Layer};

/// Maximum length of a frame with its FCS in bytes (aMaxPHYPacketSize).
pub const MAX_FRAME_LEN: usize = 127;
/// Length of the FCS in bytes.
pub const FCS_LEN: usize = 2;
/// Length of frame control and sequence number in bytes.
const FIXED_LEN: usize = 3;

const SECURITY: u16 = 1 << 3;
const PENDING: u16 = 1 << 4;
const ACK_REQUEST: u16 = 1 << 5;
const COMPRESSION: u16 = 1 << 6;

/// Returns the frame check sequence (FCS).
///
/// CRC-16 with x^16 + x^12 + x^5 + 1, reflected, initially zero.
///
/// ```
/// assert_eq!(bentpipe_wire::wpan::fcs(b"123456789"), 0x2189);
/// ```
pub fn fcs(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |register, byte| step(register ^ u16::from(*byte)))
}

const fn step(mut register: u16) -> u16 {
    const POLYNOMIAL: u16 = 0x8408;
    let mut bit = 0;
    while bit < 8 {
        register = register >> 1 ^ if register & 1 == 1 { POLYNOMIAL } else { 0 };
        bit += 1;
    }
    register
}

/// Type of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FrameType {
    /// Beacon.
    Beacon,
    /// Data.
    #[default]
    Data,
    /// Acknowledgement.
    Ack,
    /// MAC command.
    Command,
}

impl FrameType {
    fn from_bits(bits: u16) -> Option<FrameType> {
        [FrameType::Beacon, FrameType::Data, FrameType::Ack, FrameType::Command]
            .get(usize::from(bits & 7))
            .copied()
    }
}

/// Address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// Short address, which a coordinator assigns.
    Short(u16),
    /// Extended address (EUI-64).
    Extended(u64),
}

impl Address {
    /// Short address of all devices.
    pub const BROADCAST: Address = Address::Short(0xffff);

    const fn len(self) -> usize {
        match self {
            Address::Short(_) => 2,
            Address::Extended(_) => 8,
        }
    }

    const fn mode(self) -> u16 {
        match self {
            Address::Short(_) => 2,
            Address::Extended(_) => 3,
        }
    }

    fn put(self, out: &mut Vec<u8>) {
        match self {
            Address::Short(address) => out.extend(address.to_le_bytes()),
            Address::Extended(address) => out.extend(address.to_le_bytes()),
        }
    }
}

/// PAN identifier and address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// PAN identifier.
    pub pan: u16,
    /// Address.
    pub address: Address,
}

/// Header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Type.
    pub frame_type: FrameType,
    /// Set if the sender has more data for the receiver.
    pub pending: bool,
    /// Set if the receiver acknowledges the frame.
    pub ack_request: bool,
    /// Set if the source has the PAN identifier of the destination, which is left out.
    pub is_compressed: bool,
    /// Frame version: 0 for 2003, 1 for 2006.
    pub version: u8,
    /// Sequence number.
    pub sequence: u8,
    /// Receiver.
    pub destination: Option<Endpoint>,
    /// Sender.
    pub source: Option<Endpoint>,
}

impl Repr {
    /// Creates the header of a data frame between short addresses of a PAN.
    pub fn data(pan: u16, [source, destination]: [u16; 2], sequence: u8) -> Repr {
        let endpoint = |address| Some(Endpoint { pan, address: Address::Short(address) });
        Repr {
            ack_request: destination != 0xffff,
            is_compressed: true,
            sequence,
            destination: endpoint(destination),
            source: endpoint(source),
            ..Repr::default()
        }
    }

    /// Creates an acknowledgement of the frame with a sequence number.
    pub fn ack(sequence: u8) -> Repr {
        Repr { frame_type: FrameType::Ack, sequence, ..Repr::default() }
    }

    /// Returns the length of the header in bytes.
    pub fn buffer_len(&self) -> usize {
        let of = |endpoint: Option<Endpoint>, pan| endpoint.map_or(0, |end| end.address.len() + pan);
        FIXED_LEN + of(self.destination, 2) + of(self.source, if self.is_compressed { 0 } else { 2 })
    }

    /// Returns the length of a frame with a payload and the FCS in bytes.
    pub fn frame_len(&self, payload: usize) -> usize {
        self.buffer_len() + payload + FCS_LEN
    }

    fn control(&self) -> u16 {
        let bit = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
        let mode = |endpoint: Option<Endpoint>| endpoint.map_or(0, |end| end.address.mode());
        self.frame_type as u16
            | bit(self.pending, PENDING)
            | bit(self.ack_request, ACK_REQUEST)
            | bit(self.is_compressed, COMPRESSION)
            | mode(self.destination) << 10
            | u16::from(self.version & 1) << 12
            | mode(self.source) << 14
    }

    /// Appends a frame: the header, a payload and the FCS.
    ///
    /// # Panics
    /// Panics if the frame has more than [`MAX_FRAME_LEN`] bytes, or is compressed without two addresses of one PAN.
    pub fn emit(&self, payload: &[u8], out: &mut Vec<u8>) {
        assert!(self.frame_len(payload.len()) <= MAX_FRAME_LEN, "a payload of {} bytes", payload.len());
        let [source, destination] = [self.source, self.destination].map(|end| end.map(|end| end.pan));
        assert!(!self.is_compressed || (source.is_some() && source == destination), "two addresses of a PAN");
        let start = out.len();
        out.extend(self.control().to_le_bytes());
        out.push(self.sequence);
        if let Some(Endpoint { pan, address }) = self.destination {
            out.extend(pan.to_le_bytes());
            address.put(out);
        }
        if let Some(Endpoint { pan, address }) = self.source {
            if !self.is_compressed {
                out.extend(pan.to_le_bytes());
            }
            address.put(out);
        }
        out.extend(payload);
        let sum = fcs(&out[start..]);
        out.extend(sum.to_le_bytes());
    }
}

/// Frame with checked lengths and FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    header: Repr,
}

impl<'a> Frame<'a> {
    /// Parses a frame, from frame control to FCS.
    ///
    /// # Errors
    /// Returns an error if the bytes end early or are more than a frame's, the FCS is wrong, or a field has a reserved
    /// value; `Unsupported` for security and later versions.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Frame<'a>, Error> {
        if bytes.len() > MAX_FRAME_LEN {
            return Err(Error::malformed(Layer::Wpan, MAX_FRAME_LEN, "longer than 127 bytes"));
        }
        need(bytes, FIXED_LEN + FCS_LEN)?;
        let end = bytes.len() - FCS_LEN;
        if fcs(&bytes[..end]).to_le_bytes() != bytes[end..] {
            return Err(Error::checksum(Layer::Wpan, end));
        }
        Ok(Frame { bytes, header: parse(&bytes[..end])? })
    }

    /// Returns the header.
    pub fn header(&self) -> &Repr {
        &self.header
    }

    /// Returns the payload.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header.buffer_len()..self.bytes.len() - FCS_LEN]
    }
}

fn parse(bytes: &[u8]) -> Result<Repr, Error> {
    let control = u16::from_le_bytes([bytes[0], bytes[1]]);
    let frame_type = FrameType::from_bits(control);
    let frame_type = frame_type.ok_or(Error::malformed(Layer::Wpan, 0, "reserved frame type"))?;
    if control & SECURITY != 0 {
        return Err(Error::unsupported(Layer::Wpan, 0, "security"));
    }
    let version = (control >> 12 & 3) as u8;
    if version > 1 {
        return Err(Error::unsupported(Layer::Wpan, 1, "frame version above 1"));
    }
    if control & 0x0380 != 0 {
        return Err(Error::malformed(Layer::Wpan, 0, "reserved bits of frame control"));
    }
    let (is_compressed, modes) = (control & COMPRESSION != 0, [control >> 10 & 3, control >> 14]);
    if is_compressed && modes.contains(&0) {
        return Err(Error::malformed(Layer::Wpan, 0, "PAN ID compression without two addresses"));
    }
    let mut at = FIXED_LEN;
    let destination = endpoint(bytes, &mut at, modes[0], None)?;
    let shared = destination.map(|end| end.pan).filter(|_| is_compressed);
    let source = endpoint(bytes, &mut at, modes[1], shared)?;
    Ok(Repr {
        frame_type,
        pending: control & PENDING != 0,
        ack_request: control & ACK_REQUEST != 0,
        is_compressed,
        version,
        sequence: bytes[2],
        destination,
        source,
    })
}

/// Reads PAN identifier and address at `at`. `pan` is the identifier that is left out.
fn endpoint(bytes: &[u8], at: &mut usize, mode: u16, pan: Option<u16>) -> Result<Option<Endpoint>, Error> {
    let mut take = |len: usize| {
        need(bytes, *at + len)?;
        let mut value = [0; 8];
        value[..len].copy_from_slice(&bytes[*at..*at + len]);
        *at += len;
        Ok(u64::from_le_bytes(value))
    };
    let len = match mode {
        0 => return Ok(None),
        2 => 2,
        3 => 8,
        _ => return Err(Error::malformed(Layer::Wpan, 1, "reserved addressing mode")),
    };
    let pan = match pan {
        Some(pan) => pan,
        None => take(2)? as u16,
    };
    let value = take(len)?;
    let address = if len == 2 { Address::Short(value as u16) } else { Address::Extended(value) };
    Ok(Some(Endpoint { pan, address }))
}

fn need(bytes: &[u8], len: usize) -> Result<(), Error> {
    if bytes.len() < len { Err(Error::truncated(Layer::Wpan, 0, len, bytes.len())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    fn frame(header: &Repr, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        header.emit(payload, &mut out);
        assert_eq!(out.len(), header.frame_len(payload.len()));
        out
    }

    #[test]
    fn a_data_frame_has_nine_bytes_of_header_and_an_acknowledgement_five_in_all() {
        let header = Repr::data(0x22, [2, 1], 7);
        assert_eq!(header.buffer_len(), 9);
        let bytes = frame(&header, &[0xaa; 25]);
        assert_eq!(bytes[..9], [0x61, 0x88, 7, 0x22, 0, 1, 0, 2, 0]);
        assert_eq!(bytes.len(), 36);
        assert_eq!(frame(&Repr::ack(7), &[])[..3], [2, 0, 7]);
        assert_eq!(Repr::ack(7).frame_len(0), 5);
        assert!(!Repr::data(1, [1, 0xffff], 0).ack_request);
    }

    #[test]
    fn what_is_reserved_or_unsupported_is_refused_with_its_place() {
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = frame(&Repr::data(1, [2, 3], 0), &[1]);
            bytes.truncate(bytes.len() - 2);
            change(&mut bytes);
            let sum = fcs(&bytes);
            bytes.extend(sum.to_le_bytes());
            Frame::new_checked(&bytes).unwrap_err().kind
        };
        assert_eq!(refused(&|bytes| bytes[0] |= 8), Kind::Unsupported("security"));
        assert_eq!(refused(&|bytes| bytes[1] |= 0x20), Kind::Unsupported("frame version above 1"));
        assert_eq!(refused(&|bytes| bytes[0] |= 4), Kind::Malformed("reserved frame type"));
        assert_eq!(refused(&|bytes| bytes[0] |= 0x80), Kind::Malformed("reserved bits of frame control"));
        let lonely = "PAN ID compression without two addresses";
        assert_eq!(refused(&|bytes| bytes[1] &= 0x0f), Kind::Malformed(lonely));
        assert!(matches!(refused(&|bytes| bytes.truncate(8)), Kind::Truncated { needed: 9, .. }));
        let mut bytes = frame(&Repr::ack(1), &[]);
        bytes[2] ^= 1;
        assert_eq!(Frame::new_checked(&bytes).unwrap_err().kind, Kind::Checksum);
        assert!(Frame::new_checked(&[0; 128]).is_err() && Frame::new_checked(&[0; 4]).is_err());
    }

    fn endpoints() -> impl Strategy<Value = Option<Endpoint>> {
        let address =
            prop_oneof![any::<u16>().prop_map(Address::Short), any::<u64>().prop_map(Address::Extended)];
        proptest::option::of((any::<u16>(), address).prop_map(|(pan, address)| Endpoint { pan, address }))
    }

    proptest! {
        #[test]
        fn headers_survive_a_round_trip(
            (kind, flags, version) in (0_u16..4, any::<[bool; 3]>(), 0_u8..2),
            (destination, mut source) in (endpoints(), endpoints()),
            (sequence, payload) in (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..100)),
        ) {
            let is_compressed = flags[2] && destination.is_some() && source.is_some();
            if let (true, Some(source), Some(destination)) = (is_compressed, &mut source, destination) {
                source.pan = destination.pan;
            }
            let header = Repr {
                frame_type: FrameType::from_bits(kind).expect("below four"),
                pending: flags[0],
                ack_request: flags[1],
                is_compressed,
                version,
                sequence,
                destination,
                source,
            };
            let bytes = frame(&header, &payload);
            let frame = Frame::new_checked(&bytes).expect("a frame");
            prop_assert_eq!(frame.header(), &header);
            prop_assert_eq!(frame.payload(), &payload[..]);
        }
    }
}
