//! Framing of the Minimal TCP convergence layer (draft-ietf-dtn-mtcpcl-01): each bundle is a CBOR byte string.

use super::cbor::{self, Reader};
use crate::{Error, Kind};

/// Returns the lengths of the bundle and of its head, once the head is whole.
///
/// # Errors
/// Returns an error if the bytes begin something else, or a bundle longer than `most`.
pub fn read_head(bytes: &[u8], most: u64) -> Result<Option<(usize, usize)>, Error> {
    let mut reader = Reader::new(bytes);
    match reader.bytes_head() {
        Ok(len) if len <= most => Ok(Some((len as usize, reader.position()))),
        Ok(_) => Err(Reader::new(bytes).malformed("a bundle longer than the limit")),
        Err(Error { kind: Kind::Truncated { .. }, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Appends the head of a bundle of `len` bytes.
pub fn put_head(out: &mut Vec<u8>, len: usize) {
    cbor::put_bytes_head(out, len as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn heads_that_are_cut_wait() {
        assert_eq!(read_head(&[], 10), Ok(None));
        assert_eq!(read_head(&[0x59, 1], 1000), Ok(None));
        assert!(read_head(&[0x59, 1, 0], 255).is_err());
        assert!(read_head(&[0x9f], 255).is_err());
    }

    proptest! {
        #[test]
        fn heads_round_trip(len in 0usize..1_000_000) {
            let mut out = Vec::new();
            put_head(&mut out, len);
            prop_assert_eq!(read_head(&out, 1_000_000), Ok(Some((len, out.len()))));
        }
    }
}
