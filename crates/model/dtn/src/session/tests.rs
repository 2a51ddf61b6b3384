use proptest::prelude::*;

use super::*;

fn config(node: &str) -> Config {
    Config { segment_mru: 100, transfer_mru: 1000, ..Config::new(node) }
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

/// Passes bytes between two sessions, in pieces of `piece`, until both are silent.
fn pump([one, other]: [&mut Session; 2], piece: usize, now: Time) {
    loop {
        let [out, back] = [one.poll_output(now), other.poll_output(now)];
        if out.is_empty() && back.is_empty() {
            return;
        }
        out.chunks(piece).for_each(|bytes| other.handle_bytes(bytes, now));
        back.chunks(piece).for_each(|bytes| one.handle_bytes(bytes, now));
    }
}

fn events(session: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| session.poll_event()).collect()
}

fn pair() -> [Session; 2] {
    let [mut one, mut other] = ["ipn:1.0", "ipn:2.0"].map(|node| Session::new(config(node), at(0)));
    pump([&mut one, &mut other], 7, at(0));
    assert_eq!(events(&mut one), [Event::Established("ipn:2.0".to_owned())]);
    assert_eq!(events(&mut other), [Event::Established("ipn:1.0".to_owned())]);
    [one, other]
}

#[test]
fn bundles_cross_in_both_directions_and_the_session_ends() {
    let [mut one, mut other] = pair();
    let (long, short) = (vec![7; 950], vec![8; 50]);
    assert_eq!((one.send(long.clone()), one.send(short.clone())), (Some(0), Some(1)));
    assert_eq!(other.send(short.clone()), Some(0));
    one.end(termination::UNKNOWN);
    pump([&mut one, &mut other], 33, at(1));
    let expect = |found: Vec<Event>, expected: &[Event]| {
        assert!(found.len() == 4 && expected.iter().all(|event| found.contains(event)), "{found:?}");
    };
    let of_other = [Event::Received(long), Event::Received(short.clone()), Event::Sent(0), Event::Ended];
    expect(events(&mut other), &of_other);
    expect(events(&mut one), &[Event::Received(short), Event::Sent(0), Event::Sent(1), Event::Ended]);
    assert!(one.is_ended() && other.is_ended() && one.next_timeout().is_never());
}

#[test]
fn segments_without_use_are_rejected_and_end_the_session() {
    let [_, mut other] = pair();
    let segment = |flags: u8, data: &[u8]| {
        let mut bytes = Vec::new();
        Message::Segment { flags: SegmentFlags(flags), transfer: 0, extensions: &[], data }.emit(&mut bytes);
        bytes
    };
    other.handle_bytes(&segment(2, &[]), at(1));
    other.handle_bytes(&segment(0, &[7]), at(1));
    other.handle_bytes(&segment(1, &[]), at(1));
    assert_eq!(events(&mut other), [Event::Received(vec![7])], "the first and the last may be empty");
    other.handle_bytes(&segment(2, &[1]), at(1));
    let _ = other.poll_output(at(1));
    for _ in 0..1000 {
        other.handle_bytes(&segment(0, &[]), at(1));
    }
    assert!(other.is_ended() && other.poll_output(at(1)).len() < 100, "no answer to each");
}

#[test]
fn a_peer_with_a_long_identifier_is_refused() {
    for (len, is_welcome) in [(LONGEST_NODE, true), (LONGEST_NODE + 1, false)] {
        let name = format!("dtn://{}/", "a".repeat(len - 7));
        let [mut one, mut other] = ["ipn:1.0", &name].map(|node| Session::new(config(node), at(0)));
        pump([&mut one, &mut other], 700, at(0));
        assert_eq!((one.is_established(), one.refusal().is_none()), (is_welcome, is_welcome));
    }
    assert!(Refusal::LongName(2000).to_string().contains("has 2000 B, expected 1024 B at most"));
}

#[test]
fn answers_that_wait_are_counted() {
    let [mut one, mut other] =
        [false, true].map(|is_deferred| Session::new(Config { is_deferred, ..config("ipn:1.0") }, at(0)));
    pump([&mut one, &mut other], 700, at(0));
    for _ in 0..10 {
        one.send(vec![7; 10]);
    }
    let bytes = one.poll_output(at(1));
    other.handle_bytes(&bytes, at(1));
    assert_eq!(other.unanswered(), 10 * ACK, "they wait for the caller");
    (0..5).for_each(|_| other.accept());
    assert_eq!(other.unanswered(), 10 * ACK, "they wait for the connection");
    let sent = other.poll_output(at(1)).len();
    assert_eq!((sent, other.unanswered()), (5 * ACK, 5 * ACK));
    (0..5).for_each(|_| other.decline(refusal::NO_RESOURCES));
    assert!((1..5 * ACK).contains(&other.unanswered()), "refusals are shorter");
    let _ = other.poll_output(at(1));
    assert_eq!(other.unanswered(), 0);
}

