//! Transport stream: packets, programmes, and packet times by its own clock.

use std::io::{self, Read};

use bentpipe_units::{Span, Time};
use bentpipe_wire::psi::{Pat, Pmt};
use bentpipe_wire::section;
use bentpipe_wire::ts::{self, Packet, Pcr, Pid};

/// A transport stream packet's bytes.
pub(super) type Bytes = [u8; ts::PACKET_LEN];

/// Distances of stored packets in bytes. Packets are bare, with 16 bytes of Reed-Solomon parity (EN 300 429), or with 4
/// bytes of arrival time in front (M2TS).
const STRIDES: [usize; 3] = [ts::PACKET_LEN, 204, TIMED_STRIDE];
/// Distance of packets with an arrival time in front.
const TIMED_STRIDE: usize = 192;
/// Number of sync bytes in place that identify packets.
const SYNCS: usize = 5;

/// Longest stream that is read, in bytes.
pub const MAX_LEN: u64 = 1 << 30;
/// Maximum deviation of clock references in seconds, from their maximum interval (ISO/IEC 13818-1, 2.7.2). Larger
/// ones count as corrupt.
const MOST_LATE_S: f64 = 0.1;
/// Clock references further apart than this are a jump of the clock.
const MAX_TICKS: u64 = Pcr::TICKS_PER_S;

/// Packets, and the programmes that their tables name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportStream {
    pub(super) packets: Vec<Bytes>,
    pub(super) programmes: Vec<Pmt>,
    /// Bytes read before the first packet, and behind the last whole one.
    left_out: [usize; 2],
}

/// Error returned when bytes cannot be used as a transport stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub(super) String);

impl TransportStream {
    /// Reads whole packets from the first sync byte on, without stored parity or times. [`TransportStream::remark`]
    /// describes the rest.
    ///
    /// # Errors
    /// If there are none, sync is lost, or there is no programme.
    pub fn read(bytes: &[u8]) -> Result<TransportStream, Unreadable> {
        let problem = |text: String| Unreadable(format!("no transport stream: {text}"));
        let (start, stride) =
            layout(bytes).ok_or_else(|| problem("no packets of 188, 204 or 192 bytes".into()))?;
        let packets: Vec<Bytes> =
            bytes[start..].chunks(stride).filter_map(|chunk| chunk.first_chunk().copied()).collect();
        if let Some(n) = packets.iter().position(|packet| packet[0] != ts::SYNC) {
            let at = start + n * stride;
            return Err(problem(format!("no sync byte at byte {at}, where packet {} should start", n + 1)));
        }
        let lead = if stride == TIMED_STRIDE { TIMED_STRIDE - ts::PACKET_LEN } else { 0 };
        let cut = (bytes.len() - start) % stride;
        let left_out = [start.checked_sub(lead).unwrap_or(start), if cut < ts::PACKET_LEN { cut } else { 0 }];
        let stream = TransportStream { left_out, ..TransportStream::of(packets) };
        if stream.programmes.is_empty() {
            return Err(problem("no programme: expected a PAT and a PMT".into()));
        }
        Ok(stream)
    }

    /// A stream of these packets, with the programmes that can be found in them.
    pub(super) fn of(packets: Vec<Bytes>) -> TransportStream {
        let pats = sections(&packets, Pid::PAT);
        let pat = pats.iter().find_map(|section| Pat::parse(section).ok()).unwrap_or_default();
        let map = |programme: &bentpipe_wire::psi::Programme| {
            let maps = sections(&packets, programme.map);
            let mut maps = maps.iter().filter_map(|section| Pmt::parse(section).ok());
            maps.find(|map| map.number == programme.number)
        };
        let programmes = pat.programmes.iter().filter_map(map).collect();
        TransportStream { packets, programmes, left_out: [0; 2] }
    }

