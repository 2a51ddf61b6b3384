//! ICMPv6 messages (RFC 4443).

use super::{HEADER_LEN, Message, halves};
use crate::bytes::{be16, be32};

/// Maximum length of an error message in bytes, IPv6 header included: the smallest MTU. RFC 4443, section
/// 2.4.
pub const MAX_ERROR_LEN: usize = 1280;

const DESTINATION_UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;

/// A header as values; data or the packet an error is about follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// Destination unreachable.
    DestinationUnreachable {
        /// Code, one of the constants.
        code: u8,
    },
    /// Packet too big.
    PacketTooBig {
        /// The next hop's MTU in bytes.
        mtu: u32,
    },
    /// Time exceeded.
    TimeExceeded {
        /// 0 hop limit, 1 reassembly.
        code: u8,
    },
    /// Parameter problem.
    ParameterProblem {
        /// Code.
        code: u8,
        /// The offending byte of the packet.
        pointer: u32,
    },
    /// Echo request.
    EchoRequest {
        /// Identifier.
        ident: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Echo reply.
    EchoReply {
        /// Identifier.
        ident: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Any other message, or one of the above whose unused fields are not zero.
    Other {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// The four bytes after the checksum.
        rest: [u8; 4],
    },
}

impl Repr {
    /// Code: no route to destination.
    pub const NO_ROUTE: u8 = 0;
    /// Code: administratively prohibited.
    pub const PROHIBITED: u8 = 1;
    /// Code: address unreachable.
    pub const ADDRESS_UNREACHABLE: u8 = 3;
    /// Code: port unreachable.
    pub const PORT_UNREACHABLE: u8 = 4;

    /// Reads the header of a checked message.
    pub fn parse<T: AsRef<[u8]>>(message: &Message<T>) -> Repr {
        let rest = message.rest_of_header();
        let (first, second) = (be16(&rest, 0), be16(&rest, 2));
        match (message.kind(), message.code(), rest) {
            (DESTINATION_UNREACHABLE, code, [0, 0, 0, 0]) => Repr::DestinationUnreachable { code },
            (PACKET_TOO_BIG, 0, _) => Repr::PacketTooBig { mtu: be32(&rest, 0) },
            (TIME_EXCEEDED, code, [0, 0, 0, 0]) => Repr::TimeExceeded { code },
            (PARAMETER_PROBLEM, code, _) => Repr::ParameterProblem { code, pointer: be32(&rest, 0) },
            (ECHO_REQUEST, 0, _) => Repr::EchoRequest { ident: first, seq: second },
            (ECHO_REPLY, 0, _) => Repr::EchoReply { ident: first, seq: second },
            (kind, code, rest) => Repr::Other { kind, code, rest },
        }
    }

    /// Returns the header's length in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, its checksum zero: see [`Message::fill_checksum`], with the pseudo-header.
    ///
    /// # Panics
    /// If `buffer` is shorter than 8 bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let (kind, code, rest) = match *self {
            Repr::DestinationUnreachable { code } => (DESTINATION_UNREACHABLE, code, [0; 4]),
            Repr::PacketTooBig { mtu } => (PACKET_TOO_BIG, 0, mtu.to_be_bytes()),
            Repr::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            Repr::ParameterProblem { code, pointer } => (PARAMETER_PROBLEM, code, pointer.to_be_bytes()),
            Repr::EchoRequest { ident, seq } => (ECHO_REQUEST, 0, halves(ident, seq)),
            Repr::EchoReply { ident, seq } => (ECHO_REPLY, 0, halves(ident, seq)),
            Repr::Other { kind, code, rest } => (kind, code, rest),
        };
        super::emit(buffer, kind, code, rest);
    }

    /// Returns `true` if this is an error message: types under 128. No error is sent about another (RFC 4443,
    /// section 2.1).
    pub const fn is_error(&self) -> bool {
        match self {
            Repr::EchoRequest { .. } | Repr::EchoReply { .. } => false,
            Repr::Other { kind, .. } => *kind < 128,
            _ => true,
        }
    }
}
