//! Writer of pcap: nanosecond big-endian, or microsecond little-endian as most programs write. The byte order
//! never depends on the machine.

use std::io::{self, Write};

use super::classic::{MAGIC_MICROS, MAGIC_NANOS, VERSION};
use super::{LinkType, MAX_RECORD_LEN, Order};

/// Writes a pcap file.
///
/// A packet is given as its real bytes and a count of elided zeros, which are written out, so that readers of the
/// file can verify every checksum. With a snapshot length less is written, with the original length.
#[derive(Debug)]
pub struct Writer<W: Write> {
    inner: W,
    snap_len: usize,
    order: Order,
    /// Nanoseconds in a unit of a stamp's fraction.
    fraction_ns: u64,
}

static ZEROS: [u8; 4096] = [0; 4096];

impl<W: Write> Writer<W> {
    /// Starts a file whose packets are kept whole.
    ///
    /// # Errors
    /// What `inner` returns.
    pub fn new(inner: W, link_type: LinkType) -> io::Result<Writer<W>> {
        Writer::with_snap_len(inner, link_type, MAX_RECORD_LEN)
    }

    /// Starts a file that keeps the first `snap_len` bytes of a packet, at most [`MAX_RECORD_LEN`].
    ///
    /// # Errors
    /// What `inner` returns.
    pub fn with_snap_len(inner: W, link_type: LinkType, snap_len: usize) -> io::Result<Writer<W>> {
        let snap_len = snap_len.min(MAX_RECORD_LEN);
        Writer { inner, snap_len, order: Order::Big, fraction_ns: 1 }.start(MAGIC_NANOS, link_type)
    }

    /// Starts a file as most programs do: little-endian, microsecond stamps, whole packets.
    ///
    /// # Errors
    /// What `inner` returns.
    pub fn with_micros(inner: W, link_type: LinkType) -> io::Result<Writer<W>> {
        let writer = Writer { inner, snap_len: MAX_RECORD_LEN, order: Order::Little, fraction_ns: 1000 };
        writer.start(MAGIC_MICROS, link_type)
    }

    fn start(mut self, magic: u32, link_type: LinkType) -> io::Result<Writer<W>> {
        let [major, minor] = [VERSION.0, VERSION.1].map(|half| self.order.bytes16(half));
        let [magic, zone, accuracy, snap_len, link_type] =
            [magic, 0, 0, self.snap_len as u32, link_type.0.into()].map(|word| self.order.bytes32(word));
        let header = [&magic[..], &major, &minor, &zone, &accuracy, &snap_len, &link_type].concat();
        self.inner.write_all(&header)?;
        Ok(self)
    }

    /// Writes a packet of `bytes` and then `elided` zeros, at `time_ns` nanoseconds since 1970.
    ///
    /// # Errors
    /// Returns the errors of the sink; `InvalidInput` if the stamp is beyond the year 2106 or the packet
    /// beyond 4 GiB, which the format cannot represent.
    pub fn write(&mut self, time_ns: u64, bytes: &[u8], elided: usize) -> io::Result<()> {
        let original_len = bytes.len() + elided;
        let kept = original_len.min(self.snap_len);
        self.write_header(time_ns, kept, original_len)?;
        let real = kept.min(bytes.len());
        self.inner.write_all(&bytes[..real])?;
        self.write_zeros(kept - real)
    }

    /// Writes the captured `bytes`, the first of a packet of `original_len` bytes.
    ///
    /// # Errors
    /// Returns the errors of [`Writer::write`].
    pub fn write_kept(&mut self, time_ns: u64, bytes: &[u8], original_len: usize) -> io::Result<()> {
        let kept = bytes.len().min(self.snap_len);
        self.write_header(time_ns, kept, original_len.max(bytes.len()))?;
        self.inner.write_all(&bytes[..kept])
    }

    fn write_header(&mut self, time_ns: u64, kept: usize, original_len: usize) -> io::Result<()> {
        let seconds = field(time_ns / 1_000_000_000)?;
        let fraction = field(time_ns % 1_000_000_000 / self.fraction_ns)?;
        let words = [seconds, fraction, kept as u32, field(original_len as u64)?];
        let header = words.map(|word| self.order.bytes32(word));
        self.inner.write_all(header.as_flattened())
    }

    fn write_zeros(&mut self, mut count: usize) -> io::Result<()> {
        while count > 0 {
            let chunk = count.min(ZEROS.len());
            self.inner.write_all(&ZEROS[..chunk])?;
            count -= chunk;
        }
        Ok(())
    }

    /// Flushes the sink, so that others can read what was written.
    ///
    /// # Errors
    /// What the sink returns.
    pub fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    /// Returns the sink. The caller flushes a buffered sink.
    pub fn into_inner(self) -> W {
        self.inner
    }
}

fn field(value: u64) -> io::Result<u32> {
    u32::try_from(value)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "too large for a pcap record"))
}
