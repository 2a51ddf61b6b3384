//! tshark reads written messages as meant.

use bentpipe_signalling::digest::{Account, Challenge, Protected};
use bentpipe_signalling::sdp::{Capabilities, Codec, Direction, offer};
use bentpipe_signalling::sip::{Message, Method, NameAddr, SipUri, Transport, Uri, Via, name};
use bentpipe_testkit::{Folder, Tshark};

fn invite() -> Message {
    let uri: Uri = "sip:bob@192.0.2.2:5070".parse().expect("a URI");
    let mut invite = Message::request(Method::INVITE, uri);
    let via = Via::new(Transport::Udp, "192.0.2.1", 5060, "z9hG4bK77");
    invite.headers.push(name::VIA, via);
    let alice = NameAddr {
        display: Some("Alice \"A\"".into()),
        ..NameAddr::new(SipUri::new(Some("alice"), "192.0.2.1").into())
    };
    invite.headers.push(name::FROM, alice.with_tag("abc"));
    invite.headers.push(name::TO, "<sip:bob@192.0.2.2>");
    invite.headers.push(name::CALL_ID, "1@192.0.2.1");
    invite.headers.push(name::CSEQ, "7 INVITE");
    invite.headers.push(name::MAX_FORWARDS, 70);
    invite.headers.push(name::CONTACT, "<sip:alice@192.0.2.1>");
    let challenge = Challenge::parse("Digest realm=\"r\", nonce=\"n\", qop=\"auth\", algorithm=SHA-256")
        .expect("well-formed");
    let account = Account { user: "alice".into(), password: "secret".into() };
    let request = Protected { method: "INVITE", uri: "sip:bob@192.0.2.2:5070", body: b"" };
    invite.headers.push(name::AUTHORIZATION, challenge.answer(&account, request, "c", 1));
    let capabilities = Capabilities {
        address: [192, 0, 2, 1].into(),
        port: 4000,
        codecs: vec![Codec::new(18, "G729", 8000), Codec::new(97, "iLBC", 8000)],
        ptime: 20,
        direction: Direction::SendRecv,
    };
    invite.set_body("application/sdp", offer(&capabilities, 1, 2).emit());
    invite
}

/// Text of bytes as `text2pcap` and tshark's hexdump import read it.
fn capture(folder: &Folder, messages: &[Message]) -> std::path::PathBuf {
    let mut pcap: Vec<u8> =
        vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 228, 0, 0, 0];
    for (at, message) in messages.iter().enumerate() {
        let payload = message.emit();
        let len = (payload.len() + 28) as u32;
        pcap.extend([(at as u32).to_le_bytes(), [0; 4], len.to_le_bytes(), len.to_le_bytes()].concat());
        let ip_len = (len as u16).to_be_bytes();
        pcap.extend([0x45, 0, ip_len[0], ip_len[1], 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        let udp_len = (payload.len() as u16 + 8).to_be_bytes();
        pcap.extend([0x13, 0xc4, 0x13, 0xc4, udp_len[0], udp_len[1], 0, 0]);
        pcap.extend(payload);
    }
    folder.write("sip.pcap", pcap)
}

#[test]
fn tshark_reads_written_messages() {
    let folder = Folder::new();
    let invite = invite();
    let mut ringing = Message::response(&invite.headers, 180);
    let to = ringing.headers.address(name::TO).expect("To").with_tag("xyz");
    ringing.headers.set(name::TO, to);
    let path = capture(&folder, &[invite, ringing]);
    let Some(tshark) = Tshark::on(&path) else { return };
    let fields = tshark.fields(&[
        "sip.Method",
        "sip.Status-Code",
        "sip.from.user",
        "sip.to.tag",
        "sip.CSeq.seq",
        "sip.Via.branch",
        "sip.auth.digest.response",
        "sdp.media.port",
        "sdp.mime.type",
        "_ws.malformed",
    ]);
    let digest = "sip:bob@192.0.2.2:5070";
    let hash = |text: String| bentpipe_signalling::digest::Algorithm::Sha256.hash(text.as_bytes());
    let (a1, a2) = (hash("alice:r:secret".into()), hash(format!("INVITE:{digest}")));
    let response = hash(format!("{a1}:n:00000001:c:auth:{a2}"));
    assert_eq!(fields[0][..6], ["INVITE", "", "alice", "", "7", "z9hG4bK77"]);
    assert!(fields[0][6].contains(&response), "{:?}", fields[0]);
    assert_eq!(fields[0][7..], ["4000", "G729,iLBC", ""]);
    assert_eq!(fields[1][..6], ["", "180", "alice", "xyz", "7", "z9hG4bK77"]);
    assert_eq!(fields[1][9], "");
}
