//! Impairments that the talkers' legs to a bridge add to a member's own.

use super::exchange::Sound;
use crate::emodel::Impairment;
use crate::losses::{Losses, Outcome};

/// Sums over the mixes that were played.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reception {
    /// Frames of the loudest sources in the order of playout: concealed ones count as lost.
    losses: Losses,
    mixes: u64,
    rooms: u64,
    ie: f64,
    bpl: f64,
    rated: u64,
}

impl Reception {
    /// Counts a mix.
    pub(super) fn push(&mut self, sound: &Sound) {
        self.mixes += 1;
        self.rooms += u64::from(sound.rooms);
        let Some(source) = sound.speech else { return };
        self.losses.push(if source.is_concealed { Outcome::Lost } else { Outcome::Played });
        if let Some(Impairment { ie, bpl }) = source.impairment {
            (self.ie, self.bpl, self.rated) = (self.ie + ie, self.bpl + bpl, self.rated + 1);
        }
    }

    /// Returns the effective equipment impairment of the talkers' legs. `None`: no frame had speech, or a codec is not rated.
    pub(super) fn equipment(&self) -> Option<f64> {
        let spoken = self.losses.expected();
        if spoken == 0 || self.rated < spoken {
            return None;
        }
        let rated = self.rated as f64;
        let mean = Impairment { ie: self.ie / rated, bpl: self.bpl / rated };
        Some(mean.effective(100.0 * self.losses.ratio(), self.losses.burst_ratio().max(1e-3)))
    }

    /// Returns the share of the talkers' frames that were lost or late before the bridge.
    pub(super) fn loss(&self) -> f64 {
        self.losses.ratio()
    }

    /// Returns the mean number of rooms in a mix; NaN before the first.
    pub(super) fn rooms(&self) -> f64 {
        self.rooms as f64 / self.mixes as f64
    }
}