    /// Describes the bytes read that are not part of a whole packet, if any.
    pub fn remark(&self) -> Option<String> {
        let [before, behind] = self.left_out;
        (before + behind > 0).then(|| {
            format!(
                "bytes left out: {before} before the first packet, {behind} of one that is cut at the end"
            )
        })
    }

    /// Returns all packets, concatenated.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.packets.concat()
    }

    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns `true` if it has no packets.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the PID of the first video of MPEG-1 or MPEG-2 in the first programme.
    pub(super) fn video_pid(&self) -> Option<Pid> {
        let streams = &self.programmes.first()?.streams;
        streams.iter().find(|stream| matches!(stream.kind, 1 | 2)).map(|stream| stream.pid)
    }

    /// The numbers of its programmes.
    pub fn programmes(&self) -> Vec<u16> {
        self.programmes.iter().map(|programme| programme.number).collect()
    }

    /// The clock references of a PID: the packet's number and the reference.
    pub(super) fn references(&self, clock: Pid) -> Vec<(usize, Pcr)> {
        let of_clock = |(n, bytes): (usize, &Bytes)| {
            let packet = Packet::new_checked(&bytes[..]).ok()?;
            let adaptation = (packet.pid() == clock).then(|| packet.adaptation().ok()).flatten()??;
            Some((n, adaptation.pcr?))
        };
        self.packets.iter().enumerate().filter_map(of_clock).collect()
    }

    /// Returns the due time of each packet after the first, by the first programme's clock. The rate is constant from
    /// one reference to the next; before the first and after the last it is the adjacent one's.
    ///
    /// # Errors
    /// If there are not two references within a second of each other.
    pub fn times(&self) -> Result<Vec<Span>, Unreadable> {
        let clock = self.programmes.first().map_or(Pid::NULL, |programme| programme.clock);
        self.times_by(clock)
    }

    /// Returns durations in seconds and bits between the first programme's clock references.
    ///
    /// NULL packets are left out. Intervals across a jump of the clock are left out.
    ///
    /// # Errors
    /// If there are not two references within a second of each other.
    pub fn rate_pieces(&self) -> Result<Vec<(f64, f64)>, Unreadable> {
        let clock = self.programmes.first().map_or(Pid::NULL, |programme| programme.clock);
        let piece = |pair: &[(usize, Pcr)]| {
            let &[(from, before), (to, after)] = pair else { return None };
            let ticks = after.since(before);
            let data = self.packets[from..to].iter().filter(|packet| pid(packet) != Some(Pid::NULL));
            let bits = data.count() as f64 * 8.0 * ts::PACKET_LEN as f64;
            (1..=MAX_TICKS).contains(&ticks).then_some((ticks as f64 / Pcr::TICKS_PER_S as f64, bits))
        };
        let pieces: Vec<(f64, f64)> = self.references(clock).windows(2).filter_map(piece).collect();
        if pieces.is_empty() {
            let pid = clock.number();
            return Err(Unreadable(format!("no two clock references (PCR) within a second on PID {pid}")));
        }
        Ok(pieces)
    }

    /// Returns [`TransportStream::times`] by another clock.
    pub(super) fn times_by(&self, clock: Pid) -> Result<Vec<Span>, Unreadable> {
        let references = self.references(clock);
        let pieces: Vec<(usize, f64)> = references
            .windows(2)
            .filter_map(|pair| {
                let ticks = pair[1].1.since(pair[0].1);
                let packets = (pair[1].0 - pair[0].0) as f64;
                (1..=MAX_TICKS).contains(&ticks).then(|| (pair[1].0, ticks as f64 / packets))
            })
            .collect();
        let Some(&(_, mut step)) = pieces.first() else {
            let pid = clock.number();
            return Err(Unreadable(format!("no two clock references (PCR) within a second on PID {pid}")));
        };
        let (mut pieces, mut ticks) = (pieces.into_iter().peekable(), 0.0);
        let times = (0..self.packets.len()).map(|n| {
            if n > 0 {
                while pieces.next_if(|(end, _)| *end < n).is_some() {}
                step = pieces.peek().map_or(step, |(_, step)| *step);
                ticks += step;
            }
            Span::from_secs_f64(ticks / Pcr::TICKS_PER_S as f64)
        });
        Ok(times.collect())
    }
}

