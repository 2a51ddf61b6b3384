//! Writing pcap: nanosecond stamps, big-endian, so that the bytes do not depend on the machine.

use std::io::{self, Write};

use super::classic::{MAGIC_NANOS, VERSION};
use super::{LinkType, MAX_RECORD_LEN};
use crate::bytes::{put16, put32};

/// Writes a pcap file.
///
/// A packet is given as its real bytes and a count of elided zeros, which are written out, so that whoever reads the
/// file can check every checksum. With a snapshot length less is written and the original length still told.
#[derive(Debug)]
pub struct Writer<W: Write> {
    inner: W,
    snap_len: usize,
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
    pub fn with_snap_len(mut inner: W, link_type: LinkType, snap_len: usize) -> io::Result<Writer<W>> {
        let snap_len = snap_len.min(MAX_RECORD_LEN);
        let mut header = [0; 24];
        put32(&mut header, 0, MAGIC_NANOS);
        put16(&mut header, 4, VERSION.0);
        put16(&mut header, 6, VERSION.1);
        put32(&mut header, 16, snap_len as u32);
        put32(&mut header, 20, link_type.0.into());
        inner.write_all(&header)?;
        Ok(Writer { inner, snap_len })
    }

    /// Writes a packet of `bytes` and then `elided` zeros, at `time_ns` nanoseconds since 1970.
    ///
    /// # Errors
    /// What the sink returns; `InvalidInput` if the stamp is beyond the year 2106 or the packet beyond 4 GiB, for
    /// which the format has no room.
    pub fn write(&mut self, time_ns: u64, bytes: &[u8], elided: usize) -> io::Result<()> {
        let original_len = bytes.len() + elided;
        let kept = original_len.min(self.snap_len);
        let mut header = [0; 16];
        put32(&mut header, 0, field(time_ns / 1_000_000_000)?);
        put32(&mut header, 4, field(time_ns % 1_000_000_000)?);
        put32(&mut header, 8, kept as u32);
        put32(&mut header, 12, field(original_len as u64)?);
        self.inner.write_all(&header)?;
        let real = kept.min(bytes.len());
        self.inner.write_all(&bytes[..real])?;
        self.write_zeros(kept - real)
    }

    fn write_zeros(&mut self, mut count: usize) -> io::Result<()> {
        while count > 0 {
            let chunk = count.min(ZEROS.len());
            self.inner.write_all(&ZEROS[..chunk])?;
            count -= chunk;
        }
        Ok(())
    }

    /// Hands the sink back. What a buffered sink holds is for the caller to flush.
    pub fn into_inner(self) -> W {
        self.inner
    }
}

fn field(value: u64) -> io::Result<u32> {
    u32::try_from(value)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "too large for a pcap record"))
}
