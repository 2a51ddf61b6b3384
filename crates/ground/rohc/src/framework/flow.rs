//! Keys of flows: the static fields of their headers in comparable form, and their hash.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::framework::packet::Packet;
use crate::framework::profile::Profile;

/// Words of a flow's key that are kept without an allocation. IPv6 and a transport fit, or a tunnel of IPv4.
const INLINE_KEY: usize = 8;

/// Key of a flow: its static fields in comparable form, and their hash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Key {
    words: [u64; INLINE_KEY],
    len: u8,
    hash: u64,
    spill: Vec<u64>,
}

impl Key {
    #[inline]
    pub(crate) fn clear(&mut self) {
        (self.len, self.hash) = (0, 0);
        self.spill.clear();
    }

    /// Adds a word. Whole words, not octets: they are hashed as they come, without a way through memory.
    #[inline]
    pub(crate) fn push(&mut self, word: u64) {
        self.hash = mix(self.hash, word);
        match self.words.get_mut(usize::from(self.len)) {
            Some(place) => {
                *place = word;
                self.len += 1;
            }
            None => self.spill.push(word),
        }
    }

    fn words(&self) -> &[u64] {
        &self.words[..usize::from(self.len)]
    }

    #[inline]
    pub(crate) const fn hash(&self) -> u32 {
        (self.hash >> 32) as u32
    }
}

/// The flow that has a context: a [`Key`] as it is kept, without its hash.
#[derive(Debug, Default)]
pub(crate) struct Owner {
    words: [u64; INLINE_KEY],
    /// 0: unused.
    len: u8,
    spill: Box<[u64]>,
}

impl Owner {
    pub(crate) fn of(key: &Key) -> Self {
        Self { words: key.words, len: key.len, spill: key.spill.as_slice().into() }
    }

    pub(crate) const fn is_assigned(&self) -> bool {
        self.len > 0
    }

    #[inline]
    pub(crate) fn is(&self, key: &Key) -> bool {
        let words = self.words.iter().zip(key.words());
        self.len == key.len && words.into_iter().all(|(one, two)| one == two) && *self.spill == *key.spill
    }
}

/// The hash of a [`Key`] of the same words, without the key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hash(u64);

impl Hash {
    #[inline]
    pub(crate) const fn push(self, word: u64) -> Self {
        Self(mix(self.0, word))
    }

    #[inline]
    pub(crate) const fn finish(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[inline]
const fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word ^ 0xf39c_c060_5ced_c835) as u128 * 0x9e37_79b9_7f4a_7c15;
    (product as u64) ^ ((product >> 64) as u64)
}

/// The static fields that make a flow of `profile`, in `key`.
#[inline]
pub(crate) fn set_key(packet: &Packet<'_>, profile: Profile, key: &mut Key) {
    key.clear();
    if profile == Profile::Uncompressed {
        key.push(0);
        return;
    }
    for level in packet.levels() {
        level_words(packet.bytes, level.at, level.version == 6, level.next, |word| key.push(word));
    }
    end_words(packet.bytes, packet.transport_at(), profile, packet.cut, |word| key.push(word));
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|octets| octets.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// Adds the IP header at `at` to the key of a flow.
#[inline]
pub(crate) fn level_words(bytes: &[u8], at: usize, ipv6: bool, next: u8, mut push: impl FnMut(u64)) {
    let long = |at: usize| u64::from(word(bytes, at)) << 32 | u64::from(word(bytes, at + 4));
    if ipv6 {
        let flow_label = u64::from(word(bytes, at) & 0x000f_ffff);
        push(6 << 32 | u64::from(next) << 24 | flow_label);
        for offset in [8, 16, 24, 32] {
            push(long(at + offset));
        }
    } else {
        push(4 << 32 | u64::from(next) << 24);
        push(long(at + 12));
    }
}

/// Adds the header after the last IP header to the key. It gives ports or SPI, and SSRC.
#[inline]
pub(crate) fn end_words(bytes: &[u8], at: usize, profile: Profile, cut: bool, mut push: impl FnMut(u64)) {
    let (transport, source) = match profile.headers() {
        Profile::Rtp | Profile::RtpUdpLite => (word(bytes, at), word(bytes, at + 16)),
        Profile::Ip | Profile::Uncompressed => (u32::from(cut), 0),
        _ => (word(bytes, at), 0),
    };
    push(u64::from(transport) << 32 | u64::from(source));
    push(profile as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_spill_and_still_differ() {
        let (mut one, mut two) = (Key::default(), Key::default());
        for part in 0..40 {
            one.push(part);
            two.push(part);
        }
        assert!(Owner::of(&one).is(&two) && one.hash() == two.hash());
        two.push(1);
        assert!(!Owner::of(&one).is(&two) && !Owner::of(&two).is(&one) && one.hash() != two.hash());
    }
}
