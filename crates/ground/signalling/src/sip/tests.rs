//! Torture messages of RFC 4475, round trips, streams.

use proptest::prelude::*;

use super::*;

/// Expected reading of a message.
#[derive(Debug)]
enum Expected {
    /// The message is valid.
    Valid,
    /// Start line, header lines or length of the body are malformed.
    Malformed(Problem),
    /// A header field is malformed.
    Invalid(Problem),
}

use Expected::{Invalid, Malformed as Bad, Valid};

macro_rules! torture {
    ($($name:ident $expected:expr;)+) => {
        const TORTURE: &[(&str, &[u8], Expected)] = &[$((
            stringify!($name),
            include_bytes!(concat!("../../tests/corpus/sip_message/", stringify!($name), ".dat")),
            $expected,
        )),+];
    };
}

// RFC 4475, sections 3.1.1, 3.1.2, and 3.2 to 3.4. What elements do with valid messages of the latter is tested with them.
torture! {
    wsinv Valid;
    intmeth Valid;
    esc01 Valid;
    escnull Valid;
    esc02 Valid;
    lwsdisp Valid;
    longreq Valid;
    dblreq Valid;
    semiuri Valid;
    transports Valid;
    mpart01 Valid;
    unreason Valid;
    noreason Valid;
    badinv01 Invalid(Problem::Value(name::VIA));
    clerr Bad(Problem::ShortBody);
    ncl Bad(Problem::Value(name::CONTENT_LENGTH));
    scalar02 Invalid(Problem::Value(name::CSEQ));
    scalarlg Invalid(Problem::Value(name::CSEQ));
    quotbal Invalid(Problem::Value(name::TO));
    ltgtruri Bad(Problem::StartLine);
    lwsruri Bad(Problem::StartLine);
    lwsstart Bad(Problem::StartLine);
    trws Bad(Problem::StartLine);
    escruri Invalid(Problem::StartLine);
    baddate Invalid(Problem::Value(name::DATE));
    regbadct Invalid(Problem::Value(name::CONTACT));
    badaspec Invalid(Problem::Value(name::TO));
    // The archive has this one without its last line.
    baddn Bad(Problem::NoEnd);
    badvers Bad(Problem::Version);
    mismatch01 Invalid(Problem::Method);
    mismatch02 Invalid(Problem::Method);
    bigcode Bad(Problem::StartLine);
    badbranch Valid;
    insuf Invalid(Problem::Missing(name::FROM));
    unkscm Valid;
    novelsc Valid;
    unksm2 Valid;
    bext01 Valid;
    invut Valid;
    regaut01 Valid;
    multi01 Invalid(Problem::Repeated(name::FROM));
    mcl01 Bad(Problem::Repeated(name::CONTENT_LENGTH));
    bcast Valid;
    zeromf Valid;
    cparam01 Valid;
    cparam02 Valid;
    regescrt Valid;
    sdp01 Valid;
    inv2543 Valid;
}

fn torture(name: &str) -> Message {
    let (.., bytes, _) = TORTURE.iter().find(|(other, ..)| *other == name).expect("a torture message");
    Message::parse(bytes).expect("well-formed")
}

#[test]
fn torture_messages_are_read_as_rfc_4475_has_it() {
    for (name, bytes, expected) in TORTURE {
        let parsed = Message::parse(bytes);
        match (expected, &parsed) {
            (Valid, Ok(message)) => assert_eq!(message.check(), Ok(()), "{name}"),
            (Bad(problem), Err(malformed)) => assert_eq!(malformed.problem, *problem, "{name}"),
            (Invalid(problem), Ok(message)) => assert_eq!(message.check(), Err(problem.clone()), "{name}"),
            _ => panic!("{name}: {parsed:?}"),
        }
    }
}

#[test]
fn commas_in_unquoted_display_names_are_refused() {
    let (.., bytes, _) = TORTURE.iter().find(|(other, ..)| *other == "baddn").expect("a torture message");
    let message = Message::parse(&[*bytes, b"\r\n"].concat()).expect("well-formed");
    assert_eq!(message.check(), Err(Problem::Value(name::FROM)));
}

#[test]
fn torture_messages_survive_a_round_trip() {
    for (name, bytes, _) in TORTURE {
        let Ok(message) = Message::parse(bytes) else { continue };
        let again = Message::parse(&message.emit()).expect("written well");
        let without_length = |message: &Message| {
            let mut message = message.clone();
            message.headers.remove(name::CONTENT_LENGTH);
            message
        };
        assert_eq!(without_length(&again), without_length(&message), "{name}");
        assert_eq!(again.check(), message.check(), "{name}");
    }
}

