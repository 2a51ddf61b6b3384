//! Files of ERF records (Endace), which have no header of their own.
//!
//! The first records show the format: known types, times from 1990 on that hardly go back, and lengths that lead from one to the next.

use std::io::Read;

use super::source::Source;
use super::{LinkType, Meta, ReadError};
use crate::bytes::{array, be16};
use crate::capture::erf::{HEADER_LEN, Repr};
use crate::{Error, Layer};

/// Number of records that show the format, if the file has as many.
const SHOWN: usize = 4;
/// Type of records without content.
const PAD: u8 = 48;
/// Bits of the type, without that of extension headers.
const TYPE: u8 = 0x7f;
/// Bits of the flags that number the interface.
const INTERFACE: u8 = 0x03;
/// Earliest time of a record in seconds since 1970: the year 1990.
const EARLIEST_S: u64 = 631_152_000;
/// Longest time in seconds between two of the first records.
const LONGEST_S: u64 = 7 * 86_400;

/// State of a file: nothing but its format.
#[derive(Clone, Copy, Debug)]
pub(super) struct File;

impl File {
    /// Returns the file if the next bytes are ERF records.
    pub(super) fn start<R: Read>(source: &mut Source<R>) -> Result<Option<File>, ReadError> {
        let (mut at, mut last_s) = (0, None);
        for shown in 0..SHOWN {
            let bytes = source.peek(at + HEADER_LEN)?;
            let Some(header) = bytes.get(at..).and_then(|rest| rest.first_chunk::<HEADER_LEN>()) else {
                // A short file ends with a record, or cuts one behind others.
                return Ok((shown > 0 && at == bytes.len() || shown > 1).then_some(File));
            };
            let (seconds, len) = (seconds(header), usize::from(be16(header, 10)));
            let is_near = last_s.is_none_or(|last_s: u64| last_s.abs_diff(seconds) <= LONGEST_S);
            if !is_type(header[8] & TYPE) || len < HEADER_LEN || seconds < EARLIEST_S || !is_near {
                return Ok(None);
            }
            (at, last_s) = (at + len, Some(seconds));
        }
        Ok(Some(File))
    }

    pub(super) fn next<R: Read>(self, source: &mut Source<R>) -> Result<Option<Meta>, ReadError> {
        loop {
            let start = source.offset();
            let header = source.peek(HEADER_LEN)?;
            if header.is_empty() {
                return Ok(None);
            }
            let Some(header) = header.first_chunk::<HEADER_LEN>().copied() else {
                let have = header.len();
                return Err(Error::truncated(Layer::Erf, start, HEADER_LEN, have).into());
            };
            let len = usize::from(be16(&header, 10));
            if len < HEADER_LEN {
                return Err(Error::malformed(Layer::Erf, start + 10, "record length").into());
            }
            let bytes = source.fill(Layer::Erf, len)?;
            if header[8] & TYPE == PAD {
                continue;
            }
            // Behind the original length there is padding.
            let original_len = Repr::parse(bytes).map_or(len, |(repr, before)| before + repr.payload_len);
            let fraction_ns = (u64::from(u32::from_le_bytes(array(&header, 0))) * 1_000_000_000) >> 32;
            let interface = u32::from(header[9] & INTERFACE);
            return Ok(Some(Meta {
                time_ns: Some(seconds(&header) * 1_000_000_000 + fraction_ns),
                interface,
                index: interface as usize,
                link_type: LinkType::ERF,
                original_len,
                range: 0..len.min(original_len),
                options: 0..0,
            }));
        }
    }
}

/// Returns the whole seconds of a record's time.
fn seconds(header: &[u8; HEADER_LEN]) -> u64 {
    u32::from_le_bytes(array(header, 4)).into()
}

/// Returns `true` for a type that is assigned.
fn is_type(kind: u8) -> bool {
    matches!(kind, 1..=29 | PAD)
}
