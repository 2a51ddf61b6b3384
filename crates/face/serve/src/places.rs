//! Places that are counted by user: requests, streams and archives at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Places of one kind.
#[derive(Debug)]
pub(crate) struct Places {
    of_user: usize,
    of_all: usize,
    taken: Mutex<HashMap<i64, usize>>,
}

/// Place that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    user: i64,
}

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The user has as many as a user may have.
    OfUser(usize),
    /// The users together have as many as there are.
    OfAll,
}

impl Places {
    pub(crate) fn new(of_user: usize, of_all: usize) -> Arc<Places> {
        Arc::new(Places { of_user, of_all, taken: Mutex::default() })
    }

    /// Reserves a place for a user.
    pub(crate) fn take(self: &Arc<Self>, user: i64) -> Result<Place, Full> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.get(&user).is_some_and(|own| *own >= self.of_user) {
            return Err(Full::OfUser(self.of_user));
        }
        if taken.values().sum::<usize>() >= self.of_all {
            return Err(Full::OfAll);
        }
        *taken.entry(user).or_default() += 1;
        Ok(Place { places: Arc::clone(self), user })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_takes_only_the_own_places() {
        let places = Places::new(2, 3);
        let own = [places.take(1), places.take(1)];
        assert!(own.iter().all(Result::is_ok));
        assert_eq!(places.take(1).err(), Some(Full::OfUser(2)));
        let other = places.take(2);
        assert_eq!(places.take(3).err(), Some(Full::OfAll));
        drop((own, other));
        assert!(places.take(3).is_ok() && places.taken.lock().expect("not poisoned").is_empty());
    }
}
