//! Forward error correction compared with other programs: parity that ffmpeg sends repairs, and tshark reads ours.
#![allow(clippy::disallowed_methods, reason = "waits for real packets")]

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use bentpipe_gateway::fec::{Decoder, Direction, Encoder, Matrix};
use bentpipe_testkit::{Folder, Tshark, has, skip, succeed};
use bentpipe_wire::pcap::{LinkType, Writer};
use bentpipe_wire::{ip, ipv4, rtp, udp};

/// Sockets of datagrams, columns and rows at ports that are free.
fn sockets() -> [UdpSocket; 3] {
    let bind = |port: u16| UdpSocket::bind(("127.0.0.1", port)).ok();
    let of_base = |base: u16| Some([bind(base)?, bind(base + 2)?, bind(base + 4)?]);
    let sockets = (20_000..60_000).step_by(6).find_map(of_base).expect("three ports are free");
    for socket in &sockets {
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
    }
    sockets
}

fn received(socket: &UdpSocket) -> Vec<Vec<u8>> {
    let mut buffer = [0; 2048];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|len| buffer[..len].to_vec())).collect()
}

#[test]
fn what_ffmpeg_protects_is_repaired_to_the_byte() {
    if !has("ffmpeg") {
        return skip("ffmpeg is not installed");
    }
    let sockets = sockets();
    let to = format!("rtp://{}", sockets[0].local_addr().expect("bound"));
    let words = "-v error -f lavfi -i testsrc=s=320x240:r=25 -t 2 -c:v mpeg2video -b:v 2M -f rtp_mpegts -fec prompeg=l=5:d=4";
    succeed(Command::new("ffmpeg").args(words.split(' ')).arg(to));
    let [media, columns, rows] = sockets.each_ref().map(received);
    assert!(
        media.len() > 60 && columns.len() > 10 && rows.len() > 10,
        "{} {} {}",
        media.len(),
        columns.len(),
        rows.len()
    );
    let seq = |bytes: &[u8]| u16::from_be_bytes([bytes[2], bytes[3]]);
    let base = seq(&media[0]);
    let mut lost = BTreeMap::new();
    let mut decoder = Decoder::default();
    let mut repaired = BTreeMap::new();
    // The second row of each matrix but its last datagram, and a datagram of the first: columns repair the row, and rows the other.
    for datagram in &media {
        let n = seq(datagram).wrapping_sub(base);
        if matches!(n % 20, 0 | 5..=8) {
            lost.insert(seq(datagram), datagram.clone());
        } else {
            decoder.push(datagram, |_| panic!("no parity is there yet"));
        }
    }
    for packet in columns.iter().chain(&rows) {
        decoder.push_parity(packet, |bytes| drop(repaired.insert(seq(bytes), bytes.to_vec())));
    }
    // Columns leave with the next matrix, so those of the last one never do.
    let whole = base.wrapping_add((columns.len() / 5 * 20) as u16);
    lost.retain(|seq, _| whole.wrapping_sub(*seq) < 0x8000 && *seq != whole);
    repaired.retain(|seq, _| lost.contains_key(seq));
    assert!(lost.len() >= 10, "{}", lost.len());
    assert_eq!(repaired, lost);
    assert_eq!(decoder.counts().malformed, 0);
}

#[test]
fn tshark_reads_our_parity() {
    let folder = Folder::new();
    let path = folder.file("parity.pcap");
    let mut writer =
        Writer::new(std::fs::File::create(&path).expect("a folder"), LinkType::RAW).expect("written");
    let mut encoder = Encoder::new(Matrix::new(5, 4, true).expect("of the standard"));
    for n in 0..25_u16 {
        let mut datagram = vec![0; rtp::HEADER_LEN];
        rtp::Repr::new(33, 65_530_u16.wrapping_add(n), u32::from(n) * 900, 7).emit(&mut datagram);
        datagram.extend([n as u8; 188]);
        encoder.push(&datagram, |direction, packet| {
            let here = [127, 0, 0, 1].into();
            let port = 5004 + if direction == Direction::Column { 2 } else { 4 };
            let udp = udp::Repr { src_port: port, dst_port: port, payload_len: packet.len() };
            let ip = ipv4::Repr::new(here, here, ip::Protocol::UDP, udp::HEADER_LEN + packet.len());
            let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN];
            ip.emit(&mut bytes);
            udp.emit(&mut bytes[ip.buffer_len()..]);
            bytes.extend(packet);
            writer.write(u64::from(n), &bytes, 0).expect("written");
        });
    }
    drop(writer);
    let Some(tshark) = Tshark::on(&path) else { return };
    let fields = ["snbase_low", "d", "type", "index", "offset", "na", "e", "lr"]
        .map(|field| format!("2dparityfec.{field}"));
    let rows = tshark
        .decode_as("udp.port==5006,rtp")
        .decode_as("udp.port==5008,rtp")
        .preferences(&["2dparityfec.enable:TRUE"])
        .fields(&fields.each_ref().map(String::as_str));
    let of = |is_row: &str| {
        rows.iter()
            .filter(|row| row[1] == is_row)
            .map(|row| (row[0].as_str(), row[4].as_str(), row[5].as_str()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("1"),
        [("65530", "1", "5"), ("65535", "1", "5"), ("4", "1", "5"), ("9", "1", "5"), ("14", "1", "5")]
    );
    assert_eq!(
        of("0"),
        [
            ("65530", "5", "4"),
            ("65531", "5", "4"),
            ("65532", "5", "4"),
            ("65533", "5", "4"),
            ("65534", "5", "4")
        ]
    );
}
