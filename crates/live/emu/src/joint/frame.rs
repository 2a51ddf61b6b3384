//! Datagrams of a joint.
//!
//! | datagram | form |
//! |---|---|
//! | greeting | `BPJ1`, 1, side, fingerprint (32 B), nonce (32 B), nonce of the other machine or zeros (32 B), tag (16 B) |
//! | packet | `BPJ1`, 2, number (8 B), instant (8 B), IP packet, tag |
//! | probe | `BPJ1`, 3, number, flags, stamp (8 B), stamp of the other's probe and of its arrival (16 B), start (8 B), tag |
//! | end | `BPJ1`, 4, number, tag |
//!
//! Integers are big-endian; instants are nanoseconds of the sender's clock. The tag is the first half of HMAC-SHA-256 (RFC 2104) over
//! what precedes it. The key of a greeting is that of the file; a session has one for each direction, made of it and both nonces, so
//! that a datagram of another session is not valid.

use hmac::{Hmac, Mac};
use sha2::Sha256;

const MAGIC: &[u8; 4] = b"BPJ1";
const HELLO: u8 = 1;
const DATA: u8 = 2;
const PROBE: u8 = 3;
const BYE: u8 = 4;
const TAG_LEN: usize = 16;
/// Magic, type and number.
const HEADER_LEN: usize = 13;
const HELLO_LEN: usize = 4 + 1 + 1 + 32 + 32 + 32 + TAG_LEN;
const PROBE_LEN: usize = 1 + 8 + 16 + 8;

/// Symmetric key, of 32 bytes.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// Creates a key.
    pub fn new(bytes: &[u8; 32]) -> Key {
        Key(Hmac::new_from_slice(bytes).expect("HMAC takes keys of any length"))
    }

    fn tag(&self, bytes: &[u8]) -> [u8; TAG_LEN] {
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(&self.0.clone().chain_update(bytes).finalize().into_bytes()[..TAG_LEN]);
        tag
    }

    fn verifies(&self, bytes: &[u8], tag: &[u8]) -> bool {
        self.0.clone().chain_update(bytes).verify_truncated_left(tag).is_ok()
    }

    /// Returns the key of a direction of a session.
    fn derive(&self, from: &[u8; 32], to: &[u8; 32]) -> Key {
        let made =
            self.0.clone().chain_update(b"bentpipe joint").chain_update(from).chain_update(to).finalize();
        Key::new(&made.into_bytes().into())
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Number of the part: the end of the cut link, from zero.
    pub side: u8,
    /// Fingerprint of the scenario.
    pub fingerprint: [u8; 32],
    /// Random number of the sender, for this session.
    pub nonce: [u8; 32],
    /// Random number of the receiver, or zeros.
    pub echo: [u8; 32],
}

impl Hello {
    /// Returns the datagram.
    pub fn seal(&self, key: &Key) -> Vec<u8> {
        let kind = [HELLO, self.side];
        let mut bytes = [&MAGIC[..], &kind, &self.fingerprint, &self.nonce, &self.echo].concat();
        bytes.extend(key.tag(&bytes));
        bytes
    }
}

/// Measurement of path and clocks, with the sender's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Instant of sending.
    pub stamp: i64,
    /// Stamp of the last probe received, and the instant of its arrival.
    pub echo: Option<(i64, i64)>,
    /// Set once the sender has measured the path.
    pub is_measured: bool,
    /// Set once the sender's network is built.
    pub is_ready: bool,
    /// Start of the run by the sender's clock.
    pub start: Option<i64>,
}

/// Content of a datagram in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// IP packet.
    Data {
        /// Instant of its arrival at the far end, by the sender's clock.
        due: i64,
        /// Packet.
        packet: &'a [u8],
    },
    /// Probe.
    Probe(Probe),
    /// End of the sender's part.
    Bye,
}

