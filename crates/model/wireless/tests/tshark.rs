//! tshark reads the bursts of a recorded cell: CRCs, headers, requests, and the packets in PDUs.

use bentpipe_net::testing::Harness;
use bentpipe_net::{Packet, Port};
use bentpipe_testkit::{Folder, Tshark, has};
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::{ipv4, udp};
use bentpipe_wireless::wimax::{
    AirLog, Cell, Duplex, PathConfig, Phs, Profile, Radio, Record, Service, ServiceFlow, Wimax,
};

const MS: u64 = 1_000_000;

/// Returns a UDP packet with a number.
fn numbered(ident: u16, len: usize) -> Packet {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let datagram = udp::Repr { src_port: 40_000, dst_port: 5004, payload_len: len };
    let udp_len = datagram.buffer_len() + len;
    let header = ipv4::Repr { ident, ..ipv4::Repr::new(src, dst, Protocol::UDP, udp_len) };
    let mut bytes = vec![0; header.buffer_len() + udp_len];
    header.emit(&mut bytes);
    datagram.emit(&mut bytes[header.buffer_len()..]);
    Packet::from_bytes(&bytes)
}

/// Runs three stations with packets in both directions, and returns the capture and the delivered packets.
fn run(cell: &Cell, profile: Profile, flows: &[ServiceFlow]) -> (Vec<u8>, usize) {
    let path = |n: usize| PathConfig {
        name: format!("link/{n}"),
        station: n / 2,
        is_downlink: n.is_multiple_of(2),
        radio: Radio { profile: Some([profile; 2]), ..Radio::default() },
        flows: flows.to_vec(),
        queue: Default::default(),
        delay: Span::ZERO,
        mtu: Bytes::new(1500),
    };
    let paths: Vec<PathConfig> = (0..6).map(path).collect();
    let log = AirLog::default();
    let mut cell = Wimax::new(cell, &paths).expect("possible");
    cell.record(&log);
    let mut rig = Harness::new(cell);
    for n in 0..120 {
        rig.receive(u64::from(n) * 3 * MS, n % 6, numbered(n + 1, [12, 160, 700][usize::from(n) % 3]));
    }
    rig.run_until(2000 * MS);
    assert!(rig.out.iter().any(|(_, port, _)| *port == Port(5)));
    let mut capture = Vec::new();
    log.write_capture(&mut capture).expect("memory");
    (capture, rig.out.len())
}

#[test]
fn tshark_reads_the_packets_of_a_recorded_cell() {
    if !has("tshark") {
        return;
    }
    let folder = Folder::new();
    let record = Some(Record { frames: 2000, ..Record::default() });
    for (name, packing, duplex) in [("plain", false, Duplex::Fdd), ("packed", true, Duplex::Tdd)] {
        let cell = Cell { packing, duplex, fragmentation: false, record, ..Cell::default() };
        let (capture, delivered) = run(&cell, Profile::Qam64R34, &[]);
        assert_eq!(delivered, 120);
        let path = folder.write(format!("{name}.pcap"), capture);
        let rows = Tshark::on(&path).expect("asked for before").fields(&["frame.time_epoch", "ip.id"]);
        let times: Vec<f64> = rows.iter().map(|row| row[0].parse().expect("a time")).collect();
        assert!(times.is_sorted(), "{name}: in the order of time");
        let mut idents: Vec<u32> = rows
            .iter()
            .flat_map(|row| {
                row[1].split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect::<Vec<_>>()
            })
            .map(|id| u32::from_str_radix(id.trim_start_matches("0x"), 16).expect("a number"))
            .collect();
        idents.sort_unstable();
        assert_eq!(idents, (1..=120).collect::<Vec<u32>>(), "{name}");
        let text = Tshark::on(&path).expect("asked for before").options(&["-V"]).text();
        assert!(!text.contains("Malformed") && !text.contains("incorrect"), "{name}");
        assert!(text.contains("[correct]") && text.contains("BR AGGREGATE"), "{name}");
    }
    // Fragments: each PDU is read, and none is malformed.
    let (capture, delivered) = run(&Cell { record, ..Cell::default() }, Profile::Qpsk12, &[]);
    assert!(delivered > 100, "{delivered}");
    let path = folder.write("fragments.pcap", capture);
    let text = Tshark::on(&path).expect("asked for before").options(&["-V"]).text();
    assert!(text.contains("Payload Fragment") && !text.contains("Malformed") && !text.contains("incorrect"));
}

#[test]
fn tshark_reads_pdus_with_suppressed_headers() {
    if !has("tshark") {
        return;
    }
    let phs = Some(Phs { bytes: vec![[0, 1], [6, 9], [12, 23]], rules: 16 });
    let record = Some(Record { frames: 2000, ..Record::default() });
    let cell = Cell { packing: false, fragmentation: false, record, ..Cell::default() };
    let flow = ServiceFlow { phs, ..ServiceFlow::default() };
    let (capture, delivered) = run(&cell, Profile::Qam64R34, &[flow]);
    assert_eq!(delivered, 120);
    let folder = Folder::new();
    let path = folder.write("suppressed.pcap", capture);
    let text = Tshark::on(&path).expect("asked for before").options(&["-V"]).text();
    assert!(!text.contains("Malformed") && !text.contains("incorrect"));
    // Header 6, index 1, IP and UDP 28 less 18, payload 12, CRC 4.
    assert!(text.contains("[correct]") && text.contains("Length: 33"), "{text}");
}

/// A queue of UGS that slips says so in the grant management subheader, and no longer when it is empty.
#[test]
fn tshark_reads_the_subheaders_of_ugs() {
    if !has("tshark") {
        return;
    }
    let folder = Folder::new();
    let record = Some(Record { frames: 2000, ..Record::default() });
    let cell = Cell { fragmentation: false, record, ..Cell::default() };
    let ugs = ServiceFlow {
        service: Service::Ugs,
        sdu: Bytes::new(200),
        slip_indicator: true,
        ..ServiceFlow::default()
    };
    let path = |n: usize| PathConfig {
        name: format!("link/{n}"),
        station: 0,
        is_downlink: n == 0,
        radio: Radio::default(),
        flows: if n == 0 { vec![] } else { vec![ugs.clone()] },
        queue: Default::default(),
        delay: Span::ZERO,
        mtu: Bytes::new(1500),
    };
    let log = AirLog::default();
    let mut element = Wimax::new(&cell, &[path(0), path(1)]).expect("possible");
    element.record(&log);
    let mut rig = Harness::new(element);
    // Two at once: a grant carries one of them, and the extra one the other.
    [0, 0, 500, 600]
        .iter()
        .enumerate()
        .for_each(|(n, ms)| rig.receive(ms * MS, 1, numbered(n as u16 + 1, 172)));
    rig.run_until(1000 * MS);
    assert_eq!(rig.out.len(), 4);
    let mut capture = Vec::new();
    log.write_capture(&mut capture).expect("memory");
    let path = folder.write("slip.pcap", capture);
    let names = ["wmx.genericGrantSubhd.Default", "wmx.genericGrantSubhd.Si", "ip.id"];
    let rows = Tshark::on(&path).expect("asked for before").fields(&names);
    // Without the messages of network entry it does not know the service, and prints the whole field.
    let fields: Vec<&str> = rows.iter().filter(|row| !row[2].is_empty()).map(|row| row[0].as_str()).collect();
    assert_eq!(fields, ["32768", "0", "0", "0"], "{rows:?}");
    let text = Tshark::on(&path).expect("asked for before").options(&["-V"]).text();
    assert!(!text.contains("Malformed") && !text.contains("incorrect"), "{text}");
}