/// Reads all bytes, of which there may be [`MAX_LEN`].
///
/// # Errors
/// Returns an error if they cannot be read, or are more.
pub(super) fn read_at_most(reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(MAX_LEN + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_LEN {
        return Err(io::Error::other(format!("longer than {MAX_LEN} bytes")));
    }
    Ok(bytes)
}

/// Returns the offset of the first packet, and the distance between packets.
fn layout(bytes: &[u8]) -> Option<(usize, usize)> {
    let is_first = |at: usize, stride: usize| {
        let places = || (at..bytes.len()).step_by(stride).take(SYNCS);
        places().all(|place| bytes[place] == ts::SYNC) && places().count() > 1
    };
    let of = |stride: usize| (0..stride).find(|at| is_first(*at, stride)).map(|at| (at, stride));
    STRIDES.into_iter().find_map(of).or_else(|| Some((ts::find_sync(bytes)?, ts::PACKET_LEN)))
}

/// The sections on a PID.
fn sections(packets: &[Bytes], pid: Pid) -> Vec<Vec<u8>> {
    let (mut receiver, mut found) = (section::Receiver::new(pid), Vec::new());
    packets.iter().for_each(|packet| receiver.push(packet, |section| found.push(section.to_vec())));
    found
}

/// The median.
fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The PID of a packet that can be read.
pub(super) fn pid(bytes: &Bytes) -> Option<Pid> {
    Packet::new_checked(&bytes[..]).ok().filter(|packet| !packet.has_error()).map(|packet| packet.pid())
}

/// Deviation of the arrival times of clock references from their values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockJitter {
    /// Number of references that arrived.
    pub references: usize,
    /// Standard deviation of arrival less reference, in seconds.
    pub deviation_s: f64,
    /// The difference between the latest and the earliest, in seconds.
    pub peak_to_peak_s: f64,
}

impl ClockJitter {
    /// Computes the jitter of packets with arrival times, by the first programme's clock. `None` for fewer than two
    /// references.
    ///
    /// Sender and receiver have the same clock here, so nothing has drifted and only the mean is taken off.
    pub fn of(stream: &TransportStream, arrivals: &[Time]) -> Option<ClockJitter> {
        let late: Vec<f64> = references(stream, arrivals)?.iter().map(|(at, due)| at - due).collect();
        let mean = late.iter().sum::<f64>() / late.len() as f64;
        let square = late.iter().map(|late| (late - mean).powi(2)).sum::<f64>() / late.len() as f64;
        let (low, high) =
            late.iter().fold((f64::MAX, f64::MIN), |(low, high), late| (low.min(*late), high.max(*late)));
        let jitter =
            ClockJitter { references: late.len(), deviation_s: square.sqrt(), peak_to_peak_s: high - low };
        (late.len() > 1).then_some(jitter)
    }
}

/// Returns arrivals and values of the first programme's clock references in seconds.
///
/// Values are from the first one on. A reference that is further off than references may be apart was damaged on the way, and a decoder ignores it.
pub(super) fn references(stream: &TransportStream, arrivals: &[Time]) -> Option<Vec<(f64, f64)>> {
    let references = stream.references(stream.programmes.first()?.clock);
    let first = references.first()?.1;
    let seen = references.iter().map(|(n, reference)| {
        (arrivals[*n].as_secs_f64(), reference.since(first) as f64 / Pcr::TICKS_PER_S as f64)
    });
    let mut seen: Vec<(f64, f64)> = seen.collect();
    let middle = middle(&seen.iter().map(|(at, due)| at - due).collect::<Vec<f64>>());
    seen.retain(|(at, due)| (at - due - middle).abs() < MOST_LATE_S);
    Some(seen)
}

#[cfg(test)]
mod tests;
