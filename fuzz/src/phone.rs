//! Checks on `bentpipe-phone`: any payload of speech is read, and a clock is believed only where that is stated.

#[allow(dead_code, reason = "a part of it is what is fuzzed")]
#[path = "../../crates/live/phone/src/marks.rs"]
mod marks;

use bentpipe_net::Histogram;
use bentpipe_rtp::Mark;
use bentpipe_units::{Span, Time};
use bentpipe_voice::call::{Ear, Incoming, Spoken};
use bentpipe_voice::{Codec, Config};
use bentpipe_wire::rtp;
use marks::{Marks, Whose};

/// Reader under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("marks", fuzz_marks)];

/// Time of the day at which the phone started.
const ORIGIN_NS: u64 = 1_800_000_000_000_000_000;
/// Machine of the phone.
const MACHINE: u32 = 0x0102_0304;
/// Greatest difference between a time that is believed and the arrival.
const MOST_APART: Span = Span::from_secs(60);

/// Pieces, each behind its length of one byte and a time.
fn pieces(mut data: &[u8]) -> impl Iterator<Item = (Span, &[u8])> {
    std::iter::from_fn(move || {
        let ([len, ms], rest) = data.split_first_chunk::<2>()?;
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        data = rest;
        Some((Span::from_millis(u64::from(*ms)), piece))
    })
}

/// Datagrams of a call: their marks become properties of speech, which an ear then takes.
pub fn fuzz_marks(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let codec = if first & 1 == 0 { Codec::G711A } else { Codec::G729 };
    let config = Config { silence_suppression: first & 2 != 0, ..Config::new(codec) };
    let settings = config.settings().expect("possible");
    let clock_error = (first & 4 != 0).then(|| Span::from_millis(1));
    let (held, mut ear) = (settings.held(), Ear::new(&settings, Time::ZERO));
    let marks = Marks { settings, origin_ns: ORIGIN_NS, machine: MACHINE, clock_error };
    let (mut now, mut delays) = (Time::ZERO + Span::from_secs(100), Histogram::default());
    for (step, datagram) in pieces(rest) {
        now += step;
        any(datagram.get(rtp::HEADER_LEN..).unwrap_or_default(), ORIGIN_NS + now.as_nanos());
        let mut bytes = datagram.to_vec();
        let whose = marks.read(&mut bytes, now);
        let Some(whose) = whose else {
            assert_eq!(bytes, datagram, "what is no speech stays as it is");
            continue;
        };
        assert_eq!(bytes.len(), datagram.len().max(rtp::HEADER_LEN + Spoken::LEN));
        assert_eq!(bytes[..rtp::HEADER_LEN], datagram[..rtp::HEADER_LEN]);
        let mouth = Spoken::parse(&bytes[rtp::HEADER_LEN..]).mouth;
        let said = mouth + held;
        match whose {
            Whose::Own => assert_eq!(datagram[rtp::HEADER_LEN..][..4], MACHINE.to_be_bytes()),
            Whose::Stated => {
                assert!(clock_error.is_some(), "no clock of another machine was stated");
                assert!(said - now <= MOST_APART && now - said <= MOST_APART, "{said} at {now}");
            }
            Whose::Unknown => assert_eq!(said, now),
        }
        // What this machine sends says the same when it comes back.
        if whose != Whose::Own {
            let mut sent = bytes.clone();
            marks.write(&mut sent);
            assert_eq!(marks.read(&mut sent, now), Some(Whose::Own));
            assert_eq!(Spoken::parse(&sent[rtp::HEADER_LEN..]).mouth, mouth);
        }
        let packet = rtp::Packet::new_checked(&bytes[..]).expect("it was one");
        let (seq, timestamp, ssrc, payload) =
            (packet.seq(), packet.timestamp(), packet.ssrc(), packet.payload());
        let packet = Incoming { seq, timestamp, ssrc, marker: packet.marker(), is_speech: true, payload };
        ear.receive(packet, now, &mut delays);
    }
    let (quality, losses) = (ear.quality(), ear.losses());
    assert!(quality.r.is_none_or(|r| r <= 100.0), "{:?}", quality.r);
    assert!(losses.lost + losses.late <= losses.expected());
}

/// Reads the marks of any payload, and writes what was read.
fn any(payload: &[u8], at_ns: u64) {
    if let Some(mark) = Mark::parse_any(payload, at_ns) {
        assert!(mark.sent_ns.abs_diff(at_ns) <= MOST_APART.as_nanos());
        let mut again = payload.to_vec();
        mark.emit(&mut again);
        assert_eq!(again, payload);
    }
    if let Some(sent_ns) = Mark::parse_short(payload, at_ns) {
        assert!(sent_ns <= at_ns && payload.len() < Mark::LEN);
        let mut again = payload.to_vec();
        Mark::new(MACHINE, sent_ns).emit(&mut again);
        assert_eq!(again, payload);
    }
}
