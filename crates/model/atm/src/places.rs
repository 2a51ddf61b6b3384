//! Places of a line's channels.

use super::cell::Vc;

/// Index of each channel among those of a line, by its VCI.
///
/// It is as long as the highest VCI, not as all that there could be: with thousands of hosts most of these tables would be
/// empty, and between the ones that are used nothing would stay in the processor's caches.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<Option<u16>>);

impl Places {
    /// Adds a channel.
    ///
    /// # Panics
    /// If the line has a channel of this number already.
    pub(crate) fn add(&mut self, vc: Vc, place: usize) {
        let index = vc.index();
        if self.0.len() <= index {
            self.0.resize(index + 1, None);
        }
        let taken = self.0[index].replace(place as u16);
        assert!(taken.is_none(), "two channels with VCI {}", vc.vci());
    }

    /// Returns the index of a channel, if the line has it.
    pub(crate) fn of(&self, vc: Vc) -> Option<u16> {
        self.0.get(vc.index()).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_have_the_places_that_they_were_given() {
        let [low, high, other] = [32, 4095, 40].map(|vci| Vc::new(vci).expect("a VCI"));
        let mut places = Places::default();
        assert_eq!([low, high].map(|vc| places.of(vc)), [None, None]);
        places.add(high, 1);
        places.add(low, 0);
        assert_eq!([low, high, other].map(|vc| places.of(vc)), [Some(0), Some(1), None]);
    }
}