#[test]
fn bundles_that_have_not_begun_fail_when_the_peer_ends() {
    let [mut one, mut other] = pair();
    one.end(termination::UNKNOWN);
    assert_eq!((one.send(vec![1]), other.send(vec![1])), (None, Some(0)));
    let bytes = one.poll_output(at(1));
    other.handle_bytes(&bytes, at(1));
    assert_eq!(events(&mut other), [Event::Failed(0, 0), Event::Ended]);
}

#[test]
fn a_bundle_beyond_the_limit_is_not_sent() {
    let [mut one, _] = pair();
    assert_eq!((one.send(vec![0; 1001]), one.send(vec![])), (None, None));
}

#[test]
fn a_transfer_beyond_the_limit_is_refused_by_its_length_and_by_its_data() {
    for announced in [true, false] {
        let [_, mut other] = pair();
        let mut bytes = Vec::new();
        let mut extensions = Vec::new();
        if announced {
            Extension { is_critical: false, code: TRANSFER_LENGTH, value: &1001u64.to_be_bytes() }
                .put(&mut extensions);
        }
        for n in 0..11 {
            let flags = SegmentFlags(if n == 0 { 2 } else { u8::from(n == 10) });
            let extensions: &[u8] = if n == 0 { &extensions } else { &[] };
            Message::Segment { flags, transfer: 5, extensions, data: &[1; 100] }.emit(&mut bytes);
        }
        other.handle_bytes(&bytes, at(1));
        let answer = other.poll_output(at(1));
        let mut refusal = Vec::new();
        Message::Refuse { reason: refusal::NO_RESOURCES, transfer: 5 }.emit(&mut refusal);
        assert!(answer.windows(refusal.len()).any(|window| window == refusal));
        assert_eq!(events(&mut other), []);
    }
}

#[test]
fn a_refused_transfer_is_cut_short_and_the_session_ends() {
    let [mut one, mut other] = pair();
    one.send(vec![5; 1000]).unwrap();
    let mut refusal = Vec::new();
    Message::Refuse { reason: refusal::NO_RESOURCES, transfer: 0 }.emit(&mut refusal);
    let first = one.poll_output(at(1));
    one.handle_bytes(&refusal, at(1));
    one.end(termination::UNKNOWN);
    other.handle_bytes(&first, at(1));
    other.poll_output(at(1));
    pump([&mut one, &mut other], 50, at(1));
    assert!(events(&mut one).contains(&Event::Refused(0, refusal::NO_RESOURCES)) && one.is_ended());
}

#[test]
fn keepalives_hold_a_session_and_silence_ends_it() {
    let [mut one, mut other] = pair();
    assert_eq!(one.next_timeout(), at(60));
    one.handle_timeout(at(60));
    other.handle_timeout(at(60));
    pump([&mut one, &mut other], 10, at(60));
    assert_eq!((one.next_timeout(), other.next_timeout()), (at(120), at(120)));
    let transfer = one.send(vec![1; 10]).unwrap();
    one.poll_output(at(60));
    one.handle_timeout(at(120));
    assert!(one.is_established());
    one.handle_timeout(at(180));
    assert_eq!(events(&mut one), [Event::Failed(transfer, 0), Event::Ended]);
}

#[test]
fn messages_out_of_place_are_rejected() {
    let [_, mut other] = pair();
    let mut bytes = Vec::new();
    Message::Segment { flags: SegmentFlags(1), transfer: 0, extensions: &[], data: &[1] }.emit(&mut bytes);
    other.handle_bytes(&bytes, at(1));
    assert_eq!(other.poll_output(at(1)), [6, rejection::UNEXPECTED, 1]);
    for _ in 0..20 {
        other.handle_bytes(&bytes, at(1));
    }
    assert!(other.is_ended(), "a peer that keeps to no rule is left");
    let mut early = Session::new(config("ipn:3.0"), at(0));
    early.handle_bytes(b"dtn!\x04\x00\x04\x01\x03", at(0));
    assert!(!early.is_established() && !early.is_ended());
    let mut slow = Session::new(config("ipn:3.0"), at(0));
    slow.handle_timeout(at(30));
    assert!(slow.is_ended());
}

