//! Capacity requests of a terminal.
//!
//! A field is a kind and a value of 24 bits. A rate replaces the one asked before, a volume is added to what is due, an
//! absolute volume replaces it (EN 301 790: RBDC, VBDC, AVBDC). The field is wider than the standard's eight bits with a
//! scale, so that what is asked is not coarser than what can be assigned.

use bentpipe_units::Rate;

/// Length of a field in bytes.
pub(super) const LEN: usize = 4;
/// Maximum value.
const MAX: u32 = 0x00ff_ffff;

/// Capacity request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Rate of cells in kbit/s.
    Rate(u32),
    /// Additional cells.
    Volume(u32),
    /// Cells in total.
    AbsoluteVolume(u32),
}

impl Request {
    /// Creates a request for a rate, rounded up.
    pub(super) fn rate(rate: Rate) -> Request {
        Request::Rate(clamp(rate.as_bps().div_ceil(1000)))
    }

    /// Creates a request for cells, in addition or in total.
    pub(super) fn volume(cells: u64, absolute: bool) -> Request {
        if absolute { Request::AbsoluteVolume(clamp(cells)) } else { Request::Volume(clamp(cells)) }
    }

    pub(super) fn emit(self) -> [u8; LEN] {
        let (kind, value) = match self {
            Request::Rate(value) => (1, value),
            Request::Volume(value) => (2, value),
            Request::AbsoluteVolume(value) => (3, value),
        };
        (kind << 24 | value).to_be_bytes()
    }

    /// Parses a field; `None` if its kind is unknown.
    pub(super) fn parse(bytes: [u8; LEN]) -> Option<Request> {
        let word = u32::from_be_bytes(bytes);
        let value = word & MAX;
        match word >> 24 {
            1 => Some(Request::Rate(value)),
            2 => Some(Request::Volume(value)),
            3 => Some(Request::AbsoluteVolume(value)),
            _ => None,
        }
    }
}

fn clamp(value: u64) -> u32 {
    value.min(u64::from(MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_written() {
        let all = [
            Request::rate(Rate::from_bps(2_112_001)),
            Request::volume(17, false),
            Request::volume(1 << 40, true),
        ];
        assert_eq!(all, [Request::Rate(2113), Request::Volume(17), Request::AbsoluteVolume(MAX)]);
        all.iter().for_each(|request| assert_eq!(Request::parse(request.emit()), Some(*request)));
        assert_eq!(Request::parse([0, 1, 2, 3]), None);
    }
}
