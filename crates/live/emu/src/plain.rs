//! Texts of other programs and machines for terminals and logs, without characters that control them.
//!
//! A text from outside may hold escape sequences, which a terminal obeys, line ends, which forge a line of the log, and marks of direction, which show letters in another order. Each becomes U+FFFD,
//! and so does a character that is not seen. Names with one are refused by the same list.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::io::{self, Write};

/// Character in the place of one that controls a terminal.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Sequences that tables are coloured with. They change nothing but colours.
const COLOURS: [&str; 3] = ["\u{1b}[32m", "\u{1b}[1;31m", "\u{1b}[0m"];

/// Characters that are not seen, or turn the order of others, in their order.
///
/// They are those of Unicode 16 with the property `Default_Ignorable_Code_Point` or `Bidi_Control` or of the categories Cf, Zl and Zp, and
/// the blank Braille pattern. Cc is [`char::is_control`].
const UNSEEN: [(char, char); 26] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Returns `true` if a character is not seen, or changes how others are.
///
/// A name or line with it may look like another.
pub fn is_unseen(c: char) -> bool {
    let place = |(first, last): &(char, char)| match () {
        () if *last < c => Ordering::Less,
        () if *first > c => Ordering::Greater,
        () => Ordering::Equal,
    };
    c.is_control() || c > '\u{ac}' && UNSEEN.binary_search_by(place).is_ok()
}

/// Returns a text as one line.
pub fn line(text: &str) -> Cow<'_, str> {
    match text.chars().any(is_unseen) {
        true => text.chars().map(|c| if is_unseen(c) { REPLACEMENT } else { c }).collect::<String>().into(),
        false => text.into(),
    }
}

/// Returns a text that keeps its line ends, tabs and the colours of tables.
pub fn text(text: &str) -> Cow<'_, str> {
    let is_kept = |c: char| matches!(c, '\n' | '\t');
    if !text.chars().any(|c| is_unseen(c) && !is_kept(c)) {
        return text.into();
    }
    let (mut clean, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(|c| is_unseen(c) && !is_kept(c)) {
        let (before, found) = rest.split_at(at);
        clean.push_str(before);
        let whole = COLOURS.into_iter().chain(["\r\n"]).find(|whole| found.starts_with(whole));
        let len = whole.map_or_else(|| found.chars().next().map_or(1, char::len_utf8), str::len);
        clean.push_str(whole.unwrap_or("\u{fffd}"));
        rest = &found[len..];
    }
    clean.push_str(rest);
    clean.into()
}

/// Writer to a terminal: of what is written it passes the text on.
#[derive(Debug)]
pub struct Terminal<W: Write> {
    inner: W,
    /// Beginning of a character whose rest is not written yet.
    begun: Vec<u8>,
}

impl<W: Write> Terminal<W> {
    /// Creates a writer to a terminal.
    pub fn new(inner: W) -> Terminal<W> {
        Terminal { inner, begun: Vec::new() }
    }
}

impl<W: Write> Write for Terminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.begun.len(),
        };
        let rest = self.begun.split_off(whole);
        let taken = std::mem::replace(&mut self.begun, rest);
        self.inner.write_all(text(&String::from_utf8_lossy(&taken)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_from_outside_control_no_terminal_and_begin_no_line() {
        let hostile = "unknown field `\u{1b}]0;x\u{7}\u{9b}2J\nnote: connected\u{202e}`\r";
        assert_eq!(
            line(hostile),
            "unknown field `\u{fffd}]0;x\u{fffd}\u{fffd}2J\u{fffd}note: connected\u{fffd}`\u{fffd}"
        );
        assert_eq!(
            text("a\u{1b}[2J\u{1b}[32mmet\u{1b}[0m\n\tb\r\nc\rd"),
            "a\u{fffd}[2J\u{1b}[32mmet\u{1b}[0m\n\tb\r\nc\u{fffd}d"
        );
        assert_eq!(text("\u{1b}"), "\u{fffd}");
        for plain in ["", "bentpipe: 5 µs — Grüße 你好", "e\u{301}"] {
            assert!(matches!(line(plain), Cow::Borrowed(same) if same == plain), "{plain}");
            assert!(matches!(text(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }

    #[test]
    fn unseen_characters_are_those_of_unicode() {
        let unseen: Vec<char> = ('\0'..=char::MAX).filter(|c| is_unseen(*c)).collect();
        for c in "\u{9b}\u{ad}\u{34f}\u{61c}\u{115f}\u{17b5}\u{200b}\u{200d}\u{202e}\u{2066}\u{2800}\u{3164}"
            .chars()
        {
            assert!(unseen.contains(&c), "U+{:04X}", u32::from(c));
        }
        for c in "\u{fe0f}\u{feff}\u{ffa0}\u{fffa}\u{110cd}\u{1343f}\u{1d173}\u{e0041}\u{e01ef}".chars() {
            assert!(unseen.contains(&c), "U+{:04X}", u32::from(c));
        }
        for c in
            "\u{a0}\u{301}\u{903}\u{2003}\u{2027}\u{202f}\u{205f}\u{fffc}\u{fffd}\u{1160b}\u{e1000}".chars()
        {
            assert!(!unseen.contains(&c), "U+{:04X}", u32::from(c));
        }
        assert!(UNSEEN.windows(2).all(|two| two[0].1 < two[1].0) && UNSEEN.iter().all(|(a, b)| a <= b));
    }

    #[test]
    fn a_terminal_gets_characters_that_are_written_in_parts() {
        let mut terminal = Terminal::new(Vec::new());
        for byte in "aµ\u{202e}\u{85}\n".bytes().chain([0xff, b'b', 0xc2]) {
            terminal.write_all(&[byte]).expect("written");
        }
        terminal.flush().expect("flushed");
        assert_eq!(String::from_utf8(terminal.inner).expect("a text"), "aµ\u{fffd}\u{fffd}\n\u{fffd}b");
    }
}
