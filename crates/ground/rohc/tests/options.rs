//! Feedback options that the decompressor sends on its own account, and what the compressor makes of them: REJECT, LOSS
//! and JITTER (RFC 3095 5.7.6).

use std::time::Duration;

use bentpipe_rohc::{
    Compressed, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, PacketType, Profile,
};

/// An IPv4 packet of `protocol`, its checksum right.
fn ipv4(protocol: u8, id: u16, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u16 + 20).to_be_bytes();
    let id = id.to_be_bytes();
    let mut packet = vec![0x45, 0, len[0], len[1], id[0], id[1], 0x40, 0, 64, protocol, 0, 0];
    packet.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = packet.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!((sum + (sum >> 16)) as u16)).to_be_bytes());
    packet.extend_from_slice(payload);
    packet
}

fn udp(flow: u8, number: u16, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u16 + 8).to_be_bytes();
    ipv4(17, number, &[&[0x20, flow, 0x20, 2, len[0], len[1], 0, 0], payload].concat())
}

fn rtp(sn: u16, ts: u32) -> Vec<u8> {
    let mut rtp = vec![0x80, 0];
    rtp.extend_from_slice(&sn.to_be_bytes());
    rtp.extend_from_slice(&ts.to_be_bytes());
    rtp.extend_from_slice(&[9; 24]);
    udp(1, sn, &rtp)
}

fn tcp(number: u16) -> Vec<u8> {
    let seq = (u32::from(number) * 10).to_be_bytes();
    let mut segment = vec![0x30, 0, 0, 80];
    segment.extend_from_slice(&seq);
    segment.extend_from_slice(&[0, 0, 0, 1, 0x50, 0x10, 0x20, 0, 1, 2, 0, 0]);
    segment.extend_from_slice(&[7; 10]);
    ipv4(6, number, &segment)
}

struct Ends {
    compressor: Compressor,
    decompressor: Decompressor,
    /// All feedback so far.
    feedback: Vec<u8>,
}

impl Ends {
    fn new(compressor: CompressorConfig, decompressor: DecompressorConfig) -> Self {
        Self {
            compressor: Compressor::new(compressor),
            decompressor: Decompressor::new(decompressor),
            feedback: Vec::new(),
        }
    }

    /// Sends a packet that arrives `late`; it must come back.
    fn send(&mut self, now: Duration, late: Duration, packet: &[u8]) -> Compressed {
        let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
        let compressed = self.compressor.compress(now, packet, &mut rohc).expect("compresses");
        let result = self.decompressor.decompress(now + late, &rohc, &mut ip);
        assert!(matches!(result, Ok(Some(_))), "{result:?} {compressed:?}");
        assert_eq!(ip, packet, "{compressed:?}");
        self.decompressor.take_feedback(&mut feedback);
        self.compressor.feedback(&feedback);
        self.feedback.extend_from_slice(&feedback);
        compressed
    }

    /// Sends a packet that is lost.
    fn lose(&mut self, packet: &[u8]) {
        self.compressor.compress(Duration::ZERO, packet, &mut Vec::new()).expect("compresses");
    }
}

