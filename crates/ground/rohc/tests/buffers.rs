//! Output into buffers of the caller's, and RTP by conditions.

use std::time::Duration;

use bentpipe_rohc::{
    CompressError, Compressor, CompressorConfig, DecompressError, Decompressor, DecompressorConfig, Profile,
    RtpMatch, RtpRule,
};

/// An RTP packet over IPv6 from port 6001 to an odd port, which the guess does not take for RTP.
fn packet(number: u8) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 24, 17, 64];
    packet.resize(40, 1);
    packet.extend_from_slice(&[0x17, 0x71, 0x17, 0x75, 0, 24, 1, number, 0x80, 96, 0, number]);
    packet.extend_from_slice(&[0, 0, 0, number, 1, 2, 3, 4, b'd', b'a', b't', b'a']);
    packet
}

#[test]
fn a_buffer_has_what_a_vector_has() {
    let pair = || {
        let (sending, receiving) = (CompressorConfig::default(), DecompressorConfig::default());
        (Compressor::new(sending), Decompressor::new(receiving))
    };
    let ((mut compressor, mut decompressor), (mut other, mut other_end)) = (pair(), pair());
    for number in 0..50 {
        let (packet, mut rohc, mut restored) = (packet(number), Vec::new(), Vec::new());
        let sent = other.compress(Duration::ZERO, &packet, &mut rohc).expect("compresses");
        let received = other_end.decompress(Duration::ZERO, &rohc, &mut restored).expect("decompresses");
        let (mut buffer, mut restored) = ([0; 200], [0; 200]);
        let (len, same) = compressor.compress_into(Duration::ZERO, &packet, &mut buffer).expect("fits");
        assert_eq!((&buffer[..len], same), (&rohc[..], sent));
        let result = decompressor.decompress_into(Duration::ZERO, &rohc, &mut restored).expect("fits");
        assert_eq!(result.map(|(_, what)| what), received);
        assert_eq!(result.map(|(len, _)| &restored[..len]), Some(&packet[..]));
    }
}

#[test]
fn a_small_buffer_costs_its_packet_alone() {
    let mut compressor = Compressor::new(CompressorConfig::default());
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    let (mut rohc, mut restored) = ([0; 200], [0; 200]);
    for number in 0..60 {
        let packet = packet(number);
        if number % 10 == 5 {
            let result = compressor.compress_into(Duration::ZERO, &packet, &mut rohc[..3]);
            assert!(matches!(result, Err(CompressError::BufferTooSmall(4..))), "{result:?}");
            continue;
        }
        let (len, _) = compressor.compress_into(Duration::ZERO, &packet, &mut rohc).expect("fits");
        if number % 10 == 7 {
            let result = decompressor.decompress_into(Duration::ZERO, &rohc[..len], &mut restored[..63]);
            assert_eq!(result, Err(DecompressError::BufferTooSmall(64)));
            continue;
        }
        let result = decompressor.decompress_into(Duration::ZERO, &rohc[..len], &mut restored);
        let len = result.expect("decompresses").map(|(len, _)| len);
        assert_eq!(len.map(|len| &restored[..len]), Some(&packet[..]));
    }
}

#[test]
fn conditions_tell_what_is_rtp() {
    let profile = |condition: RtpMatch| {
        let rtp = RtpRule::Matching(vec![
            RtpMatch { payload_types: Some(9..=9), ..RtpMatch::default() },
            condition,
        ]);
        let mut compressor = Compressor::new(CompressorConfig { rtp, ..CompressorConfig::default() });
        let sent = compressor.compress(Duration::ZERO, &packet(1), &mut Vec::new()).expect("compresses");
        sent.profile
    };
    let all = RtpMatch {
        source_ports: Some(6000..=6001),
        destination_ports: Some(6005..=6005),
        payload_types: Some(96..=127),
    };
    assert_eq!(profile(all.clone()), Profile::Rtp);
    assert_eq!(profile(RtpMatch::default()), Profile::Rtp);
    assert_eq!(profile(RtpMatch { source_ports: Some(6002..=9000), ..all.clone() }), Profile::Udp);
    assert_eq!(profile(RtpMatch { destination_ports: Some(0..=6004), ..all.clone() }), Profile::Udp);
    assert_eq!(profile(RtpMatch { payload_types: Some(0..=95), ..all }), Profile::Udp);
}