impl Frame<'_> {
    /// Returns the length of the datagram.
    pub fn sealed_len(&self) -> usize {
        let body = match self {
            Frame::Data { packet, .. } => 8 + packet.len(),
            Frame::Probe(_) => PROBE_LEN,
            Frame::Bye => 0,
        };
        HEADER_LEN + body + TAG_LEN
    }

    fn emit(&self, body: &mut [u8]) {
        match self {
            Frame::Data { due, packet } => {
                body[..8].copy_from_slice(&due.to_be_bytes());
                body[8..].copy_from_slice(packet);
            }
            Frame::Probe(probe) => {
                let flags = [probe.is_measured, probe.is_ready, probe.echo.is_some(), probe.start.is_some()];
                body[0] = flags.iter().rev().fold(0, |flags, &flag| flags << 1 | u8::from(flag));
                let (mine, came) = probe.echo.unwrap_or_default();
                let stamps = [probe.stamp, mine, came, probe.start.unwrap_or_default()];
                for (field, stamp) in body[1..].chunks_exact_mut(8).zip(stamps) {
                    field.copy_from_slice(&stamp.to_be_bytes());
                }
            }
            Frame::Bye => {}
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Frame::Data { .. } => DATA,
            Frame::Probe(_) => PROBE,
            Frame::Bye => BYE,
        }
    }
}

/// Keys and numbers of a session.
#[derive(Debug)]
pub struct Session {
    sending: Key,
    receiving: Key,
    other: [u8; 32],
    number: u64,
}

impl Session {
    /// Creates a session of the nonces of this and the other machine.
    pub fn new(key: &Key, own: [u8; 32], other: [u8; 32]) -> Session {
        let (sending, receiving) = (key.derive(&own, &other), key.derive(&other, &own));
        Session { sending, receiving, other, number: 0 }
    }

    /// Returns `true` if it is with a machine of this nonce.
    pub fn is_of(&self, nonce: [u8; 32]) -> bool {
        self.other == nonce
    }

    /// Returns a datagram.
    pub fn seal(&mut self, frame: &Frame<'_>) -> Vec<u8> {
        let mut bytes = vec![0; frame.sealed_len()];
        self.seal_into(frame, &mut bytes);
        bytes
    }

    /// Writes a datagram into a buffer of [`Frame::sealed_len`] bytes.
    pub fn seal_into(&mut self, frame: &Frame<'_>, into: &mut [u8]) {
        self.number += 1;
        let (bytes, tag) = into.split_at_mut(into.len() - TAG_LEN);
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = frame.kind();
        bytes[5..HEADER_LEN].copy_from_slice(&self.number.to_be_bytes());
        frame.emit(&mut bytes[HEADER_LEN..]);
        tag.copy_from_slice(&self.sending.tag(bytes));
    }

    /// Returns the content of a datagram if its tag is right.
    pub fn open<'a>(&self, sealed: &SealedFrame<'a>) -> Option<Frame<'a>> {
        self.receiving.verifies(sealed.signed, sealed.tag).then_some(sealed.frame)
    }
}

/// Datagram whose tag was not compared yet.
#[derive(Debug)]
pub enum Sealed<'a> {
    /// Greeting.
    Hello(SealedHello<'a>),
    /// Datagram of a session.
    Of(SealedFrame<'a>),
}

/// Greeting whose tag was not compared yet.
#[derive(Debug)]
pub struct SealedHello<'a> {
    signed: &'a [u8],
    tag: &'a [u8],
    hello: Hello,
}

impl SealedHello<'_> {
    /// Returns the greeting if its tag is right.
    pub fn open(&self, key: &Key) -> Option<Hello> {
        key.verifies(self.signed, self.tag).then_some(self.hello)
    }
}

/// Datagram of a session whose tag was not compared yet.
#[derive(Debug)]
pub struct SealedFrame<'a> {
    /// Number in the session.
    pub number: u64,
    signed: &'a [u8],
    tag: &'a [u8],
    frame: Frame<'a>,
}

/// Parses a datagram. Returns `None` if it is not one of a joint.
pub fn parse(bytes: &[u8]) -> Option<Sealed<'_>> {
    let (signed, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG_LEN)?)?;
    let (kind, rest) = signed.strip_prefix(MAGIC)?.split_first()?;
    if *kind == HELLO {
        if bytes.len() != HELLO_LEN {
            return None;
        }
        let (&side, rest) = rest.split_first()?;
        let (fingerprint, rest) = rest.split_first_chunk()?;
        let (nonce, echo) = rest.split_first_chunk()?;
        let hello = Hello { side, fingerprint: *fingerprint, nonce: *nonce, echo: echo.try_into().ok()? };
        return Some(Sealed::Hello(SealedHello { signed, tag, hello }));
    }
    let (number, body) = rest.split_first_chunk()?;
    let frame = match *kind {
        DATA => {
            let (due, packet) = body.split_first_chunk()?;
            // An IP packet has a header, at least.
            let has_header = matches!(packet.first()? >> 4, 4 if packet.len() >= 20)
                || (packet[0] >> 4 == 6 && packet.len() >= 40);
            has_header.then_some(Frame::Data { due: i64::from_be_bytes(*due), packet })?
        }
        PROBE => Frame::Probe(parse_probe(body)?),
        BYE if body.is_empty() => Frame::Bye,
        _ => return None,
    };
    Some(Sealed::Of(SealedFrame { number: u64::from_be_bytes(*number), signed, tag, frame }))
}

