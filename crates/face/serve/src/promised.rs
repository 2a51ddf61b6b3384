//! Room on the disk that is promised to archives which are being unpacked.

use std::sync::{Arc, Mutex, PoisonError};

/// Sum of all promises, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Promised(Mutex<u64>);

/// Room that is promised until it is dropped.
#[derive(Debug)]
pub(crate) struct Promise {
    all: Arc<Promised>,
    bytes: u64,
}

impl Promised {
    /// Promises a part of what is left, or returns what is not promised.
    ///
    /// What others have written of theirs counts twice for a moment: that refuses a little too early.
    pub(crate) fn take(self: &Arc<Self>, left: u64, bytes: u64) -> Result<Promise, u64> {
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = left.saturating_sub(*sum);
        if bytes > left {
            return Err(left);
        }
        *sum += bytes;
        Ok(Promise { all: Arc::clone(self), bytes })
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        *self.all.0.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_promised_once_and_until_it_is_used() {
        let all = Arc::<Promised>::default();
        let first = all.take(100, 60).expect("room");
        assert_eq!(all.take(100, 41).err(), Some(40));
        let second = all.take(100, 40).expect("room");
        assert_eq!(all.take(100, 1).err(), Some(0));
        drop((first, second));
        assert!(all.take(100, 100).is_ok());
    }
}
