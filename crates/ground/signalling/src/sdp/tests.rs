//! Exchanges of RFC 3264 10, refused descriptions, round trips.

use proptest::prelude::*;

use super::offer::codecs;
use super::*;

const ALICE: &str = "v=0\r\no=alice 2890844526 2890844526 IN IP4 host.anywhere.com\r\ns=\r\nc=IN IP4 host.anywhere.com\r\nt=0 0\r\n";

fn parse(text: &str) -> Session {
    Session::parse(text.as_bytes()).expect("well-formed")
}

fn capabilities(codecs: &[(u8, &str)]) -> Capabilities {
    Capabilities {
        address: "192.0.2.9".parse().expect("an address"),
        port: 49920,
        codecs: codecs.iter().map(|(number, name)| Codec::new(*number, name, 8000)).collect(),
        ptime: 20,
        direction: Direction::SendRecv,
    }
}

#[test]
fn basic_exchange_of_rfc_3264() {
    let media = "m=audio 49170 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\nm=video 51372 RTP/AVP 31\r\na=rtpmap:31 H261/90000\r\n\
                 m=video 53000 RTP/AVP 32\r\na=rtpmap:32 MPV/90000\r\n";
    let offer = parse(&format!("{ALICE}{media}"));
    assert_eq!(offer.to_string(), format!("{ALICE}{media}"));
    let (answer, negotiated) =
        answer(&offer, &capabilities(&[(0, "PCMU")]), 1, 1).expect("a codec in common");
    let ports: Vec<_> = answer.media.iter().map(|media| (media.port, media.formats.join(" "))).collect();
    assert_eq!(ports, [(49920, "0".into()), (0, "31".into()), (0, "32".into())]);
    assert_eq!((negotiated.port, negotiated.codec.name, negotiated.address), (49170, "PCMU".into(), None));
    let back = outcome(&offer, &answer).expect("fits");
    assert_eq!((back.port, back.address), (49920, Some("192.0.2.9".parse().expect("an address"))));
}

/// Digits and comfort noise may come first, and are not the codec. Each side has its own payload types.
#[test]
fn telephone_events_go_with_speech() {
    let offer = parse(&format!(
        "{ALICE}m=audio 8 RTP/AVP 96 13 0\r\na=rtpmap:96 telephone-event/8000\r\na=fmtp:96 0-15\r\n"
    ));
    let mut own = capabilities(&[(0, "PCMU"), (13, "CN")]);
    own.codecs.push(Codec::telephone_events(101));
    let (answer, negotiated) = answer(&offer, &own, 1, 1).expect("a codec in common");
    assert_eq!(answer.media[0].formats, ["96", "13", "0"]);
    assert_eq!(negotiated.codec.name, "PCMU");
    assert_eq!(negotiated.events, Some(Events { send: 96, receive: 96 }));
    let mine = super::offer(&own, 1, 1);
    let theirs = mine.to_string().replace("a=rtpmap:101", "a=rtpmap:97").replace("0 13 101", "97 0");
    let back = outcome(&mine, &parse(&theirs)).expect("fits");
    assert_eq!((back.codec.payload_type, back.events), (0, Some(Events { send: 97, receive: 101 })));
    let alone = parse(&format!("{ALICE}m=audio 8 RTP/AVP 96\r\na=rtpmap:96 telephone-event/8000\r\n"));
    assert_eq!(super::answer(&alone, &own, 1, 1), Err(Unacceptable::NoCodec));
}

#[test]
fn a_stream_of_srtp_alone_is_refused_by_its_name_and_hold_is_answered_as_it_is_done() {
    let srtp = "m=audio 8 RTP/SAVP 0\r\n";
    let own = capabilities(&[(0, "PCMU")]);
    assert_eq!(answer(&parse(&format!("{ALICE}{srtp}")), &own, 1, 1), Err(Unacceptable::Encrypted));
    let both = parse(&format!("{ALICE}{srtp}m=audio 9 RTP/AVP 0\r\n"));
    let (said, negotiated) = answer(&both, &own, 1, 1).expect("the second stream");
    assert_eq!((said.media[0].port, negotiated.port), (0, 9));
    let held = parse(&format!("{ALICE}m=audio 8 RTP/AVP 0\r\nc=IN IP4 0.0.0.0\r\n"));
    let (said, negotiated) = answer(&held, &own, 1, 1).expect("a codec in common");
    assert_eq!(negotiated.direction, Direction::RecvOnly);
    assert_eq!(Direction::of_media(&said, &said.media[0]), Direction::RecvOnly);
}

#[test]
fn one_of_several_codecs_of_rfc_3264() {
    let offer = parse(&format!(
        "{ALICE}m=audio 62986 RTP/AVP 0 4 18\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:4 G723/8000\r\na=rtpmap:18 G729/8000\r\na=inactive\r\n"
    ));
    let (answer, negotiated) =
        answer(&offer, &capabilities(&[(4, "G723"), (0, "PCMU")]), 1, 1).expect("codecs in common");
    assert_eq!(answer.media[0].formats, ["0", "4"], "in the order of the offer");
    assert!(answer.media[0].attribute("inactive").is_some());
    assert_eq!((negotiated.codec.name, negotiated.direction), ("PCMU".into(), Direction::Inactive));
}