#[test]
fn a_tortuous_invite_is_understood() {
    let message = torture("wsinv");
    let to = message.headers.address(name::TO).expect("To");
    assert_eq!(
        (to.uri.to_string(), to.tag()),
        ("sip:vivekg@chair-dnrc.example.com".into(), Some("1918181833n"))
    );
    let from = message.headers.address(name::FROM).expect("From");
    assert_eq!(from.display.as_deref(), Some("J Rosenberg \\\""));
    let vias: Vec<_> = message.headers.list(name::VIA).into_iter().filter_map(Via::parse).collect();
    let branches: Vec<_> = vias.iter().map(|via| via.branch().expect("a branch")).collect();
    assert_eq!(branches, ["390skdjuw", "z9hG4bK9ikj8", "z9hG4bK30239"]);
    assert_eq!(vias[1].transport, "TCP");
    assert_eq!(message.cseq().expect("CSeq").to_string(), "9 INVITE");
    let contacts = message.headers.addresses(name::CONTACT).expect("Contact");
    assert_eq!(contacts[0].display.as_deref(), Some("Quoted string \"\""));
    assert_eq!(
        (contacts[0].params.get("newparam"), contacts[0].params.get("q")),
        (Some("newvalue"), Some("0.33"))
    );
    let routes = message.headers.addresses(name::ROUTE).expect("Route");
    assert!(routes[0].uri.as_sip().expect("SIP").is_loose());
    assert_eq!(message.body.len(), 150);
}

#[test]
fn unusual_but_valid_values_are_understood() {
    assert_eq!(
        torture("intmeth").method().expect("a method").as_str(),
        "!interesting-Method0123456789_*+`.%indeed'~"
    );
    let uri = torture("intmeth").uri().and_then(|uri| Some(uri.as_sip()?.clone())).expect("a URI");
    assert_eq!(uri.user.as_deref(), Some("1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"));
    assert_eq!(uri.password.as_deref(), Some("&it+has=1,weird!*pas$wo~d_too.(doesn't-it)"));
    let uri = torture("esc01").uri().and_then(|uri| Some(uri.as_sip()?.clone())).expect("a URI");
    assert_eq!(uri.user_bytes().expect("a user"), b"sips:user@example.com");
    assert_eq!(torture("esc02").method().expect("a method").as_str(), "RE%47IST%45R");
    let contacts = torture("escnull").headers.addresses(name::CONTACT).expect("Contact");
    let users: Vec<_> = contacts.iter().filter_map(|contact| contact.uri.as_sip()?.user_bytes()).collect();
    assert_eq!(users, [vec![0], vec![0, 0]]);
    let uri = torture("semiuri").uri().and_then(|uri| Some(uri.as_sip()?.clone())).expect("a URI");
    assert_eq!((uri.user.as_deref(), uri.params.iter().count()), (Some("user;par=u%40example.net"), 0));
    assert_eq!(torture("dblreq").body.len(), 0);
    assert_eq!(torture("mpart01").body.len(), 553);
    assert_eq!(torture("noreason").start, StartLine::Response { status: 100, reason: String::new() });
    let from = torture("lwsdisp").headers.address(name::FROM).expect("From");
    assert_eq!(from.display.as_deref(), Some("caller"));
    assert_eq!(torture("badbranch").headers.via().expect("Via").transaction_branch(), None);
    let contact = &torture("cparam01").headers.addresses(name::CONTACT).expect("Contact")[0];
    assert_eq!(contact.params.get("unknownparam"), Some(""));
    let contact = &torture("cparam02").headers.addresses(name::CONTACT).expect("Contact")[0];
    assert!(contact.uri.as_sip().expect("SIP").params.get("unknownparam").is_some());
}

#[test]
fn malformed_requests_keep_what_an_answer_needs() {
    for name in ["clerr", "ncl", "ltgtruri", "lwsruri", "lwsstart", "trws", "badvers", "mcl01"] {
        let (.., bytes, _) = TORTURE.iter().find(|(other, ..)| *other == name).expect("a torture message");
        let malformed = Message::parse(bytes).expect_err("malformed");
        let has_via = malformed.headers.via().is_some() || name == "badvers";
        assert!(has_via && malformed.headers.get(name::CALL_ID).is_some(), "{name}");
        let response = Message::response(&malformed.headers, malformed.problem.status());
        assert_eq!(response.status(), Some(if name == "badvers" { 505 } else { 400 }));
    }
}

#[test]
fn hostile_input_is_refused_within_bounds() {
    let refused = |bytes: &[u8]| Message::parse(bytes).expect_err("malformed").problem;
    assert_eq!(refused(b""), Problem::NoEnd);
    assert_eq!(refused(b"OPTIONS sip:a SIP/2.0\r\nVia: x"), Problem::NoEnd);
    assert_eq!(refused(&vec![b'a'; MAX_MESSAGE + 1]), Problem::TooLong);
    let many = "OPTIONS sip:a SIP/2.0\r\n".to_owned() + &"a: b\r\n".repeat(MAX_LINES + 1) + "\r\n";
    assert_eq!(refused(many.as_bytes()), Problem::TooManyLines);
    assert_eq!(refused(b"OPTIONS sip:a SIP/2.0\r\na: \xff\r\n\r\n"), Problem::NotUtf8);
    assert_eq!(refused(b"OPTIONS sip:a SIP/2.0\r\n folded first\r\n\r\n"), Problem::Line(1));
    assert_eq!(refused(b"OPTIONS sip:a SIP/2.0\r\na: b\r\nno colon\r\n\r\n"), Problem::Line(2));
    for uri in [
        "sip:",
        "sip:@a",
        "sip:a:",
        "sip:a:99999",
        "sip:[::1",
        "sip:[zz]",
        "sip:a;=b",
        "sip:a?",
        "sip:a%4",
        "1:a",
        "a",
    ] {
        assert_eq!(Uri::parse(uri), None, "{uri}");
    }
}

