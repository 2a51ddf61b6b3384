//! Packets for tests.

/// Returns the sum in one's complement.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let mut total: u32 = words.sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// Returns an IP packet of `version` with `upper` as its payload, whose checksum goes to `checksum_at`.
pub(crate) fn ip(
    version: u8,
    host: u8,
    class: u8,
    id: u16,
    protocol: u8,
    mut upper: Vec<u8>,
    checksum_at: Option<usize>,
) -> Vec<u8> {
    let (source, destination) = match version {
        4 => (vec![10, 0, 0, host], vec![10, 0, 1, 1]),
        _ => ([vec![0xfd], vec![0; 14], vec![host]].concat(), [vec![0xfd], vec![0; 14], vec![99]].concat()),
    };
    if let Some(at) = checksum_at {
        let pseudo =
            [&source[..], &destination, &[0, protocol], &(upper.len() as u16).to_be_bytes()].concat();
        let checksum = !sum(&[pseudo, upper.clone()].concat());
        upper[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
    let header = if version == 4 {
        let len = (20 + upper.len()) as u16;
        let mut header = vec![
            0x45,
            class,
            (len >> 8) as u8,
            len as u8,
            (id >> 8) as u8,
            id as u8,
            0x40,
            0,
            60,
            protocol,
            0,
            0,
        ];
        header.extend(source.iter().chain(&destination));
        let checksum = !sum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    } else {
        let len = upper.len() as u16;
        let mut header = vec![0x60 | class >> 4, class << 4, 0, 7, (len >> 8) as u8, len as u8, protocol, 60];
        header.extend(source.iter().chain(&destination));
        header
    };
    [header, upper].concat()
}

/// Fields of a TCP segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) version: u8,
    pub(crate) host: u8,
    pub(crate) class: u8,
    pub(crate) id: u16,
    pub(crate) sequence: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u16,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) timestamp: Option<u32>,
    pub(crate) data: usize,
}

impl Segment {
    pub(crate) fn packet(&self) -> Vec<u8> {
        let options = self.timestamp.map_or(Vec::new(), |timestamp| {
            [&[1, 1, 8, 10][..], &timestamp.to_be_bytes(), &[0, 0, 0, 9]].concat()
        });
        let offset = (5 + options.len() / 4) as u16;
        let mut tcp = vec![0x13, 0x88, 0x13, 0x89];
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        tcp.extend((offset << 12 | self.flags).to_be_bytes());
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0, 0]);
        tcp.extend(self.urgent.to_be_bytes());
        tcp.extend(options);
        tcp.extend((0..self.data).map(|n| (n * 7 + self.sequence as usize) as u8));
        ip(self.version, self.host, self.class, self.id, 6, tcp, Some(16))
    }
}

pub(crate) fn udp(version: u8, host: u8, id: u16, port: u16, has_checksum: bool, payload: &[u8]) -> Vec<u8> {
    let mut udp =
        [&port.to_be_bytes()[..], &6000u16.to_be_bytes(), &(8 + payload.len() as u16).to_be_bytes(), &[0, 0]]
            .concat();
    udp.extend(payload);
    ip(version, host, 0, id, 17, udp, has_checksum.then_some(6))
}

pub(crate) fn rtp(sequence: u16, timestamp: u32, marker: bool, kind: u8, sources: &[u32]) -> Vec<u8> {
    let mut rtp = vec![0x80 | sources.len() as u8, u8::from(marker) << 7 | kind];
    rtp.extend(sequence.to_be_bytes());
    rtp.extend(timestamp.to_be_bytes());
    rtp.extend(7u32.to_be_bytes());
    sources.iter().for_each(|source| rtp.extend(source.to_be_bytes()));
    rtp.extend([0x55; 33]);
    rtp
}

/// Returns segment `n` of a transfer.
pub(crate) fn transfer(version: u8, n: u32, timestamp: bool) -> Segment {
    Segment {
        version,
        host: 1,
        class: 0,
        id: 100 + n as u16,
        sequence: 5000 + 1000 * n,
        ack: 9,
        flags: 0x10,
        window: 8000,
        urgent: 0,
        timestamp: timestamp.then_some(1000 + n),
        data: 1000,
    }
}