#[test]
fn payload_types_are_those_of_the_offer_and_directions_are_reversed() {
    let offer = parse(&format!(
        "{ALICE}a=sendonly\r\nm=audio 8 RTP/AVP 97 3\r\na=rtpmap:97 iLBC/8000\r\na=fmtp:97 mode=20\r\na=ptime:30\r\n"
    ));
    let (answer, negotiated) =
        answer(&offer, &capabilities(&[(101, "ilbc")]), 1, 1).expect("a codec in common");
    assert_eq!(answer.media[0].formats, ["97"]);
    assert!(answer.media[0].attribute("recvonly").is_some());
    let codec = Codec { parameters: Some("mode=20".into()), ..Codec::new(97, "iLBC", 8000) };
    assert_eq!(
        (negotiated.codec, negotiated.ptime, negotiated.direction),
        (codec, Some(30), Direction::RecvOnly)
    );
    assert_eq!(outcome(&offer, &answer).expect("fits").direction, Direction::SendOnly);
}

#[test]
fn hold_by_the_address_of_rfc_2543_stops_sending() {
    let offer = parse("v=0\no=- 1 1 IN IP4 0.0.0.0\ns=-\nc=IN IP4 0.0.0.0\nt=0 0\nm=audio 8 RTP/AVP 0\n");
    let (_, negotiated) = answer(&offer, &capabilities(&[(0, "PCMU")]), 1, 1).expect("a codec in common");
    assert_eq!(negotiated.direction, Direction::RecvOnly);
}

#[test]
fn offers_and_answers_that_cannot_be_used_are_refused() {
    let mine = capabilities(&[(0, "PCMU")]);
    let offered = |media: &str| answer(&parse(&format!("{ALICE}{media}")), &mine, 1, 1).map(|_| ());
    assert_eq!(offered("m=audio 8 RTP/AVP 18\r\n"), Err(Unacceptable::NoCodec));
    assert_eq!(offered("m=audio 0 RTP/AVP 0\r\n"), Err(Unacceptable::NoCodec));
    assert_eq!(offered("m=video 8 RTP/AVP 0\r\n"), Err(Unacceptable::NoCodec));
    assert_eq!(offered("m=audio 8 RTP/SAVP 0\r\n"), Err(Unacceptable::Encrypted));
    assert_eq!(offered(""), Err(Unacceptable::NoCodec));
    let offer = offer(&mine, 1, 1);
    assert_eq!(outcome(&offer, &parse(ALICE)), Err(Unacceptable::Mismatch));
    let mut refused = offer.clone();
    refused.media[0].port = 0;
    assert_eq!(outcome(&offer, &refused), Err(Unacceptable::NoCodec));
    let mut other = offer.clone();
    other.media[0].formats = vec!["8".into()];
    other.media[0].attributes.clear();
    assert_eq!(outcome(&offer, &other), Err(Unacceptable::NoCodec));
}

#[test]
fn malformed_descriptions_are_refused_with_their_line() {
    let head = "v=0\no=- 1 1 IN IP4 a\ns=-\nc=IN IP4 a\nt=0 0\n";
    for (text, line, problem) in [
        ("", 1, "expected a letter and ="),
        ("o=- 1 1 IN IP4 a\n", 1, "the first line is not v=0"),
        ("v=1\n", 1, "version is not 0"),
        ("v=0\nv=0\n", 2, "repeated line"),
        ("v=0\no=- 1 IN IP4 a\n", 2, "malformed origin"),
        ("v=0\no=- 1 -1 IN IP4 a\n", 2, "malformed origin"),
        ("v=0\ns=-\no=- 1 1 IN IP4 a\n", 3, "line out of order"),
        ("v=0\nx=1\n", 2, "unknown type of line"),
        ("v=0\no=- 1 1 IN IP4 a\ns=-\nt=0\n", 4, "malformed times"),
        ("v=0\no=- 1 1 IN IP4 a\ns=-\n", 3, "description without v, o, s or t"),
        ("v=0\ns=-\nt=0 0\n", 3, "description without v, o, s or t"),
        ("v=0\nm=audio 1 RTP/AVP 0\n", 2, "media before v, o, s and t"),
        (&format!("{head}m=audio 65536 RTP/AVP 0\n"), 6, "malformed media"),
        (&format!("{head}m=audio 1 RTP/AVP\n"), 6, "malformed media"),
        (&format!("{head}a=\n"), 6, "malformed attribute"),
        (&format!("{head}m=audio 1 RTP/AVP 0\na=x\nc=IN IP4 a\n"), 8, "line out of order"),
        (&format!("{head}m=audio 1 RTP/AVP 0\nb=AS\n"), 7, "malformed bandwidth"),
        ("v=0\no=- 1 1 IN IP4 a\ns=-\nt=0 0\nm=audio 1 RTP/AVP 0\n", 5, "media without a connection"),
        (&format!("{head}{}", "m=a 1 b 0\n".repeat(MAX_MEDIA + 1)), 6 + MAX_MEDIA, "too many media"),
        (&format!("{head}{}", "a=x\n".repeat(MAX_LINES)), MAX_LINES + 1, "too many lines"),
    ] {
        assert_eq!(Session::parse(text.as_bytes()), Err(SdpError { line, problem }), "{text}");
    }
}

#[test]
fn static_payload_types_need_no_map() {
    let session = parse(&format!("{ALICE}m=audio 8 RTP/AVP 3 18 99 200 x\r\n"));
    let names: Vec<_> = codecs(&session.media[0]).into_iter().map(|codec| codec.name).collect();
    assert_eq!(names, ["GSM", "G729"]);
}

proptest! {
    #[test]
    fn any_description_is_read_or_refused_and_what_is_read_survives_a_round_trip(
        lines in proptest::collection::vec("[vosiuepcbtrzkam]=[ -~]{0,12}", 0..12),
        with_head: bool,
    ) {
        let text = if with_head { ALICE.to_owned() } else { String::new() } + &lines.join("\n");
        if let Ok(session) = Session::parse(text.as_bytes()) {
            prop_assert_eq!(Session::parse(&session.emit()), Ok(session));
        }
    }
}
