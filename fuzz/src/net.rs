//! Checks on `bentpipe-net`: whatever the bytes of a trace file, they are frames or refused with a place.

use bentpipe_net::channel::{Trace, TraceError};

/// Reads a trace, and writes and reads it again.
pub fn fuzz_trace(data: &[u8]) {
    match Trace::parse(data) {
        Ok(trace) => {
            let digits = data.iter().filter(|byte| matches!(byte, b'0' | b'1')).count() as u64;
            assert!((1..=digits).contains(&trace.frames()));
            assert_eq!(trace.losses(), trace.iter().filter(|lost| *lost).count() as u64);
            assert_eq!(Trace::parse(trace.to_text("again").as_bytes()), Ok(trace));
        }
        Err(TraceError::Character { byte, offset, line }) => {
            assert_eq!(data[offset], byte);
            assert_eq!(line, 1 + data[..offset].iter().filter(|byte| **byte == b'\n').count());
        }
        Err(TraceError::Empty) => {}
        Err(TraceError::TooLong) => assert!(data.len() as u64 > bentpipe_net::channel::MAX_FRAMES),
    }
}