/// Contact header of version 3 (RFC 7242, section 4.1): flags, keepalive, length and endpoint.
const VERSION_3: &[u8] = b"dtn!\x03\x01\x00\x3c\x05dtn:a";

#[test]
fn peers_of_other_versions_are_refused_by_their_contact_headers() {
    for (header, version) in [(VERSION_3, 3), (&b"dtn!\x05\x00"[..], 5)] {
        for piece in [1, header.len()] {
            let mut session = Session::new(config("ipn:3.0"), at(0));
            header.chunks(piece).for_each(|bytes| session.handle_bytes(bytes, at(0)));
            // The own header, and SESS_TERM with "version mismatch" (RFC 9174, section 4.3).
            assert_eq!(session.poll_output(at(0)), *b"dtn!\x04\x00\x05\x00\x02");
            assert_eq!(session.refusal(), Some(&Refusal::Version(version)));
            assert!(session.is_ended() && !session.is_established());
        }
    }
    let refusal = Refusal::Version(3).to_string();
    assert_eq!(refusal, "the peer speaks version 3 of TCPCL, expected version 4");
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), piece in 1usize..50) {
        let [_, mut other] = pair();
        for chunk in bytes.chunks(piece) {
            other.handle_bytes(chunk, at(1));
        }
        prop_assert!(other.poll_output(at(1)).len() < 10_000);
    }

    #[test]
    fn bundles_arrive_once_in_order(lens in proptest::collection::vec(1usize..1000, 0..9), piece in 1usize..300) {
        let [mut one, mut other] = pair();
        let bundles: Vec<Vec<u8>> = lens.iter().enumerate().map(|(n, len)| vec![n as u8; *len]).collect();
        for bundle in &bundles {
            one.send(bundle.clone()).unwrap();
        }
        pump([&mut one, &mut other], piece, at(1));
        prop_assert_eq!(events(&mut other), bundles.into_iter().map(Event::Received).collect::<Vec<_>>());
        prop_assert_eq!(events(&mut one), (0..lens.len() as u64).map(Event::Sent).collect::<Vec<_>>());
    }
}

#[test]
fn deferred_bundles_are_acknowledged_or_refused_by_the_caller() {
    let deferred = Config { is_deferred: true, ..config("ipn:2.0") };
    let [mut one, mut other] = [config("ipn:1.0"), deferred].map(|config| Session::new(config, at(0)));
    pump([&mut one, &mut other], 7, at(0));
    (0..3).for_each(|n| assert_eq!(one.send(vec![n; 250]), Some(n.into())));
    pump([&mut one, &mut other], 50, at(1));
    assert_eq!(events(&mut one).len(), 1, "nothing but the start");
    other.accept();
    other.decline(refusal::NO_RESOURCES);
    one.end(termination::UNKNOWN);
    pump([&mut one, &mut other], 50, at(2));
    assert_eq!(events(&mut one), [Event::Sent(0), Event::Refused(1, refusal::NO_RESOURCES)]);
    assert!(!other.is_ended(), "a bundle waits for its verdict");
    other.accept();
    pump([&mut one, &mut other], 50, at(3));
    assert_eq!(events(&mut one), [Event::Sent(2), Event::Ended]);
}

#[test]
fn tls_is_agreed_on_before_anything_else_is_sent() {
    let with = |tls: Tls| Config { tls, ..config("ipn:1.0") };
    let [mut one, mut other] = [Tls::Offered, Tls::Required].map(|tls| Session::new(with(tls), at(0)));
    pump([&mut one, &mut other], 6, at(0));
    assert!(one.wants_tls() && other.wants_tls());
    one.handle_bytes(b"hello of TLS", at(0));
    assert_eq!(one.take_input(), b"hello of TLS");
    one.start_in_tls(None);
    other.start_in_tls(None);
    pump([&mut one, &mut other], 6, at(0));
    assert!(one.is_established() && other.is_established());
    let [mut one, mut other] = [Tls::Off, Tls::Required].map(|tls| Session::new(with(tls), at(0)));
    pump([&mut one, &mut other], 6, at(0));
    assert!(other.is_ended() && !one.is_established());
    assert_eq!(other.refusal(), Some(&Refusal::NoTls));
}

