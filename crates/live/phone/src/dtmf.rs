//! Digits of a telephone in RTP (RFC 4733).

use std::collections::VecDeque;

use bentpipe_wire::rtp;

/// Digits by their event numbers (RFC 4733 3.2).
const DIGITS: &str = "0123456789*#ABCD";
/// Bytes of an event's payload.
pub(crate) const PAYLOAD_LEN: usize = 4;
/// Level in decibels below 0 dBm0.
const VOLUME: u8 = 10;
/// Set in the last packets of an event.
const END: u8 = 0x80;
/// Packets of an event.
const TONE: u32 = 5;
/// Packets that repeat its end (RFC 4733 2.5.1.4).
const REPEATS: u32 = 2;
/// Packets of speech between two events.
const GAP: u32 = 5;
/// Packets of speech before the first event.
const LEAD: u32 = 25;
/// Digits received that are kept in their order.
const MAX_KEPT: usize = 1000;

/// Returns `true` if all characters are digits of a telephone.
///
/// These are 0 to 9, *, # and A to D.
pub fn is_digits(text: &str) -> bool {
    text.chars().all(|digit| event_of(digit).is_some())
}

/// Returns the event of a digit.
fn event_of(digit: char) -> Option<u8> {
    DIGITS.find(digit.to_ascii_uppercase()).map(|at| at as u8)
}

/// Digits that are sent in place of speech.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sender {
    left: VecDeque<u8>,
    /// Packets of speech before the next event.
    wait: u32,
    /// Number of packets of the present event, and its time stamp.
    sent: u32,
    timestamp: u32,
}

impl Sender {
    pub(crate) fn new(digits: &str) -> Sender {
        Sender { left: digits.chars().filter_map(event_of).collect(), wait: LEAD, sent: 0, timestamp: 0 }
    }

    /// Writes an event over a packet of speech of `ticks`, if one is due.
    ///
    /// Returns a digit with its first packet.
    pub(crate) fn replace(&mut self, bytes: &mut Vec<u8>, payload_type: u8, ticks: u32) -> Option<char> {
        let event = *self.left.front()?;
        if self.wait > 0 {
            self.wait -= 1;
            return None;
        }
        let packet = rtp::Packet::new_checked(&bytes[..]).ok()?;
        let (seq, ssrc, at) = (packet.seq(), packet.ssrc(), packet.timestamp());
        let is_first = self.sent == 0;
        if is_first {
            self.timestamp = at;
        }
        self.sent += 1;
        let duration = (self.sent.min(TONE) * ticks).min(u32::from(u16::MAX)) as u16;
        let end = if self.sent >= TONE { END } else { 0 };
        let header = rtp::Repr::new(payload_type, seq, self.timestamp, ssrc);
        bytes.clear();
        bytes.resize(rtp::HEADER_LEN + PAYLOAD_LEN, 0);
        rtp::Repr { marker: is_first, ..header }.emit(&mut bytes[..rtp::HEADER_LEN]);
        let [high, low] = duration.to_be_bytes();
        bytes[rtp::HEADER_LEN..].copy_from_slice(&[event, end | VOLUME, high, low]);
        if self.sent == TONE + REPEATS {
            self.left.pop_front();
            (self.sent, self.wait) = (0, GAP);
        }
        is_first.then(|| digit_of(event))
    }
}

fn digit_of(event: u8) -> char {
    DIGITS.chars().nth(event.into()).unwrap_or('?')
}

/// Events received at a line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Receiver {
    last: Option<u32>,
}

impl Receiver {
    /// Notes a packet of events. Returns a digit with the first packet of its event, and the duration until the packet.
    pub(crate) fn receive(&mut self, payload: &[u8], timestamp: u32) -> Option<(Option<char>, u16)> {
        let [event, _, high, low] = *payload.first_chunk::<PAYLOAD_LEN>()?;
        let ahead = self.last.map(|last| timestamp.wrapping_sub(last) as i32);
        // All packets of an event have the same time stamp. Late ones of the event before have an earlier one.
        let is_new = ahead.is_none_or(|ahead| ahead > 0);
        if is_new {
            self.last = Some(timestamp);
        }
        Some((is_new.then(|| digit_of(event)), u16::from_be_bytes([high, low])))
    }
}

/// Digits of all calls, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digits {
    pub(crate) count: u64,
    pub(crate) text: String,
}

impl Digits {
    pub(crate) fn add(&mut self, digit: char) {
        self.count += 1;
        if self.text.len() < MAX_KEPT {
            self.text.push(digit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_received_as_sent_though_packets_are_lost() {
        let mut sender = Sender::new("1a#");
        let (mut receiver, mut sent, mut received) = (Receiver::default(), String::new(), String::new());
        let (mut events, mut durations) = (0, Vec::new());
        for n in 0..100_u16 {
            let mut bytes = vec![0; rtp::HEADER_LEN + 160];
            rtp::Repr::new(8, n, 160 * u32::from(n), 7).emit(&mut bytes[..rtp::HEADER_LEN]);
            sent.extend(sender.replace(&mut bytes, 101, 160));
            let packet = rtp::Packet::new_checked(&bytes[..]).expect("a packet");
            assert_eq!((packet.seq(), packet.ssrc()), (n, 7));
            if packet.payload_type() == 101 {
                events += 1;
                // Two of three are lost.
                if n % 3 == 0 {
                    let (digit, duration) =
                        receiver.receive(packet.payload(), packet.timestamp()).expect("an event");
                    received.extend(digit);
                    durations.push(duration);
                }
            }
        }
        assert_eq!((&sent[..], &received[..], events), ("1A#", "1A#", 3 * (TONE + REPEATS)));
        assert!(durations.iter().all(|duration| (160..=800).contains(duration)), "{durations:?}");
        assert!(event_of('x').is_none() && event_of('*') == Some(10));
    }
}
