//! RTP headers of datagrams with TS packets (RFC 2250, section 2).

use bentpipe_units::Time;
use bentpipe_wire::rtp;
use bentpipe_wire::ts::RTP_PAYLOAD_TYPE;

/// Clock rate in Hz.
const CLOCK_HZ: u128 = 90_000;

/// Writer of RTP headers.
#[derive(Clone, Debug)]
pub(crate) struct Numbering {
    seq: u16,
    ssrc: u32,
}

impl Numbering {
    /// Creates a stream with a unique identifier in its session (RFC 3550, section 8).
    pub(crate) fn new(ssrc: u32, first_seq: u16) -> Numbering {
        Numbering { seq: first_seq, ssrc }
    }

    /// Returns the header of the next datagram, which leaves at `now`.
    pub(crate) fn header(&mut self, now: Time) -> [u8; rtp::HEADER_LEN] {
        let timestamp = u128::from(now.as_nanos()) * CLOCK_HZ / 1_000_000_000;
        let mut header = [0; rtp::HEADER_LEN];
        rtp::Repr::new(RTP_PAYLOAD_TYPE, self.seq, timestamp as u32, self.ssrc).emit(&mut header);
        self.seq = self.seq.wrapping_add(1);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_and_time_is_of_90_khz() {
        let mut numbering = Numbering::new(7, 65_535);
        let headers = [1, 2].map(|seconds| numbering.header(Time::from_nanos(seconds * 1_000_000_000)));
        let read = |header: &[u8]| {
            let packet = rtp::Packet::new_checked(header).expect("a header");
            (packet.payload_type(), packet.seq(), packet.timestamp(), packet.ssrc())
        };
        assert_eq!(
            headers.each_ref().map(|header| read(header)),
            [(33, 65_535, 90_000, 7), (33, 0, 180_000, 7)]
        );
    }
}