#[test]
fn a_peer_whose_certificate_names_another_node_is_refused_before_its_bundles() {
    let with = |node: &str| Config { tls: Tls::Required, ..config(node) };
    for (named, is_welcome) in [("ipn:1.0", true), ("ipn:3.0", false)] {
        let [mut one, mut other] = ["ipn:1.0", "ipn:2.0"].map(|node| Session::new(with(node), at(0)));
        pump([&mut one, &mut other], 6, at(0));
        one.start_in_tls(None);
        other.start_in_tls(Some(vec![named.parse().expect("a node")]));
        let mut first = one.poll_output(at(0));
        // An impostor does not wait for the answer.
        tcpcl::put_segment_head(&mut first, SegmentFlags(3), 0, &[], 4);
        first.extend([1; 4]);
        other.handle_bytes(&first, at(0));
        assert_eq!(events(&mut other).contains(&Event::Received(vec![1; 4])), is_welcome);
        assert_eq!((other.is_ended(), other.refusal().is_some()), (!is_welcome, !is_welcome));
        if !is_welcome {
            let last = other.poll_output(at(0));
            assert!(last.ends_with(&[5, 0, termination::CONTACT_FAILURE]), "{last:?}");
        }
    }
    let [mut one, mut other] = ["ipn:1.0", "ipn:2.0"].map(|node| Session::new(with(node), at(0)));
    pump([&mut one, &mut other], 6, at(0));
    one.refuse_in_tls();
    assert_eq!((one.poll_output(at(0)), one.is_ended()), (vec![5, 0, termination::CONTACT_FAILURE], true));
}

/// Session that keeps parts of 150 bytes and more.
fn keeping(node: &str, is_passive: bool) -> Session {
    let deferred = Config { is_deferred: true, parts: Some(150), is_passive, ..config(node) };
    Session::new(deferred, at(0))
}

fn keeping_pair() -> [Session; 2] {
    let [mut one, mut other] =
        [("ipn:1.0", false), ("ipn:2.0", true)].map(|(node, side)| keeping(node, side));
    pump([&mut one, &mut other], 7, at(0));
    assert!(events(&mut one).len() == 1 && events(&mut other).len() == 1);
    assert!(one.keeps_parts() && other.keeps_parts());
    [one, other]
}

#[test]
fn parts_are_announced_by_an_item_for_private_use_and_need_both_ends() {
    let mut one = keeping("ipn:1.0", false);
    one.handle_bytes(b"dtn!\x04\x00", at(0));
    let init = one.poll_output(at(0));
    // Not critical, code, length, value.
    assert!(init.ends_with(&[0, 0, 0, 13, 0, 0xbe, 0x17, 0, 8, 0, 0, 0, 0, 0, 0, 0, 150]), "{init:?}");
    let mut silent = Session::new(config("ipn:2.0"), at(0));
    silent.handle_bytes(&init, at(0));
    let answer = silent.poll_output(at(0));
    one.handle_bytes(&answer[CONTACT_LEN..], at(0));
    assert!(one.is_established() && silent.is_established());
    assert!(!one.keeps_parts() && !silent.keeps_parts());
    // A passive session announces nothing to a peer that does not.
    let (mut plain, mut passive) = (Session::new(config("ipn:2.0"), at(0)), keeping("ipn:1.0", true));
    pump([&mut plain, &mut passive], 7, at(0));
    assert!(plain.is_established() && passive.is_established() && !passive.keeps_parts());
    // A peer that ends the session instead of ignoring the item.
    for (is_passive, has_init, more, is_unanswered) in [
        (false, false, &[][..], true),
        (false, true, &[], true),
        (false, true, &[4], false),
        (true, true, &[], false),
    ] {
        let mut refused = keeping("ipn:1.0", is_passive);
        refused.handle_bytes(b"dtn!\x04\x00", at(0));
        if has_init {
            refused.handle_bytes(&answer[CONTACT_LEN..], at(0));
        }
        refused.handle_bytes(more, at(0));
        refused.disconnect();
        assert_eq!(refused.is_unanswered(), is_unanswered);
    }
}

#[test]
fn segments_wait_for_the_store_and_a_cut_transfer_leaves_its_part() {
    for is_whole in [false, true] {
        let [mut one, mut other] = keeping_pair();
        if is_whole {
            other.keep_whole();
        }
        let bundle: Vec<u8> = (0..950_u32).map(|n| n as u8).collect();
        let transfer = one.send(bundle.clone()).unwrap();
        let bytes = one.poll_output(at(1));
        // Five segments and a half.
        let half = bytes[500..].windows(30).position(|window| *window == bundle[530..560]);
        let cut = 500 + half.unwrap();
        other.handle_bytes(&bytes[..cut], at(1));
        assert!(other.poll_output(at(1)).is_empty(), "nothing is stored");
        let found = other.incoming().map(|(transfer, data)| (transfer, data.to_vec()));
        assert_eq!(found, (!is_whole).then(|| (transfer, bundle[..500].to_vec())));
        if !is_whole {
            other.acknowledge(transfer, 420);
        }
        let acks = other.poll_output(at(1));
        assert_eq!(acks.len(), if is_whole { 0 } else { 4 * tcpcl::ACK_LEN });
        one.handle_bytes(&acks, at(1));
        one.disconnect();
        other.disconnect();
        let kept = if is_whole { 0 } else { 400 };
        assert_eq!(events(&mut one), [Event::Failed(transfer, kept), Event::Ended]);
        let left = events(&mut other);
        assert_eq!(left.first() == Some(&Event::Cut(bundle[..500].to_vec())), !is_whole, "{left:?}");
    }
}

