//! Captures of a running site in rings of files. A thread writes them, so no disk delays packets.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use bentpipe_record::{Ring, RingSize};
use bentpipe_units::Time;
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::ts::PACKET_LEN;
use bentpipe_wire::{bbframe, ipv4, udp};
use schemars::JsonSchema;
use serde::Deserialize;

/// Records that may wait for the disk, at each point.
const MAX_WAITING: usize = 4096;

/// Point of a site at which packets are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// Device: IP packets of a router, Ethernet frames of a bridge, both ways.
    Lan,
    /// Carrier of this site: TS packets, or BBFRAMEs in UDP.
    Sent,
    /// Carriers of the inputs, after their senders were checked.
    Received,
}

impl Point {
    /// Complete list of points.
    pub const ALL: [Point; 3] = [Point::Lan, Point::Sent, Point::Received];

    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        match self {
            Point::Lan => "lan",
            Point::Sent => "sent",
            Point::Received => "received",
        }
    }
}

/// Settings of captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// Start of the files' paths, without the point's name.
    pub path: PathBuf,
    /// Size of each ring.
    pub size: RingSize,
    /// Maximum number of bytes of each packet.
    pub snap_len: usize,
    /// Points, each once.
    pub points: Vec<Point>,
}

impl CaptureConfig {
    /// Returns the path that the names of a point's files are made from.
    pub(crate) fn path_of(&self, point: Point) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!("{name}-{}.pcap", point.name()))
    }
}

/// Counters of captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets for the files.
    pub captured: u64,
    /// Packets that were not captured, as the disk was too slow or full.
    pub missed: u64,
}

#[derive(Debug, Default)]
struct Counters {
    captured: AtomicU64,
    missed: AtomicU64,
}

/// Packet for a file.
#[derive(Debug)]
struct Entry {
    at_ns: u64,
    bytes: Vec<u8>,
}

/// Tap at a point. Its packets are in the files a moment later.
#[derive(Clone, Debug)]
pub(crate) struct Tap {
    sender: SyncSender<Entry>,
    counters: Arc<Counters>,
    /// Nanoseconds of the clock's start since 1970.
    start_ns: u64,
}

impl Tap {
    /// Captures a packet.
    pub(crate) fn packet(&self, now: Time, bytes: &[u8]) {
        self.send(now, bytes.to_vec());
    }

    /// Captures the TS packets of a datagram.
    pub(crate) fn transport_stream(&self, now: Time, datagram: &[u8]) {
        datagram.chunks(PACKET_LEN).for_each(|packet| self.packet(now, packet));
    }