/// More flows than the decompressor has room for: it restores their first packet and rejects them, and they go
/// Uncompressed; nothing is lost.
#[test]
fn flows_without_room_are_rejected() {
    let config =
        DecompressorConfig { mode: Mode::Optimistic, max_contexts: 2, ..DecompressorConfig::default() };
    let mut ends = Ends::new(CompressorConfig { confirm: 0, ..CompressorConfig::default() }, config);
    let mut irs = 0;
    for number in 0..600u16 {
        for flow in 0..5 {
            let packet = if flow == 4 { tcp(number) } else { udp(flow, number, b"payload") };
            let sent = ends.send(Duration::ZERO, Duration::ZERO, &packet);
            let expected = if flow < 2 || number == 0 { sent.profile } else { Profile::Uncompressed };
            // Now and then the compressor tries whether there is room again.
            irs += usize::from(flow >= 2 && sent.packet_type == PacketType::Ir);
            assert!(
                sent.profile == expected || sent.packet_type == PacketType::Ir,
                "{flow} {number} {sent:?}"
            );
            assert!(flow >= 2 || number < 8 || sent.header_out <= 2, "{flow} {number} {sent:?}");
        }
    }
    assert!((3..60).contains(&irs), "{irs}");
    assert!((3..60).contains(&ends.compressor.rejected_flows()), "{}", ends.compressor.rejected_flows());
    // FEEDBACK-2, its size and CID before: STATIC-NACK, REJECT, SN-NOT-VALID, CRC.
    let is_reject = |element: &[u8]| element[0] == 0xa0 && element[2..4] == [0x20, 0x30];
    assert!(ends.feedback.windows(6).any(is_reject), "{:02x?}", ends.feedback);
}

/// Short flows one after the other need no more contexts than there are flows at a time, in U-mode and O-mode.
#[test]
fn contexts_of_ended_flows_give_way() {
    for mode in [Mode::Unidirectional, Mode::Optimistic] {
        let config = DecompressorConfig { mode, max_contexts: 2, ..DecompressorConfig::default() };
        let mut ends = Ends::new(CompressorConfig { confirm: 0, ..CompressorConfig::default() }, config);
        for flow in 0..12 {
            for number in 0..40 {
                ends.send(Duration::ZERO, Duration::ZERO, &udp(flow, number, b"payload"));
            }
        }
        assert_eq!(ends.compressor.rejected_flows(), 0, "{mode:?}");
        assert_eq!(ends.decompressor.stats().displaced, 10, "{mode:?}");
    }
}

/// The largest run of losses is told once, and the compressor keeps as many references: a gap that four references
/// bridge with UO-0 needs a longer header then.
#[test]
fn losses_are_reported_and_widen_the_window() {
    let header_after = |report_path: bool| {
        let config =
            DecompressorConfig { mode: Mode::Optimistic, report_path, ..DecompressorConfig::default() };
        // Without a CRC of 7 bits, which would be waited for after the losses.
        let mut ends = Ends::new(CompressorConfig { confirm: 0, ..CompressorConfig::default() }, config);
        let mut sn = 0u16;
        let mut next = |step: u16| {
            sn += step;
            rtp(sn, u32::from(sn) * 160)
        };
        (0..30).for_each(|_| {
            ends.send(Duration::ZERO, Duration::ZERO, &next(1));
        });
        (0..9).for_each(|_| ends.lose(&next(1)));
        (0..30).for_each(|_| {
            ends.send(Duration::ZERO, Duration::ZERO, &next(1));
        });
        let losses = ends.feedback.windows(2).filter(|option| **option == [0x71, 9]).count();
        assert_eq!(losses, usize::from(report_path), "{:02x?}", ends.feedback);
        ends.send(Duration::ZERO, Duration::ZERO, &next(10)).packet_type
    };
    assert_eq!(header_after(false), PacketType::Uo0);
    assert_ne!(header_after(true), PacketType::Uo0);
}

/// With timer-based timestamps the observed jitter is told, and the compressor sends more bits of the timestamp.
#[test]
fn jitter_is_reported_and_counted_in() {
    let header_after_silence = |report_path: bool| {
        let config = DecompressorConfig {
            mode: Mode::Optimistic,
            report_path,
            clock_resolution: Duration::from_millis(1),
            ..DecompressorConfig::default()
        };
        // The compressor expects less jitter than there is.
        let compressor =
            CompressorConfig { timer_jitter: Duration::from_millis(20), ..CompressorConfig::default() };
        let mut ends = Ends::new(compressor, config);
        let (mut now, mut ts) = (Duration::from_secs(5), 1000u32);
        for number in 0..160u16 {
            // Before a pause of 15 strides a packet is 14 late.
            let (late, strides) = if number % 40 == 39 { (280, 15) } else { (0, 1) };
            ends.send(now, Duration::from_millis(late), &rtp(number, ts));
            now += Duration::from_millis(20) * strides;
            ts += 160 * strides;
        }
        let told = ends.feedback.windows(2).any(|option| option == [0x61, 14]);
        assert_eq!(told, report_path, "{:02x?}", ends.feedback);
        now += Duration::from_secs(600);
        ts += 160 * 50 * 600;
        ends.send(now, Duration::ZERO, &rtp(160, ts)).header_out
    };
    assert!(header_after_silence(true) > header_after_silence(false));
}