#[test]
fn parts_below_the_least_length_are_not_kept() {
    let [mut one, mut other] = keeping_pair();
    let transfer = one.send(vec![3; 300]).unwrap();
    let bytes = one.poll_output(at(1));
    other.handle_bytes(&bytes[..150], at(1));
    assert_eq!(other.incoming(), None, "100 bytes of 150");
    // A peer that acknowledges it all the same is not believed.
    let mut ack = Vec::new();
    Message::Ack { flags: SegmentFlags(2), transfer, len: 100 }.emit(&mut ack);
    // Nor one that acknowledges more than was sent.
    Message::Ack { flags: SegmentFlags(2), transfer, len: 301 }.emit(&mut ack);
    one.handle_bytes(&ack, at(1));
    one.disconnect();
    other.disconnect();
    assert_eq!(events(&mut one), [Event::Failed(transfer, 0), Event::Ended]);
    assert_eq!(events(&mut other), [Event::Ended]);
}

#[test]
fn a_refused_transfer_leaves_no_part() {
    let [mut one, mut other] = keeping_pair();
    let transfer = one.send(vec![3; 900]).unwrap();
    let bytes = one.poll_output(at(1));
    other.handle_bytes(&bytes, at(1));
    other.acknowledge(transfer, 300);
    other.decline(refusal::NO_RESOURCES);
    other.disconnect();
    assert_eq!(events(&mut other).len(), 2, "received and ended");
    one.handle_bytes(&other.poll_output(at(1)), at(1));
    assert_eq!(events(&mut one), [Event::Refused(transfer, refusal::NO_RESOURCES)]);
}

proptest! {
    /// The connection breaks anywhere in both directions, and the receiver has stored anything up to what arrived.
    #[test]
    fn a_cut_leaves_no_gap(
        lens in proptest::collection::vec(1usize..1000, 1..6),
        cuts in [0usize..4000, 0usize..300],
        stored in proptest::collection::vec(0u64..1000, 1..20),
        piece in 1usize..200,
    ) {
        let [mut one, mut other] = keeping_pair();
        let bundles: Vec<Vec<u8>> = lens.iter().enumerate().map(|(n, len)| vec![n as u8; *len]).collect();
        for bundle in &bundles {
            one.send(bundle.clone()).unwrap();
        }
        let (mut received, mut left, mut stored) = (Vec::new(), cuts, stored.into_iter());
        loop {
            let mut out = one.poll_output(at(1));
            out.truncate(left[0]);
            left[0] -= out.len();
            for bytes in out.chunks(piece) {
                other.handle_bytes(bytes, at(1));
                if let (Some((transfer, data)), Some(stored)) = (other.incoming(), stored.next()) {
                    let len = stored.min(data.len() as u64);
                    other.acknowledge(transfer, len);
                }
                for event in events(&mut other) {
                    let Event::Received(bundle) = event else { panic!("{event:?}") };
                    received.push(bundle);
                    other.accept();
                }
            }
            let mut back = other.poll_output(at(1));
            back.truncate(left[1]);
            left[1] -= back.len();
            if out.is_empty() && back.is_empty() {
                break;
            }
            one.handle_bytes(&back, at(1));
        }
        one.disconnect();
        other.disconnect();
        let part = events(&mut other).into_iter().find_map(|event| match event {
            Event::Cut(data) => Some(data),
            _ => None,
        });
        for event in events(&mut one) {
            match event {
                Event::Sent(transfer) => prop_assert!(received.len() as u64 > transfer),
                Event::Failed(_, 0) | Event::Ended => {}
                Event::Failed(transfer, kept) => {
                    let found = received.get(transfer as usize).or(part.as_ref()).expect("a part");
                    prop_assert!(kept >= 150 && found.len() as u64 >= kept);
                    prop_assert_eq!(&found[..], &bundles[transfer as usize][..found.len()]);
                }
                event => panic!("{event:?}"),
            }
        }
    }
}
