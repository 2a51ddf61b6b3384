//! Patterns of numbers.

use std::fmt;

/// Maximum length of a pattern and of a number.
pub(crate) const MAX_DIGITS: usize = 32;

/// Pattern of numbers: a set of digits at each place, and perhaps more digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// Bit d is set if the place may be digit d.
    places: Vec<u16>,
    /// Set if at least one more digit follows.
    is_open: bool,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// It has digits, `X` (0 to 9), `Z` (1 to 9), `N` (2 to 9), and `.` at the end for one or more digits.
    ///
    /// # Errors
    /// Returns the expectation that is not met.
    pub fn parse(text: &str) -> Result<Pattern, &'static str> {
        let expected = "1 to 32 of the digits 0 to 9, X (any digit), Z (1 to 9), N (2 to 9), and a dot at the end (one or more digits)";
        let (fixed, is_open) = text.strip_suffix('.').map_or((text, false), |fixed| (fixed, true));
        let places = fixed.chars().map(|place| match place {
            '0'..='9' => Some(1 << (place as u32 - '0' as u32)),
            'X' => Some(0x3ff),
            'Z' => Some(0x3fe),
            'N' => Some(0x3fc),
            _ => None,
        });
        let places: Vec<u16> = places.collect::<Option<_>>().ok_or(expected)?;
        let is_possible = places.len() <= MAX_DIGITS && (is_open || !places.is_empty());
        if is_possible { Ok(Pattern { places, is_open }) } else { Err(expected) }
    }

    /// Returns `true` if the pattern has a number.
    pub fn matches(&self, number: &str) -> bool {
        Pattern::parse(number).is_ok_and(|own| own.is_number() && self.intersection(&own).is_some())
    }

    /// Returns `true` if it stands for one number.
    fn is_number(&self) -> bool {
        !self.is_open && self.places.iter().all(|place| place.count_ones() == 1)
    }

    /// Returns the pattern of the numbers that both have, if there are any.
    pub fn intersection(&self, other: &Pattern) -> Option<Pattern> {
        let (short, long) =
            if self.places.len() <= other.places.len() { (self, other) } else { (other, self) };
        let has_room = short.places.len() == long.places.len() || short.is_open;
        // An open pattern has one digit more at least: with equal places it never meets a closed one.
        let is_apart = short.places.len() == long.places.len() && short.is_open != long.is_open;
        if !has_room || is_apart {
            return None;
        }
        let mut places = long.places.clone();
        for (place, own) in places.iter_mut().zip(&short.places) {
            *place &= own;
        }
        places.iter().all(|place| *place != 0).then_some(Pattern { places, is_open: long.is_open })
    }

    /// Returns the number of places before a dot.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Returns the pattern of the numbers without `strip` digits and after `prepend`.
    pub fn translated(&self, strip: usize, prepend: &Pattern) -> Pattern {
        let kept = self.places.iter().skip(strip);
        Pattern { places: prepend.places.iter().chain(kept).copied().collect(), is_open: self.is_open }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in &self.places {
            match place {
                0x3ff => f.write_str("X")?,
                0x3fe => f.write_str("Z")?,
                0x3fc => f.write_str("N")?,
                _ if place.count_ones() == 1 => write!(f, "{}", place.trailing_zeros())?,
                _ => f.write_str("?")?,
            }
        }
        f.write_str(if self.is_open { "." } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn patterns_have_their_numbers() {
        for (text, yes, no) in [
            ("2XX", ["200", "299"], ["300", "20"]),
            ("NXX", ["200", "999"], ["100", "2000"]),
            ("Z.", ["10", "9123"], ["1", "01"]),
            ("00.", ["001", "0049123"], ["00", "01"]),
        ] {
            assert!(yes.iter().all(|number| pattern(text).matches(number)), "{text}");
            assert!(!no.iter().any(|number| pattern(text).matches(number)), "{text}");
            assert_eq!(pattern(text).to_string(), text);
        }
        let longest = "1".repeat(32);
        assert!(pattern(&longest).matches(&longest));
        for wrong in ["", "2x", "2.X", "+49", "1".repeat(33).as_str(), "2 0"] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!pattern("2XX").matches("2XX") && pattern(".").matches("7"));
    }

    /// Two patterns overlap if a number has both: all numbers of up to four digits are tried.
    #[test]
    fn overlaps_are_those_of_all_numbers() {
        let texts = ["2XX", "20X", "2.", "2X", "NXX", "1XX", ".", "X.", "XX", "2XXX", "200.", "Z0Z"];
        for one in texts.map(pattern) {
            for two in texts.map(pattern) {
                let common = (1..=4_u32).flat_map(|len| (0..10_u32.pow(len)).map(move |n| (len, n)));
                let has = common.map(|(len, n)| format!("{n:0len$}", len = len as usize));
                let both: Vec<String> =
                    has.filter(|number| one.matches(number) && two.matches(number)).collect();
                let meet = one.intersection(&two);
                assert_eq!(meet.is_some(), !both.is_empty(), "{one} and {two}");
                if let Some(meet) = meet {
                    assert!(both.iter().all(|number| meet.matches(number)), "{one} and {two}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_translated() {
        let outside = pattern("93XX");
        assert_eq!(outside.translated(1, &pattern("0")).to_string(), "03XX");
        assert_eq!(pattern("93.").translated(2, &pattern("12")).to_string(), "12.");
    }
}
