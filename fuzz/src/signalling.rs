//! Checks on `bentpipe-signalling`: a message that is read is written so that it reads the same.

use std::net::SocketAddr;

use bentpipe_signalling::digest::{Challenge, Credentials};
use bentpipe_signalling::iax::{Config, Elements, Endpoint, Event, Frame, format};
use bentpipe_signalling::sdp::{self, Capabilities, Codec, Direction, Session};
use bentpipe_signalling::sip::{Framer, Message, name};
use bentpipe_units::{RandomStream, Span, Time};

/// Function under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("sip_message", fuzz_sip_message),
    ("sip_stream", fuzz_sip_stream),
    ("sdp", fuzz_sdp),
    ("iax", fuzz_iax),
    ("iax_endpoint", fuzz_iax_endpoint),
];

/// One datagram: parsed, checked, written, and parsed again.
pub fn fuzz_sip_message(data: &[u8]) {
    let Ok(mut message) = Message::parse(data) else { return };
    let is_valid = message.check().is_ok();
    let again = Message::parse(&message.emit()).map(|mut again| {
        again.headers.remove(name::CONTENT_LENGTH);
        again
    });
    message.headers.remove(name::CONTENT_LENGTH);
    if message.emit().len() <= bentpipe_signalling::sip::MAX_MESSAGE {
        assert_eq!(again, Ok(message.clone()));
    }
    for field in [name::WWW_AUTHENTICATE, name::AUTHORIZATION] {
        for value in message.headers.all(field) {
            let challenge = Challenge::parse(value);
            assert_eq!(
                challenge.as_ref().and_then(|challenge| Challenge::parse(&challenge.to_string())),
                challenge
            );
            let credentials = Credentials::parse(value);
            let text = credentials.as_ref().map(ToString::to_string);
            assert_eq!(text.and_then(|text| Credentials::parse(&text)), credentials);
        }
    }
    if is_valid {
        assert!(message.headers.via().is_some() && message.cseq().is_some());
        let response = Message::response(&message.headers, 200);
        assert!(Message::parse(&response.emit()).is_ok_and(|response| response.check().is_ok()));
    }
}

/// A stream in pieces of a size that the first byte gives: the same messages as in one piece.
pub fn fuzz_sip_stream(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else { return };
    let messages = |size: usize| {
        let (mut framer, mut messages) = (Framer::default(), vec![]);
        for piece in stream.chunks(size.max(1)) {
            framer.push(piece);
            messages.extend(std::iter::from_fn(|| framer.next_message()).filter_map(Result::ok));
        }
        messages
    };
    assert_eq!(messages(usize::from(*size)), messages(stream.len()));
}

/// A description: parsed, written, parsed again, and answered.
pub fn fuzz_sdp(data: &[u8]) {
    let Ok(session) = Session::parse(data) else { return };
    assert_eq!(Session::parse(&session.emit()), Ok(session.clone()));
    let capabilities = Capabilities {
        address: [192, 0, 2, 1].into(),
        port: 4000,
        codecs: vec![Codec::new(0, "PCMU", 8000), Codec::new(18, "G729", 8000)],
        ptime: 20,
        direction: Direction::SendRecv,
    };
    if let Ok((answer, _)) = sdp::answer(&session, &capabilities, 1, 1) {
        assert_eq!(answer.media.len(), session.media.len());
        assert!(sdp::outcome(&session, &answer).is_ok());
        assert_eq!(Session::parse(&answer.emit()), Ok(answer));
    }
}

/// One datagram of IAX2: parsed, written, and parsed again, its information elements too.
pub fn fuzz_iax(data: &[u8]) {
    let Ok(frame) = Frame::parse(data) else { return };
    assert_eq!(Frame::parse(&frame.emit()), Ok(frame.clone()));
    if let Frame::Full(full) = frame
        && let Ok(elements) = Elements::parse(&full.payload)
    {
        assert_eq!(elements.emit(), full.payload);
    }
}

/// Datagrams of a length and after a time of one byte each, at an endpoint with a call and a registration.
pub fn fuzz_iax_endpoint(data: &[u8]) {
    let Some((first, mut rest)) = data.split_first() else { return };
    let users = [("modem".to_owned(), "password".to_owned())];
    let config = Config {
        users: users.into_iter().filter(|_| first & 1 != 0).collect(),
        password: (first & 2 != 0).then(|| "password".to_owned()),
        max_calls: 20,
        ..Config::new("fuzz", vec![format::GSM, format::LINEAR])
    };
    let peer = SocketAddr::from(([192, 0, 2, 1], 4569));
    let mut endpoint = Endpoint::new(config, RandomStream::new(7, "fuzz"));
    let mut now = Time::ZERO;
    let own = endpoint.call(now, peer, "1");
    endpoint.register(now, peer, 60);
    let mut ends = 0;
    while let Some((&[len, step], more)) = rest.split_first_chunk() {
        let (datagram, more) = more.split_at(usize::from(len).min(more.len()));
        rest = more;
        now += Span::from_millis(u64::from(step) * 20);
        endpoint.receive(now, peer, datagram);
        endpoint.handle_timeout(now);
        while let Some((_, bytes)) = endpoint.poll_transmit() {
            assert!(Frame::parse(&bytes).is_ok(), "{bytes:?}");
        }
        while let Some(event) = endpoint.poll_event() {
            match event {
                Event::Incoming { call, .. } => {
                    endpoint.ring(now, call);
                    endpoint.answer(now, call);
                    endpoint.send_voice(now, call, 0, vec![0; 33]);
                }
                Event::Ended { call, .. } | Event::Failed { call, .. } => {
                    ends += u32::from(Some(call) == own)
                }
                _ => {}
            }
        }
        assert!(endpoint.legs() <= 20 && endpoint.deadline() > now && ends <= 1);
    }
}
