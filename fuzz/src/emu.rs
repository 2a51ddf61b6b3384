//! Checks on `bentpipe-emu`: whatever a real host's kernel and its neighbours send, the emulator answers or drops it.

#[allow(dead_code, reason = "a part of it is what is fuzzed")]
#[path = "../../crates/live/emu/src/dhcp.rs"]
mod dhcp;
#[allow(dead_code, reason = "a part of it is what is fuzzed")]
#[path = "../../crates/live/emu/src/neighbours.rs"]
mod neighbours;
#[allow(dead_code, reason = "a part of it is what is fuzzed")]
#[path = "../../crates/live/emu/src/offload.rs"]
mod offload;

use bentpipe_emu::joint::frame::{self, Key, Sealed, Session};
use bentpipe_wire::ethernet::{self, Frame, MacAddr};
use neighbours::{Inbound, Neighbours, NextHop};
use offload::{HEADER_LEN, Joiner, Splitter};

/// Decoder or machine under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] =
    &[("offload", fuzz_offload), ("neighbours", fuzz_neighbours), ("joint", fuzz_joint)];

/// Pieces, each behind its length of two bytes.
fn pieces(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = data.split_first_chunk::<2>()?;
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*len))));
        data = rest;
        Some(piece)
    })
}

/// Trains with their offload headers, taken apart; and the packets joined again.
pub fn fuzz_offload(data: &[u8]) {
    let (mut splitter, mut out) = (Splitter::default(), vec![0; 1 << 17]);
    let (mut joiner, mut written) = (Joiner::with_datagrams(true), 0);
    let mut write = |bytes: &[u8]| -> Result<(), std::convert::Infallible> {
        assert!(bytes.len() >= HEADER_LEN);
        written += bytes.len() - HEADER_LEN;
        Ok(())
    };
    for train in pieces(data) {
        let (mut packets, mut len) = (0, splitter.take(train, &mut out));
        while let Some(taken) = len {
            packets += 1;
            assert!(taken <= train.len());
            let Ok(()) = joiner.push(&out[..taken], &mut write);
            len = splitter.next(&mut out);
        }
        assert!(splitter.is_empty() && packets <= train.len());
    }
    let Ok(()) = joiner.flush(&mut write);
    assert!(written <= data.len() * 200, "{written} bytes of {}", data.len());
}

/// Frames from the device, and the packets in them on their way to it: each is answered, asked about or passed on.
pub fn fuzz_neighbours(data: &[u8]) {
    let own = MacAddr([2, 0, 0, 0, 0, 1]);
    let behind = ["10.0.0.1", "fd00::1"].map(|address| address.parse().expect("an address"));
    let mut neighbours = Neighbours::new(own, behind.to_vec());
    neighbours.serve([10, 0, 0, 4].into(), 1500);
    let mut held = 0;
    for frame in pieces(data) {
        match neighbours.receive(frame) {
            Inbound::Packet(len) => assert!(ethernet::HEADER_LEN + len <= frame.len()),
            Inbound::Solicitation(answer) => is_from(&answer, own),
            Inbound::Ignored => {}
        }
        let packet = frame.get(ethernet::HEADER_LEN..).unwrap_or_default();
        match neighbours.towards(packet, packet) {
            NextHop::Unresolved(question) => {
                held += 1;
                is_from(&question, own);
            }
            NextHop::Neighbour(_) | NextHop::Unreachable => {}
        }
        while neighbours.released().is_some() {
            held -= 1;
            assert!(held >= 0);
        }
    }
}

fn is_from(frame: &[u8], own: MacAddr) {
    assert_eq!(Frame::new_checked(frame).expect("a frame").src(), own);
}

/// Datagrams of a joint: what parses and has the right tag is sealed to the same bytes again.
pub fn fuzz_joint(data: &[u8]) {
    let key = Key::new(&[7; 32]);
    for datagram in pieces(data) {
        match frame::parse(datagram) {
            None => {}
            Some(Sealed::Hello(sealed)) => {
                if let Some(hello) = sealed.open(&key) {
                    assert_eq!(hello.seal(&key), datagram);
                }
            }
            Some(Sealed::Of(sealed)) => {
                let session = Session::new(&key, [2; 32], [1; 32]);
                if let Some(frame) = session.open(&sealed) {
                    assert_eq!(frame.sealed_len(), datagram.len());
                }
            }
        }
    }
}
