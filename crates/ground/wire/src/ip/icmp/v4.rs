//! ICMP messages (RFC 792).

use super::{HEADER_LEN, Message, halves};
use crate::bytes::be16;

/// Most bytes of an error message, IP header included (RFC 1812, section 4.3.2.3).
pub const MAX_ERROR_LEN: usize = 576;

const ECHO_REPLY: u8 = 0;
const DESTINATION_UNREACHABLE: u8 = 3;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

/// A header as values; data or the packet an error is about follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
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
    /// Destination unreachable.
    DestinationUnreachable {
        /// Code, one of the constants.
        code: u8,
        /// The next hop's MTU in bytes with [`Repr::FRAGMENTATION_NEEDED`] (RFC 1191), else 0.
        next_hop_mtu: u16,
    },
    /// Time exceeded.
    TimeExceeded {
        /// 0 in transit, 1 in reassembly.
        code: u8,
    },
    /// Parameter problem.
    ParameterProblem {
        /// Code.
        code: u8,
        /// The offending byte of the packet.
        pointer: u8,
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
    /// Code: net unreachable.
    pub const NET_UNREACHABLE: u8 = 0;
    /// Code: host unreachable.
    pub const HOST_UNREACHABLE: u8 = 1;
    /// Code: protocol unreachable.
    pub const PROTOCOL_UNREACHABLE: u8 = 2;
    /// Code: port unreachable.
    pub const PORT_UNREACHABLE: u8 = 3;
    /// Code: fragmentation needed and don't-fragment set.
    pub const FRAGMENTATION_NEEDED: u8 = 4;

    /// Reads the header of a checked message.
    pub fn parse<T: AsRef<[u8]>>(message: &Message<T>) -> Repr {
        let rest = message.rest_of_header();
        let (first, second) = (be16(&rest, 0), be16(&rest, 2));
        match (message.kind(), message.code(), rest) {
            (ECHO_REQUEST, 0, _) => Repr::EchoRequest { ident: first, seq: second },
            (ECHO_REPLY, 0, _) => Repr::EchoReply { ident: first, seq: second },
            (DESTINATION_UNREACHABLE, code, [0, 0, ..]) => {
                Repr::DestinationUnreachable { code, next_hop_mtu: second }
            }
            (TIME_EXCEEDED, code, [0, 0, 0, 0]) => Repr::TimeExceeded { code },
            (PARAMETER_PROBLEM, code, [pointer, 0, 0, 0]) => Repr::ParameterProblem { code, pointer },
            (kind, code, rest) => Repr::Other { kind, code, rest },
        }
    }

    /// Returns the header's length in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, its checksum zero: see [`Message::fill_checksum`], with no pseudo-header.
    ///
    /// # Panics
    /// If `buffer` is shorter than 8 bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let (kind, code, rest) = match *self {
            Repr::EchoRequest { ident, seq } => (ECHO_REQUEST, 0, halves(ident, seq)),
            Repr::EchoReply { ident, seq } => (ECHO_REPLY, 0, halves(ident, seq)),
            Repr::DestinationUnreachable { code, next_hop_mtu } => {
                (DESTINATION_UNREACHABLE, code, halves(0, next_hop_mtu))
            }
            Repr::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            Repr::ParameterProblem { code, pointer } => (PARAMETER_PROBLEM, code, [pointer, 0, 0, 0]),
            Repr::Other { kind, code, rest } => (kind, code, rest),
        };
        super::emit(buffer, kind, code, rest);
    }

    /// Returns `true` if this is an error message. No error is sent about another (RFC 1122, section 3.2.2).
    pub const fn is_error(&self) -> bool {
        match self {
            Repr::EchoRequest { .. } | Repr::EchoReply { .. } => false,
            Repr::DestinationUnreachable { .. }
            | Repr::TimeExceeded { .. }
            | Repr::ParameterProblem { .. } => true,
            // Source quench and redirect are errors too.
            Repr::Other { kind, .. } => matches!(*kind, 3 | 4 | 5 | 11 | 12),
        }
    }
}
