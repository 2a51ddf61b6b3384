//! TFRC's own headers over UDP.
//!
//! Data starts with a sequence number (32 bits) and the sender's RTT in microseconds (32 bits, zero before there is one);
//! the rest is payload. A report is the highest sequence number, bytes a second received, the loss event rate times
//! 2^32, the time in microseconds that the receiver held that packet (32 bits each), a word that is 1 if there is an
//! answer to a Quick-Start request, and that answer as in DCCP's option, in 8 bytes.

use bentpipe_net::Packet;
use bentpipe_units::Span;
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::quick_start::{DATA_LEN, IpOption, Response};
use bentpipe_wire::udp::{self, Datagram};

use super::Report;
use crate::datagram::{Arrived, Path, Refusal};

/// Length in bytes of the header in front of data.
pub(super) const DATA_HEADER_LEN: usize = 8;
const REPORT_LEN: usize = 28;

/// Header in front of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) sequence: u64,
    pub(super) rtt: Option<Span>,
    /// The payload with this header.
    pub(super) payload_len: usize,
}

impl Data {
    pub(super) fn packet(&self, path: &Path, option: Option<&IpOption>) -> Packet {
        let rtt_us = self.rtt.map_or(0, |rtt| (rtt.as_nanos() / 1000).clamp(1, u32::MAX.into()) as u32);
        let mut head = [0; DATA_HEADER_LEN];
        head[..4].copy_from_slice(&(self.sequence as u32).to_be_bytes());
        head[4..].copy_from_slice(&rtt_us.to_be_bytes());
        datagram(path, option, &head, self.payload_len - DATA_HEADER_LEN)
    }

    /// Parses data; the sequence number is the one nearest to `near`. Its low 32 bits are in the packet.
    pub(super) fn read(packet: &Packet, near: u64) -> Result<(Data, u16, Arrived<'_>), Refusal> {
        let arrived = Arrived::read(packet, Protocol::UDP)?;
        let udp = Datagram::new_elided(arrived.bytes, arrived.elided).map_err(|_| Refusal::Unexpected)?;
        let head = udp.payload().first_chunk::<DATA_HEADER_LEN>().ok_or(Refusal::Unexpected)?;
        let rtt_us = word(head, 4);
        let data = Data {
            sequence: extend(near, word(head, 0)),
            rtt: (rtt_us > 0).then(|| Span::from_micros(rtt_us.into())),
            payload_len: udp.payload_len(),
        };
        let port = udp.src_port();
        Ok((data, port, arrived))
    }
}

impl Report {
    pub(super) fn udp_packet(&self, path: &Path) -> Packet {
        let p = (self.loss_event_rate * 4_294_967_296.0).min(4_294_967_295.0) as u32;
        let delay_us = (self.delay.as_nanos() / 1000).min(u32::MAX.into()) as u32;
        let words = [
            self.sequence as u32,
            self.receive_rate.min(4e9) as u32,
            p,
            delay_us,
            self.response.is_some().into(),
        ];
        let mut bytes = [0; REPORT_LEN];
        for (n, word) in words.into_iter().enumerate() {
            bytes[4 * n..4 * n + 4].copy_from_slice(&word.to_be_bytes());
        }
        if let Some(response) = self.response {
            bytes[20..20 + DATA_LEN].copy_from_slice(&response.data());
        }
        datagram(path, None, &bytes, 0)
    }

    pub(super) fn read_udp(packet: &Packet, near: u64) -> Result<Report, Refusal> {
        let arrived = Arrived::read(packet, Protocol::UDP)?;
        let udp = Datagram::new_elided(arrived.bytes, arrived.elided).map_err(|_| Refusal::Unexpected)?;
        let bytes = udp.payload().first_chunk::<REPORT_LEN>().ok_or(Refusal::Unexpected)?;
        let has_response = word(bytes, 16) == 1;
        Ok(Report {
            sequence: extend(near, word(bytes, 0)),
            receive_rate: word(bytes, 4).into(),
            loss_event_rate: f64::from(word(bytes, 8)) / 4_294_967_296.0,
            delay: Span::from_micros(word(bytes, 12).into()),
            response: has_response.then(|| Response::parse(&bytes[20..20 + DATA_LEN]).ok()).flatten(),
        })
    }
}

fn datagram(path: &Path, option: Option<&IpOption>, head: &[u8], zeros: usize) -> Packet {
    let mut bytes = vec![0; udp::HEADER_LEN + head.len()];
    bytes[udp::HEADER_LEN..].copy_from_slice(head);
    let repr = udp::Repr {
        src_port: path.local.port(),
        dst_port: path.remote.port(),
        payload_len: head.len() + zeros,
    };
    repr.emit(&mut bytes);
    let mut view = Datagram::new_elided(&mut bytes[..], zeros).expect("as long as it says");
    view.fill_checksum(&path.pseudo(Protocol::UDP));
    path.packet(Protocol::UDP, option, &bytes, zeros as u32)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the number nearest to `near` whose low 32 bits are `low`.
fn extend(near: u64, low: u32) -> u64 {
    let ahead = i64::from(low.wrapping_sub(near as u32) as i32);
    near.checked_add_signed(ahead).unwrap_or(low.into())
}