/// Feedback for one direction comes in front of packets of the other, or between them with nothing behind it.
#[test]
fn feedback_is_piggybacked_and_interspersed() {
    for alone in [false, true] {
        let config = DecompressorConfig { mode: Mode::Optimistic, ..DecompressorConfig::default() };
        let mut compressors = [(); 2].map(|()| Compressor::new(CompressorConfig::default()));
        let mut decompressors = [(); 2].map(|()| Decompressor::new(config));
        for number in 0..20u16 {
            for end in 0..2 {
                let packet = udp(end as u8, number, b"both ways");
                let (mut rohc, mut ip, mut received) = (Vec::new(), Vec::new(), Vec::new());
                if !alone {
                    let mut said = Vec::new();
                    decompressors[end].take_feedback(&mut said);
                    compressors[end].piggyback(&said);
                }
                compressors[end].compress(Duration::ZERO, &packet, &mut rohc).expect("compresses");
                let restored = decompressors[1 - end].decompress(Duration::ZERO, &rohc, &mut ip);
                assert!(matches!(restored, Ok(Some(_))) && ip == packet, "{restored:?}");
                let mut between = Vec::new();
                if alone && decompressors[end].take_feedback(&mut between) {
                    let nothing = decompressors[1 - end].decompress(Duration::ZERO, &between, &mut ip);
                    assert_eq!(nothing, Ok(None));
                }
                if decompressors[1 - end].take_received_feedback(&mut received) {
                    compressors[1 - end].feedback(&received);
                }
            }
        }
        for compressor in &compressors {
            assert_eq!(compressor.flow_state(0).map(|(mode, _)| mode), Some(Mode::Optimistic), "{alone}");
            assert_eq!(compressor.stats().irs, 1, "{alone}");
        }
    }
}

/// Twenty lost packets of RTP are more than four bits of sequence number bridge. By the time that passed the right one is
/// found, if that is allowed.
#[test]
fn repair_can_be_switched_off() {
    let right_after_loss = |repair: bool| {
        let config = DecompressorConfig { repair, ..DecompressorConfig::default() };
        // Four bits of sequence number only.
        let mut ends = Ends::new(CompressorConfig { confirm: 0, ..CompressorConfig::default() }, config);
        let at = |number: u16| Duration::from_millis(20 * u64::from(number));
        let packet = |number: u16| rtp(number, u32::from(number) * 160);
        (0..40).for_each(|number| {
            ends.send(at(number), Duration::ZERO, &packet(number));
        });
        (40..60).for_each(|number| ends.lose(&packet(number)));
        let arrives = |number: u16| {
            let (mut rohc, mut ip) = (Vec::new(), Vec::new());
            ends.compressor.compress(at(number), &packet(number), &mut rohc).expect("compresses");
            let restored = ends.decompressor.decompress(at(number), &rohc, &mut ip);
            assert!(restored.is_err() || ip == packet(number), "{number} is wrong");
            restored.is_ok()
        };
        (60..80).map(arrives).filter(|is_right| *is_right).count()
    };
    assert!(right_after_loss(true) >= 15, "{}", right_after_loss(true));
    assert_eq!(right_after_loss(false), 0);
}