/// Pairs of RFC 3261 19.1.4.
#[test]
fn uris_are_equivalent_as_rfc_3261_has_it() {
    let same = |one: &str, two: &str| {
        let (one, two) = (Uri::parse(one).expect("a URI"), Uri::parse(two).expect("a URI"));
        one.is_equivalent(&two)
    };
    assert!(same("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtLanTa.CoM;Transport=tcp"));
    assert!(same("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"));
    assert!(same("sip:carol@chicago.com;newparam=5", "sip:carol@chicago.com;security=on"));
    assert!(same(
        "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
        "sip:alice@atlanta.com?priority=urgent&subject=project%20x"
    ));
    assert!(!same("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"));
    assert!(!same("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"));
    assert!(!same("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"));
    assert!(!same("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"));
    assert!(!same("sip:carol@chicago.com", "sip:carol@chicago.com?Subject=next%20meeting"));
    assert!(!same("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"));
}

#[test]
fn lists_are_edited_in_their_place() {
    let mut headers = Headers::default();
    headers.push("v", "SIP/2.0/UDP a;branch=1, SIP/2.0/UDP b;branch=2");
    headers.push("To", "<sip:x@y>");
    headers.push("Via", "SIP/2.0/UDP c;branch=3");
    headers.replace_item(name::VIA, "SIP/2.0/UDP a;branch=9");
    assert_eq!(headers.list(name::VIA)[0], "SIP/2.0/UDP a;branch=9");
    headers.pop_item(name::VIA);
    headers.pop_item(name::VIA);
    assert_eq!(headers.list(name::VIA), ["SIP/2.0/UDP c;branch=3"]);
    headers.set(name::TO, "<sip:z@y>");
    assert_eq!((headers.len(), headers.get("t"), headers.get("to")), (2, None, Some("<sip:z@y>")));
}

fn stream_of(names: &[&str]) -> Vec<u8> {
    names.iter().flat_map(|name| [torture(name).emit(), b"\r\n\r\n".to_vec()].concat()).collect()
}

#[test]
fn a_stream_in_pieces_of_any_size_gives_the_same_messages() {
    let names = ["wsinv", "mpart01", "unreason", "longreq"];
    let stream = stream_of(&names);
    for size in [1, 2, 7, 100, 10_000] {
        let (mut framer, mut messages) = (Framer::default(), vec![]);
        for piece in stream.chunks(size) {
            framer.push(piece);
            messages.extend(
                std::iter::from_fn(|| framer.next_message()).map(|message| message.expect("well-formed")),
            );
        }
        let bodies: Vec<_> = messages.iter().map(|message| message.body.len()).collect();
        assert_eq!(bodies, [150, 553, 154, 150], "pieces of {size}");
    }
}

#[test]
fn a_stream_goes_on_after_a_malformed_message_and_not_without_a_length() {
    let mut framer = Framer::default();
    framer.push(b"OPTIONS  sip:a SIP/2.0\r\nContent-Length: 0\r\n\r\n");
    framer.push(&torture("noreason").emit());
    assert_eq!(framer.next_message().expect("whole").expect_err("malformed").problem, Problem::StartLine);
    assert!(framer.next_message().expect("whole").is_ok());
    framer.push(b"OPTIONS sip:a SIP/2.0\r\nVia: x\r\n\r\n");
    let problem = framer.next_message().expect("whole").expect_err("malformed").problem;
    assert_eq!(problem, Problem::Missing(name::CONTENT_LENGTH));
    framer.push(&torture("noreason").emit());
    assert!(framer.is_broken() && framer.next_message().is_none());
    let mut framer = Framer::default();
    framer.push(&vec![b'x'; MAX_MESSAGE + 1]);
    assert_eq!(framer.next_message().expect("refused").expect_err("malformed").problem, Problem::TooLong);
}

proptest! {
    #[test]
    fn written_addresses_are_read_again(display in proptest::option::of("\\PC{1,20}"), user in "[a-z0-9._~-]{1,9}", port: u16, tag in "[a-z0-9]{1,9}") {
        let mut uri = SipUri::new(Some(&user), "192.0.2.1");
        uri.port = Some(port);
        uri.params.set("lr", None);
        let address = NameAddr { display, ..NameAddr::new(uri.into()) }.with_tag(&tag);
        prop_assert_eq!(NameAddr::parse(&address.to_string()), Some(address));
    }

    #[test]
    fn any_message_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(message) = Message::parse(&bytes) {
            let _ = message.check();
        }
    }
}
