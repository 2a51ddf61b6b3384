//! Size of a capture by its records.

use std::collections::BTreeMap;

use bentpipe_record::{CAPTURE_HEADER_LEN, CaptureLimits, RECORD_HEADER_LEN};
use bentpipe_units::{Bytes, Span};
use serde::Serialize;

/// Expected size of a capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaptureBudget {
    /// Name of the file. With a ring, its files have a number behind it.
    pub file: String,
    /// Number of packets, or of units of the line.
    pub packets: u64,
    /// Bytes that are written in a run.
    pub written: Bytes,
    /// Bytes that remain. A ring keeps the latest.
    pub on_disk: Bytes,
    /// Set if `packets` is the greatest number.
    ///
    /// Units of the line depend on when packets come, and senders that slow down on what channels lose.
    pub is_most: bool,
    /// Flows whose packets are not forecast.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_forecast: Vec<String>,
    /// Duration of the run.
    #[serde(skip)]
    pub(super) lasts: Span,
    /// Numbers of records by their lengths.
    #[serde(skip)]
    pub(super) records: Vec<(u64, f64)>,
}

impl CaptureBudget {
    /// Creates the forecast of a file with records of some lengths.
    pub(super) fn new(file: String, records: BTreeMap<u64, f64>, lasts: Span) -> CaptureBudget {
        let count: f64 = records.values().sum();
        let empty = CaptureBudget {
            file,
            packets: count.round() as u64,
            written: Bytes::ZERO,
            on_disk: Bytes::ZERO,
            is_most: false,
            not_forecast: Vec::new(),
            lasts,
            records: records.into_iter().collect(),
        };
        empty.within(CaptureLimits { snap_len: usize::MAX, ring: None })
    }

    /// Returns the sizes within limits of packets and files.
    #[must_use]
    pub fn within(self, limits: CaptureLimits) -> CaptureBudget {
        let record = |(len, count): &(u64, f64)| {
            count * ((*len).min(limits.snap_len as u64) + RECORD_HEADER_LEN as u64) as f64
        };
        let records: f64 = self.records.iter().map(record).sum();
        let header = CAPTURE_HEADER_LEN as u64;
        let written = Bytes::new(records.round() as u64 + header);
        let on_disk = limits.ring.map_or(written, |ring| {
            let headers = header * (ring.files as u64 - 1);
            Bytes::new((written.get() + headers).min(ring.file_bytes.saturating_mul(ring.files as u64)))
        });
        CaptureBudget { written, on_disk, ..self }
    }
}