fn parse_probe(body: &[u8]) -> Option<Probe> {
    let (&flags, stamps) = body.split_first()?;
    if body.len() != PROBE_LEN || flags > 15 {
        return None;
    }
    let mut stamps =
        stamps.chunks_exact(8).filter_map(|field| Some(i64::from_be_bytes(field.try_into().ok()?)));
    let [stamp, mine, came, start] = [stamps.next()?, stamps.next()?, stamps.next()?, stamps.next()?];
    let has = |bit: u8| flags & bit != 0;
    Some(Probe {
        stamp,
        echo: has(4).then_some((mine, came)),
        is_measured: has(1),
        is_ready: has(2),
        start: has(8).then_some(start),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sessions() -> [Session; 2] {
        let key = Key::new(&[7; 32]);
        [Session::new(&key, [1; 32], [2; 32]), Session::new(&key, [2; 32], [1; 32])]
    }

    fn open<'a>(session: &Session, bytes: &'a [u8]) -> Option<(u64, Frame<'a>)> {
        match parse(bytes)? {
            Sealed::Of(sealed) => session.open(&sealed).map(|frame| (sealed.number, frame)),
            Sealed::Hello(_) => None,
        }
    }

    #[test]
    fn frames_round_trip_and_only_between_the_two_of_a_session() {
        let [mut a, b] = sessions();
        let packet = [0x45; 60];
        let probe =
            Probe { stamp: -5, echo: Some((1, 2)), is_measured: true, is_ready: false, start: Some(9) };
        let bare = Probe { stamp: 5, echo: None, is_measured: false, is_ready: true, start: None };
        let frames =
            [Frame::Data { due: -1, packet: &packet }, Frame::Probe(probe), Frame::Probe(bare), Frame::Bye];
        for (n, frame) in frames.into_iter().enumerate() {
            let bytes = a.seal(&frame);
            assert_eq!(open(&b, &bytes), Some((n as u64 + 1, frame)));
            assert_eq!(open(&a, &bytes), None, "reflected");
            let other = Session::new(&Key::new(&[7; 32]), [2; 32], [3; 32]);
            assert_eq!(open(&other, &bytes), None, "another session");
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert_eq!(open(&b, &changed), None, "byte {at}");
            }
        }
    }

    #[test]
    fn a_tag_is_hmac_sha_256_of_rfc_4231() {
        // Test case 6 has a key longer than a block; test case 1 has one of 20 bytes. Case 3: 20 bytes of 0xaa, here padded with the
        // zeros that HMAC pads it with.
        let mut key = [0; 32];
        key[..20].fill(0xaa);
        let expected =
            [0x77, 0x3e, 0xa9, 0x1e, 0x36, 0x80, 0x0e, 0x46, 0x85, 0x4d, 0xb8, 0xeb, 0xd0, 0x91, 0x81, 0xa7];
        assert_eq!(Key::new(&key).tag(&[0xdd; 50]), expected);
    }

    #[test]
    fn greetings_round_trip() {
        let hello = Hello { side: 1, fingerprint: [3; 32], nonce: [4; 32], echo: [5; 32] };
        let bytes = hello.seal(&Key::new(&[7; 32]));
        let Some(Sealed::Hello(sealed)) = parse(&bytes) else { panic!("a greeting") };
        assert_eq!(sealed.open(&Key::new(&[7; 32])), Some(hello));
        assert_eq!(sealed.open(&Key::new(&[8; 32])), None);
        assert!((0..bytes.len()).all(|len| parse(&bytes[..len]).is_none()));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u8..6) {
            let _ = parse(&bytes);
            if bytes.len() > 5 {
                bytes[..4].copy_from_slice(MAGIC);
                bytes[4] = kind;
                let [a, _] = sessions();
                prop_assert_eq!(open(&a, &bytes), None);
            }
        }
    }
}
