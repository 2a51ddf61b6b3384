//! Pseudo-random sequence added to frames or codeblocks, against long runs of equal symbols.
//!
//! *Against memory*: its first bytes ff 48 0e c0 9a 0d 70 bc, which publications of its users repeat.

/// Period of the sequence in bytes.
const PERIOD: usize = 255;

static SEQUENCE: [u8; PERIOD] = sequence();

/// Returns the sequence. Polynomial x^8 + x^7 + x^5 + x^3 + 1, register of ones at the start.
const fn sequence() -> [u8; PERIOD] {
    let mut out = [0; PERIOD];
    let mut register: u8 = 0xff;
    let mut n = 0;
    while n < PERIOD * 8 {
        out[n / 8] = out[n / 8] << 1 | register & 1;
        let next = (register ^ register >> 3 ^ register >> 5 ^ register >> 7) & 1;
        register = register >> 1 | next << 7;
        n += 1;
    }
    out
}

/// Adds the sequence to a frame or codeblock; a second time removes it.
pub fn apply(bytes: &mut [u8]) {
    bytes.iter_mut().zip(SEQUENCE.iter().cycle()).for_each(|(byte, add)| *byte ^= add);
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_sequence_begins_as_published_and_removes_itself() {
        let mut bytes = [0; 600];
        super::apply(&mut bytes);
        assert_eq!(bytes[..8], [0xff, 0x48, 0x0e, 0xc0, 0x9a, 0x0d, 0x70, 0xbc]);
        assert_eq!(bytes[..255], bytes[255..510]);
        super::apply(&mut bytes);
        assert_eq!(bytes, [0; 600]);
    }
}