    /// Captures a datagram with a BBFRAME, in IP and UDP as dissectors expect.
    pub(crate) fn frame(&self, now: Time, datagram: &[u8]) {
        let repr = udp::Repr {
            src_port: bbframe::CAPTURE_PORT,
            dst_port: bbframe::CAPTURE_PORT,
            payload_len: datagram.len(),
        };
        let here = Ipv4Addr::LOCALHOST;
        let ip = ipv4::Repr::new(here, here, Protocol::UDP, udp::HEADER_LEN + datagram.len());
        let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN];
        ip.emit(&mut bytes);
        repr.emit(&mut bytes[ip.buffer_len()..]);
        bytes.extend_from_slice(datagram);
        self.send(now, bytes);
    }

    fn send(&self, now: Time, bytes: Vec<u8>) {
        let entry = Entry { at_ns: self.start_ns + now.as_nanos(), bytes };
        let counter = match self.sender.try_send(entry) {
            Ok(()) => &self.counters.captured,
            Err(_) => &self.counters.missed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Open files of a site's captures.
pub(crate) struct Captures {
    taps: Vec<(Point, Tap)>,
    waiting: Vec<(Receiver<Entry>, Ring)>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    counters: Arc<Counters>,
}

impl Captures {
    /// Opens the files. `now` is the present time of the clock.
    pub(crate) fn open(
        config: Option<&CaptureConfig>,
        (is_bridge, is_ts): (bool, bool),
        now: Time,
    ) -> io::Result<Captures> {
        let counters = Arc::new(Counters::default());
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let mut captures = Captures { taps: Vec::new(), waiting: Vec::new(), threads: Vec::new(), counters };
        let Some(config) = config else { return Ok(captures) };
        for &point in &config.points {
            let link_type = match point {
                Point::Lan if is_bridge => LinkType::ETHERNET,
                Point::Lan => LinkType::RAW,
                Point::Sent | Point::Received if is_ts => LinkType::MPEG_2_TS,
                Point::Sent | Point::Received => LinkType::RAW,
            };
            let ring = Ring::create(&config.path_of(point), link_type, config.snap_len, config.size)?;
            let (sender, receiver) = sync_channel(MAX_WAITING);
            let tap = Tap {
                sender,
                counters: Arc::clone(&captures.counters),
                start_ns: unix.saturating_sub(now.as_nanos()),
            };
            captures.taps.push((point, tap));
            captures.waiting.push((receiver, ring));
        }
        Ok(captures)
    }

    /// Returns the tap of a point, if it is captured.
    pub(crate) fn tap(&self, point: Point) -> Option<Tap> {
        self.taps.iter().find(|(at, _)| *at == point).map(|(_, tap)| tap.clone())
    }

    /// Starts writing, in threads that end with the last tap.
    pub(crate) fn start(&mut self) {
        for (receiver, ring) in self.waiting.drain(..) {
            let counters = Arc::clone(&self.counters);
            self.threads.push(std::thread::spawn(move || write(&receiver, ring, &counters)));
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts { captured: read(&self.counters.captured), missed: read(&self.counters.missed) }
    }

    /// Writes what waits. The taps that were given out must be gone.
    ///
    /// # Errors
    /// Returns the first error of the disk. The files have the packets before it.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.taps.clear();
        let ended = self.threads.drain(..).map(|thread| thread.join().unwrap_or(Ok(())));
        ended.fold(Ok(()), Result::and)
    }
}

/// Writes packets until their tap is gone. After an error of the disk, later packets count as missed, and the error is returned.
fn write(receiver: &Receiver<Entry>, ring: Ring, counters: &Counters) -> io::Result<()> {
    let (mut ring, mut failed) = (Some(ring), Ok(()));
    for Entry { at_ns, bytes } in receiver {
        let written = ring.as_mut().map(|ring| ring.write(at_ns, &bytes, 0));
        if !matches!(written, Some(Ok(()))) {
            ring = None;
            counters.captured.fetch_sub(1, Ordering::Relaxed);
            counters.missed.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(Err(error)) = written {
            failed = Err(error);
        }
    }
    failed.and(ring.map_or(Ok(()), |ring| ring.finish().map(drop)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_record::MIN_RING_FILE_BYTES;
    use bentpipe_testkit::{Folder, Tshark};
    use bentpipe_wire::ts::NULL_PACKET;

    fn config(folder: &Folder) -> CaptureConfig {
        CaptureConfig {
            path: folder.file("site"),
            size: RingSize { file_bytes: MIN_RING_FILE_BYTES, files: 2 },
            snap_len: 65_535,
            points: Point::ALL.to_vec(),
        }
    }

    #[test]
    fn each_point_has_a_ring_that_tshark_opens() {
        let folder = Folder::new();
        let mut captures =
            Captures::open(Some(&config(&folder)), (true, true), Time::ZERO).expect("a folder");
        captures.start();
        let (lan, sent) = (captures.tap(Point::Lan).expect("on"), captures.tap(Point::Sent).expect("on"));
        let broadcast = [0xff; 60];
        lan.packet(Time::ZERO, &broadcast);
        sent.transport_stream(Time::ZERO, &NULL_PACKET.repeat(7));
        assert_eq!(captures.counts(), Counts { captured: 8, missed: 0 });
        drop((lan, sent));
        captures.finish().expect("a disk");
        let names = ["lan", "received", "sent"].map(|point| [1, 2].map(|n| format!("site-{point}-{n}.pcap")));
        assert_eq!(folder.names(), names.as_flattened());
        for (name, count) in names.as_flattened().iter().zip([1, 0, 0, 0, 7, 0]) {
            let Some(tshark) = Tshark::on(folder.file(name)) else { return };
            assert_eq!(tshark.count("frame"), count, "{name}");
        }
    }

    #[test]
    fn packets_that_the_disk_has_no_time_for_are_counted() {
        let folder = Folder::new();
        let captures = Captures::open(Some(&config(&folder)), (false, true), Time::ZERO).expect("a folder");
        // Nothing is written yet: the disk is as slow as can be.
        let tap = captures.tap(Point::Received).expect("on");
        (0..MAX_WAITING + 10).for_each(|_| tap.packet(Time::ZERO, &NULL_PACKET));
        assert_eq!(captures.counts(), Counts { captured: MAX_WAITING as u64, missed: 10 });
    }
}
