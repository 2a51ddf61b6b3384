//! Bundles, segments and messages for other decoders and for the fuzz targets.

use bentpipe_wire::dtn::admin::{Record, Status, StatusReport};
use bentpipe_wire::dtn::bpsec::{Key, Scope, Variant, sign};
use bentpipe_wire::dtn::bundle::{
    Block, Bundle, BundleFlags, Content, HopCount, Payload, Primary, Timestamp,
};
use bentpipe_wire::dtn::crc::CrcKind;
use bentpipe_wire::dtn::eid::Eid;
use bentpipe_wire::dtn::ltp::{self, Data, Reason, Report, Segment, SessionId};
use bentpipe_wire::dtn::tcpcl::{Extension, Message, SegmentFlags, SessionInit, put_segment_head};

const CREATED: Timestamp = Timestamp { time: 820_540_800_000, sequence: 5 };

fn bundle(source: &str, destination: &str) -> Bundle {
    let primary = Primary::new(source.parse().unwrap(), destination.parse().unwrap(), CREATED, 3_600_000);
    let mut bundle = Bundle { primary, blocks: vec![], payload: Payload::new(b"hello, Earth".to_vec()) };
    bundle.payload.crc = CrcKind::Castagnoli;
    bundle
}

/// Returns a bundle with each feature, by name.
pub(crate) fn all() -> Vec<(&'static str, Bundle)> {
    let plain = bundle("ipn:2.1", "ipn:1.2");
    let mut blocks = bundle("dtn://mars/rover", "dtn://earth/inbox");
    blocks.primary.report_to = "dtn://mars/reports".parse().unwrap();
    blocks.primary.flags = BundleFlags::REPORT_DELIVERY.with(BundleFlags::REPORT_TIME);
    blocks.set(Content::PreviousNode("dtn://orbiter/".parse().unwrap()));
    blocks.set(Content::HopCount(HopCount { limit: 30, count: 3 }));
    blocks.set(Content::Age(81_000));
    blocks.blocks.push(Block {
        crc: CrcKind::X25,
        ..Block::new(9, Content::Other { code: 192, data: [1, 2].into() })
    });
    let allocated = bundle("ipn:977000.100.1", "ipn:1.2");
    let mut report = bundle("ipn:1.0", "ipn:2.0");
    report.primary.flags = BundleFlags::ADMIN;
    report.payload = Payload::new(record().to_vec());
    let mut signed = bundle("ipn:2.1", "ipn:1.2");
    signed.set(Content::Age(5));
    sign(&mut signed, &[0, 1, 2], Eid::ipn(2, 1), &key(), (Variant::Sha256, Scope::ALL)).unwrap();
    let fragments = plain.clone().fragments(plain.encoded_len() - 1).unwrap();
    vec![
        ("plain", plain),
        ("blocks", blocks),
        ("allocated", allocated),
        ("report", report),
        ("signed", signed),
        ("fragment", fragments[1].clone()),
    ]
}

pub(crate) fn key() -> Key {
    Key(b"0123456789abcdef".to_vec())
}

fn record() -> Record {
    let delivered = Status { is_asserted: true, time: Some(CREATED.time + 9) };
    Record::Status(StatusReport { delivered, ..StatusReport::new(Eid::ipn(2, 1), CREATED, None, 12) })
}

/// Returns LTP segments of each type around a bundle, by name.
pub(crate) fn segments() -> Vec<(&'static str, Vec<u8>)> {
    let session = SessionId { engine: 2, number: 300 };
    let bundle = all()[0].1.to_vec();
    let end =
        Data { checkpoint: Some((77, 0)), ends_red: true, ends_block: true, client: 1, ..Data::default() };
    let green = Data { is_green: true, ends_block: true, client: 1, ..Data::default() };
    let report = Report { serial: 500, checkpoint: 77, upper: 90, lower: 0, claims: vec![(0, 40), (50, 40)] };
    let contents = [
        ("red", ltp::Content::Data(end, &bundle)),
        ("green", ltp::Content::Data(green, &bundle)),
        ("report", ltp::Content::Report(report)),
        ("report_ack", ltp::Content::ReportAck(500)),
        ("cancel", ltp::Content::CancelBySender(Reason::Cycles)),
        ("cancel_receiver", ltp::Content::CancelByReceiver(Reason::System)),
    ];
    contents.map(|(name, content)| (name, Segment::new(session, content).to_vec())).to_vec()
}

/// Returns one side of a TCPCL session: contact, initialisation, a bundle in two segments, end.
pub(crate) fn session() -> Vec<u8> {
    let mut out = b"dtn!\x04\x00".to_vec();
    let init = SessionInit {
        keepalive: 30,
        segment_mru: 1000,
        transfer_mru: 1_000_000,
        node: "ipn:2.0",
        extensions: &[],
    };
    Message::Init(init).emit(&mut out);
    let bundle = all()[1].1.to_vec();
    let (first, second) = bundle.split_at(100);
    let (mut extensions, len) = (Vec::new(), (bundle.len() as u64).to_be_bytes());
    Extension { is_critical: true, code: 1, value: &len }.put(&mut extensions);
    put_segment_head(&mut out, SegmentFlags(SegmentFlags::START), 0, &extensions, first.len() as u64);
    out.extend(first);
    Message::Segment { flags: SegmentFlags(SegmentFlags::END), transfer: 0, extensions: &[], data: second }
        .emit(&mut out);
    Message::Terminate { is_reply: false, reason: 0 }.emit(&mut out);
    out
}

pub(crate) fn write_seeds() {
    use crate::fuzz::write;
    for (name, bundle) in all() {
        write("bundle", name, &bundle.to_vec());
        for block in &bundle.blocks {
            if let Content::Integrity(data) = &block.content {
                write("bpsec", name, data);
            }
        }
    }
    let sealed = [
        &[0x81, 1, 2, 1, 0x82, 2, 0x82, 2, 1, 0x82, 0x82, 1, 0x4c][..],
        &[9; 12],
        &[0x82, 4, 0, 0x81, 0x81, 0x82, 1, 0x41, 7],
    ];
    write("bpsec", "sealed", &sealed.concat());
    write("admin", "delivered", &record().to_vec());
    write("admin", "other", &[0x82, 5, 0x80]);
    segments().iter().for_each(|(name, segment)| write("ltp", name, segment));
    let session = session();
    write("tcpcl", "session", &session[6..]);
    write("tcpcl", "contact", &session[..6]);
    let mut acks = Vec::new();
    Message::Ack { flags: SegmentFlags(3), transfer: 1, len: 50 }.emit(&mut acks);
    Message::Refuse { reason: 1, transfer: 2 }.emit(&mut acks);
    Message::Keepalive.emit(&mut acks);
    Message::Reject { reason: 1, header: 9 }.emit(&mut acks);
    write("tcpcl", "acks", &acks);
    write("mtcp", "short", &[0x43, 1, 2, 3]);
    write("mtcp", "long", &[0x59, 1, 0, 9]);
}
