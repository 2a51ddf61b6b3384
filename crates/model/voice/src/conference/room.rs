//! Room of a conference whose members come and go.

use std::collections::BTreeMap;

use bentpipe_units::Time;

use super::config::Role;
use super::mixer::{Counts, Decoder, Sounding, sorted};
use crate::call::Spoken;
use crate::call::exchange::{Frame, Mix};

/// Room of a conference: decoders of its members, and a mix for each.
#[derive(Debug)]
pub struct Room {
    role: Role,
    members: BTreeMap<u32, Decoder>,
    counts: Counts,
}

/// Counts of a room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoomCounts {
    /// Mixes, one for each member and packet.
    pub mixes: u64,
    /// Frames concealed as none was there.
    pub concealed: u64,
    /// Frames of speech left out, as others were louder.
    pub left_out: u64,
}

impl Room {
    /// Creates an empty room.
    pub fn new(role: Role) -> Room {
        Room { role, members: BTreeMap::new(), counts: Counts::default() }
    }

    /// Adds a member.
    pub fn join(&mut self, member: u32) {
        self.members.insert(member, Decoder::default());
    }

    /// Removes a member.
    pub fn leave(&mut self, member: u32) {
        self.members.remove(&member);
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns `true` if it has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Adds a frame of a member.
    pub fn push(&mut self, member: u32, frame: Frame) {
        if let Some(decoder) = self.members.get_mut(&member) {
            decoder.push(frame);
        }
    }

    /// Ends a member's spurt: comfort noise came, which is played at `due`.
    pub fn pause(&mut self, member: u32, due: Time) {
        if let Some(decoder) = self.members.get_mut(&member) {
            decoder.pause(due);
        }
    }

    /// Returns the mix of each member at an instant, as speech for its encoder.
    pub fn mixes(&mut self, now: Time) -> Vec<(Mix, Spoken)> {
        let sounding = self.sounding(now);
        let mut mixes = Vec::with_capacity(self.members.len());
        for member in self.members.keys().copied() {
            let others: Vec<&Sounding> = sounding.iter().filter(|of| of.member != member).collect();
            let (sources, left_out) = others.split_at(others.len().min(self.role.mixing.most()));
            self.counts.left_out += left_out.iter().filter(|of| of.speaks()).count() as u64;
            self.counts.mixes += 1;
            let mix = self.role.mix_of(member, sources);
            let loudest = sources.first();
            let spoken = Spoken {
                sound: mix.sound,
                // The noise of a room that is silent takes as long as its speech.
                mouth: loudest.map_or(now, |of| of.frame.mouth),
                level: loudest.map_or(127, |of| of.frame.level),
            };
            mixes.push((mix, spoken));
        }
        mixes
    }

    /// Returns the counts.
    pub fn counts(&self) -> RoomCounts {
        let Counts { mixes, concealed, left_out, .. } = self.counts;
        RoomCounts { mixes, concealed, left_out }
    }

    fn sounding(&mut self, now: Time) -> Vec<Sounding> {
        let counts = &mut self.counts;
        let sounding = self.members.iter_mut().filter_map(|(member, decoder)| {
            let (frame, is_concealed) = decoder.at(now, counts)?;
            Some(Sounding { leg: 0, member: *member, frame, is_concealed })
        });
        sorted(sounding.collect())
    }
}
