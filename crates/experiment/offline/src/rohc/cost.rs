//! Processor time of compression, by the search for a packet's context.

use std::fmt::Write as _;
use std::mem;
use std::time::Duration;

use bentpipe_report::number;
use bentpipe_rohc::Lookup;
use rustix::time::{ClockId, clock_gettime};

use super::Sending;
use super::ends::Sender;
use crate::Error;
use crate::capture::Packet;

/// Bytes of a batch of packets. A reading of the clock takes as long as two packets, so it is read by the batch.
const BATCH_BYTES: usize = 1 << 20;

/// Packets of a batch at most.
const BATCH_PACKETS: usize = 4096;

/// A packet of a batch.
#[derive(Clone, Copy, Debug)]
struct Kept {
    number: u64,
    time_ns: u64,
    len: usize,
    /// Start of its bytes.
    start: usize,
}

/// A search, and its time.
#[derive(Debug)]
struct Way {
    name: &'static str,
    sender: Sender,
    time: Duration,
}

/// Processor time of compression, by each search for contexts.
///
/// Packets are kept by the batch. Both ways compress a batch one after the other, and take turns at being first: the second has its
/// bytes in the cache. Feedback is not given.
#[derive(Debug)]
pub(super) struct Cost {
    ways: [Way; 2],
    bytes: Vec<u8>,
    batch: Vec<Kept>,
    packets: u64,
    /// Times of the first packet and the last, in nanoseconds.
    period: Option<(u64, u64)>,
}

impl Cost {
    pub(super) fn new(sending: &Sending) -> Result<Cost, Error> {
        let way = |name, lookup| {
            let mut config = sending.compressor.clone();
            config.lookup = lookup;
            let sender = Sender::new(config, sending.mtu_bytes).with_reservations(&sending.reservations);
            Ok(Way { name, sender: sender.map_err(Error::Usage)?, time: Duration::ZERO })
        };
        let ways = [way("hash of the static fields", Lookup::Hashed)?, way("linear search", Lookup::Linear)?];
        Ok(Cost { ways, bytes: Vec::new(), batch: Vec::new(), packets: 0, period: None })
    }

    pub(super) fn add(&mut self, packet: &Packet<'_>) {
        let Packet { number, time_ns, len, bytes, .. } = *packet;
        self.batch.push(Kept { number, time_ns, len, start: self.bytes.len() });
        self.bytes.extend_from_slice(bytes);
        self.packets += 1;
        let (first, last) = self.period.unwrap_or((time_ns, time_ns));
        self.period = Some((first.min(time_ns), last.max(time_ns)));
        if self.batch.len() == BATCH_PACKETS || self.bytes.len() > BATCH_BYTES {
            self.measure();
        }
    }

    /// Compresses the batch both ways.
    fn measure(&mut self) {
        let (batch, bytes) = (mem::take(&mut self.batch), mem::take(&mut self.bytes));
        let ends = batch.iter().skip(1).map(|next| next.start).chain([bytes.len()]);
        let packets: Vec<Packet<'_>> = batch
            .iter()
            .zip(ends)
            .map(|(&Kept { number, time_ns, len, start }, end)| Packet {
                number,
                time_ns,
                len,
                bytes: &bytes[start..end],
                ..Packet::default()
            })
            .collect();
        self.ways.reverse();
        for way in &mut self.ways {
            let start = processor_time();
            // What is refused costs time too, and is counted where the capture is compressed.
            for packet in &packets {
                let _ = way.sender.send(packet);
            }
            way.time += processor_time().saturating_sub(start);
        }
    }

    /// Returns a table: time a packet, and share of a processor.
    pub(super) fn text(mut self) -> String {
        self.measure();
        self.ways.sort_by_key(|way| way.name);
        let mut text = String::from("\nprocessor time of compression, this machine, without feedback\n");
        let (first, last) = self.period.unwrap_or_default();
        let lasts_s = (last - first) as f64 / 1e9;
        for Way { name, sender, time } in &self.ways {
            let each = time.as_nanos() as f64 / self.packets.max(1) as f64;
            let compared = number(sender.mean_comparisons());
            let _ = write!(text, "{name:26} {:>8} ns a packet, {compared} contexts compared", number(each));
            if lasts_s > 0.0 {
                let share = number(100.0 * time.as_secs_f64() / lasts_s);
                let _ = write!(text, ", {share} % of a processor at the capture's rate");
            }
            text.push('\n');
        }
        text
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
