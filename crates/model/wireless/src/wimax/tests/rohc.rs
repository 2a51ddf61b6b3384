//! ROHC of service flows: packets as they were, and bytes as a compressor alone has them.

use std::time::Duration;

use bentpipe_net::testing::Harness;
use bentpipe_rohc::{Compressor, Decompressor};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::{ipv4, udp};

use super::*;

/// Returns packet `n` of a voice stream: 20 bytes of G.729 behind IPv4, UDP and RTP.
fn voice(n: u16) -> Packet {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let datagram = udp::Repr { src_port: 40_000, dst_port: 5004, payload_len: 32 };
    let header = ipv4::Repr { ident: n, ..ipv4::Repr::new(src, dst, Protocol::UDP, 40) };
    let mut bytes = vec![0; 28];
    header.emit(&mut bytes);
    datagram.emit(&mut bytes[20..]);
    bytes.extend([0x80, 18]);
    bytes.extend(n.to_be_bytes());
    bytes.extend((u32::from(n) * 160).to_be_bytes());
    bytes.extend([0x12, 0x34, 0x56, 0x78]);
    bytes.extend([7; 20]);
    Packet::from_bytes(&bytes)
}

/// Directions of a station with ROHC both ways, and an SNR of the downlink.
fn compressed(rohc: &Rohc, snr: f64) -> Vec<PathConfig> {
    let mut all = paths(1);
    for path in &mut all {
        path.flows = vec![ServiceFlow { rohc: Some(rohc.clone()), ..ServiceFlow::default() }];
        path.radio = Radio { snr: [snr, 30.0], profile: Some([Profile::Qam64R34; 2]), ..Radio::default() };
    }
    all
}

/// Sends a voice stream downlink, and returns how many packets arrive. All must be as they were.
fn carried(rig: &mut Harness<Wimax>, count: u16) -> usize {
    (0..count).for_each(|n| rig.receive(u64::from(n) * 20 * MS, 0, voice(n)));
    rig.run_until(u64::from(count) * 20 * MS + 1000 * MS);
    for (.., packet) in &rig.out {
        let bytes = packet.to_vec();
        let n = u16::from_be_bytes([bytes[4], bytes[5]]);
        assert_eq!(bytes, voice(n).to_vec());
    }
    rig.out.len()
}

#[test]
fn packets_have_the_lengths_of_a_compressor_alone() {
    let rohc = Rohc::default();
    let mut rig = rig(&testbed(), &compressed(&rohc, 40.0));
    assert_eq!(carried(&mut rig, 1000), 1000);
    let mut compressor = Compressor::new(rohc.compressor());
    let mut bytes = Vec::new();
    for n in 0..1000 {
        let now = Duration::from_millis(u64::from(n) * 20);
        compressor.compress(now, &voice(n).to_vec(), &mut bytes).expect("compressed");
    }
    assert_eq!(total(&mut rig, "rohc-bytes-out"), bytes.len() as f64);
    assert_eq!(total(&mut rig, "rohc-bytes-in"), 60_000.0);
    // With 10 bytes of header and CRC of each PDU they are all that the cell grants.
    assert_eq!(total(&mut rig, "granted-bytes"), bytes.len() as f64 + 10_000.0);
    assert!(bytes.len() < 30_000, "{} bytes", bytes.len());
    assert_eq!(total(&mut rig, "not-decompressed"), 0.0);
}

#[test]
fn feedback_goes_the_other_way_and_takes_its_bytes() {
    for (mode, version) in [
        (RohcMode::Optimistic, RohcVersion::V1),
        (RohcMode::Reliable, RohcVersion::V1),
        (RohcMode::Optimistic, RohcVersion::V2),
    ] {
        let rohc = Rohc { mode, version, ..Rohc::default() };
        let mut rig = rig(&testbed(), &compressed(&rohc, 20.2));
        let arrived = carried(&mut rig, 2000);
        let (lost, failed) = (total(&mut rig, "dropped-errors"), total(&mut rig, "not-decompressed"));
        assert_eq!(arrived as f64 + lost + failed, 2000.0, "{mode:?}");
        assert!(lost > 100.0 && failed < 0.02 * 2000.0, "{mode:?}: {lost} lost, {failed} not restored");
        assert!(total(&mut rig, "rohc-feedback") >= 1.0);
        // The uplink has nothing but feedback.
        assert!(total(&mut rig, "bandwidth-requests") >= 1.0, "{mode:?}");
    }
}

#[test]
fn arq_and_rohc_together_lose_nothing() {
    let mut all = compressed(&Rohc { contexts: 40, ..Rohc::default() }, 20.2);
    all.iter_mut().for_each(|path| path.flows[0].arq = Some(Arq::default()));
    let record = Some(Record { frames: 1000, ..Record::default() });
    let mut rig = rig(&Cell { record, packing: true, ..testbed() }, &all);
    let log = AirLog::default();
    rig.element.record(&log);
    assert_eq!(carried(&mut rig, 500), 500);
    assert!(total(&mut rig, "arq-retransmitted-blocks") > 20.0);
    assert_eq!(total(&mut rig, "not-decompressed"), 0.0);
    // A decompressor alone reads the SDUs of the record.
    let mut decompressor = Decompressor::new(Rohc { contexts: 40, ..Rohc::default() }.decompressor());
    let mut next = 0;
    for burst in log.frames().iter().flat_map(|frame| &frame.bursts).filter(|burst| burst.is_downlink) {
        for bytes in &burst.pdus {
            let pdu = wman::Pdu::new_checked(&bytes[..], wman::CrcForm::Ofdma).expect("a PDU");
            for part in pdu.parts().map(|part| part.expect("a part")) {
                if part.number != next {
                    continue;
                }
                let mut restored = Vec::new();
                let read = decompressor.decompress(Duration::ZERO, part.bytes, &mut restored);
                assert!(matches!(read, Ok(Some(_))), "{read:?}");
                assert_eq!(restored, voice(next).to_vec());
                next += 1;
            }
        }
    }
    assert_eq!(next, 500, "each packet is a block");
}

#[test]
fn impossible_compression_is_refused_with_its_key() {
    let refused =
        |cell: &Cell, all: &[PathConfig]| Wimax::new(cell, all).err().expect("refused").impossible.key;
    let rohc = Rohc { mode: RohcMode::Reliable, ..Rohc::default() };
    let mut all = compressed(&rohc, 30.0);
    all[1].flows.clear();
    assert_eq!(refused(&testbed(), &all), "rohc.mode");
    let ethernet = Cell { convergence: Convergence::Ethernet, ..testbed() };
    assert_eq!(refused(&ethernet, &compressed(&Rohc::default(), 30.0)), "rohc");
    let flow = |flow: ServiceFlow| flow.check().expect_err("refused").to_string();
    let both = ServiceFlow { phs: Some(constant_bytes()), rohc: Some(rohc), ..ServiceFlow::default() };
    assert!(flow(both).contains("rohc"));
    let many = Some(Rohc { contexts: 20_000, ..Rohc::default() });
    assert!(flow(ServiceFlow { rohc: many, ..ServiceFlow::default() }).contains("contexts"));
}
