//! Text of DVB service information (ETSI EN 300 468, annex A).
//!
//! The first byte selects a character table; without one it is Latin (ISO/IEC 6937 with the euro sign). Control codes are left out
//! or become spaces, and what a table does not have becomes U+FFFD: any bytes are text.

use encoding_rs::{BIG5, EUC_KR, Encoding, GBK, ISO_8859_2, ISO_8859_4, ISO_8859_5, ISO_8859_6, ISO_8859_7};
use encoding_rs::{ISO_8859_3, ISO_8859_8, ISO_8859_10, ISO_8859_13, ISO_8859_14, ISO_8859_15};
use encoding_rs::{UTF_16BE, WINDOWS_874, WINDOWS_1252, WINDOWS_1254};

/// Value that stands for what cannot be read.
const UNKNOWN: char = '\u{fffd}';
/// Control code of a new line.
const NEW_LINE: u8 = 0x8a;

/// Decodes a text field. Never fails.
pub fn decode(bytes: &[u8]) -> String {
    let text = match bytes {
        [] => String::new(),
        [first, ..] if *first >= 0x20 => latin(bytes),
        [table @ 0x01..=0x0b, rest @ ..] => by(part_of_8859(u16::from(*table) + 4), rest),
        [0x10, high, low, rest @ ..] => by(part_of_8859(u16::from_be_bytes([*high, *low])), rest),
        [0x11, rest @ ..] => by(Some(UTF_16BE), rest),
        [0x12, rest @ ..] => by(Some(EUC_KR), rest),
        [0x13, rest @ ..] => by(Some(GBK), rest),
        [0x14, rest @ ..] => by(Some(BIG5), rest),
        [0x15, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        [_, rest @ ..] => by(None, rest),
    };
    text.chars().filter_map(printable).collect()
}

/// Returns a printable character. A new line becomes a space; other controls are left out.
fn printable(character: char) -> Option<char> {
    match character {
        '\u{8a}' | '\u{e08a}' | '\n' | '\t' => Some(' '),
        '\u{e080}'..='\u{e09f}' => None,
        // Marks of direction could reverse what a terminal shows.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => None,
        control if control.is_control() => None,
        other => Some(other),
    }
}

/// Returns part `part` of ISO/IEC 8859, or a table that contains it.
fn part_of_8859(part: u16) -> Option<&'static Encoding> {
    let tables = [
        (1, WINDOWS_1252),
        (2, ISO_8859_2),
        (3, ISO_8859_3),
        (4, ISO_8859_4),
        (5, ISO_8859_5),
        (6, ISO_8859_6),
        (7, ISO_8859_7),
        (8, ISO_8859_8),
        (9, WINDOWS_1254),
        (10, ISO_8859_10),
        (11, WINDOWS_874),
        (13, ISO_8859_13),
        (14, ISO_8859_14),
        (15, ISO_8859_15),
    ];
    tables.iter().find_map(|(number, table)| (*number == part).then_some(*table))
}

/// Decodes by a table. Without a known one only ASCII is readable.
fn by(table: Option<&'static Encoding>, bytes: &[u8]) -> String {
    match table {
        Some(table) if [UTF_16BE, EUC_KR, GBK, BIG5].contains(&table) => {
            table.decode_without_bom_handling(bytes).0.into_owned()
        }
        // C1 codes are DVB's controls, where Windows' tables have letters.
        Some(table) => {
            let plain = bytes.iter().filter(|byte| !(0x80..0xa0).contains(*byte) || **byte == NEW_LINE);
            let spaced: Vec<u8> = plain.map(|byte| if *byte == NEW_LINE { b' ' } else { *byte }).collect();
            table.decode_without_bom_handling(&spaced).0.into_owned()
        }
        None => bytes.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { UNKNOWN }).collect(),
    }
}

/// Decodes the default table: ISO/IEC 6937, whose diacritics precede their letter.
fn latin(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match (byte, behind.first()) {
            (0xc1..=0xcf, Some(letter)) if letter.is_ascii_alphabetic() => {
                rest = &behind[1..];
                push_accented(&mut text, byte, char::from(*letter));
            }
            _ => text.push(symbol(byte)),
        }
    }
    text
}

/// Marks of rows 0xc1 to 0xcf. Each has its combining character, base letters, and letters with the mark.
const ACCENTS: [(char, &str, &str); 15] = [
    ('\u{300}', "AEIOUaeiou", "ÀÈÌÒÙàèìòù"),
    ('\u{301}', "ACEILNORSUYZaceilnorsuyz", "ÁĆÉÍĹŃÓŔŚÚÝŹáćéíĺńóŕśúýź"),
    ('\u{302}', "ACEGHIJOSUWYaceghijosuwy", "ÂĈÊĜĤÎĴÔŜÛŴŶâĉêĝĥîĵôŝûŵŷ"),
    ('\u{303}', "AINOUainou", "ÃĨÑÕŨãĩñõũ"),
    ('\u{304}', "AEIOUaeiou", "ĀĒĪŌŪāēīōū"),
    ('\u{306}', "AGUagu", "ĂĞŬăğŭ"),
    ('\u{307}', "CEGIZcegz", "ĊĖĠİŻċėġż"),
    ('\u{308}', "AEIOUYaeiouy", "ÄËÏÖÜŸäëïöüÿ"),
    ('\u{308}', "", ""),
    ('\u{30a}', "AUau", "ÅŮåů"),
    ('\u{327}', "CGKLNRSTcklnrst", "ÇĢĶĻŅŖŞŢçķļņŗşţ"),
    ('\u{332}', "", ""),
    ('\u{30b}', "OUou", "ŐŰőű"),
    ('\u{328}', "AEIUaeiu", "ĄĘĮŲąęįų"),
    ('\u{30c}', "CDELNRSTZcdelnrstz", "ČĎĚĽŇŘŠŤŽčďěľňřšťž"),
];

fn push_accented(text: &mut String, row: u8, letter: char) {
    let (mark, letters, whole) = ACCENTS[usize::from(row - 0xc1)];
    match letters.chars().position(|base| base == letter).and_then(|at| whole.chars().nth(at)) {
        Some(accented) => text.push(accented),
        None => text.extend([letter, mark]),
    }
}

/// Returns a character of the default table that stands alone.
fn symbol(byte: u8) -> char {
    const FROM_A0: [char; 32] = [
        '\u{a0}', '¡', '¢', '£', '€', '¥', UNKNOWN, '§', '¤', '‘', '“', '«', '←', '↑', '→', '↓', '°', '±',
        '²', '³', '×', 'µ', '¶', '·', '÷', '’', '”', '»', '¼', '½', '¾', '¿',
    ];
    const FROM_D0: [char; 48] = [
        '―', '¹', '®', '©', '™', '♪', '¬', '¦', UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, '⅛', '⅜', '⅝', '⅞', 'Ω',
        'Æ', 'Đ', 'ª', 'Ħ', UNKNOWN, 'Ĳ', 'Ŀ', 'Ł', 'Ø', 'Œ', 'º', 'Þ', 'Ŧ', 'Ŋ', 'ŉ', 'ĸ', 'æ', 'đ', 'ð',
        'ħ', 'ı', 'ĳ', 'ŀ', 'ł', 'ø', 'œ', 'ß', 'þ', 'ŧ', 'ŋ', '\u{ad}',
    ];
    match byte {
        0..0xa0 => char::from(byte),
        0xa0..0xc0 => FROM_A0[usize::from(byte - 0xa0)],
        0xc0..0xd0 => UNKNOWN,
        0xd0.. => FROM_D0[usize::from(byte - 0xd0)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_its_letters() {
        for (bytes, text) in [
            (&b"Service01"[..], "Service01"),
            (b"Caf\xc2e \xa4 \xe9", "Café € Ø"),
            (b"F\xc8ur \xcfSkoda \xfb", "Für Škoda ß"),
            (b"\x01\xbf\xd5\xe0\xd2\xeb\xd9", "Первый"),
            (b"\x03\xc5\xd1\xd4", "ΕΡΤ"),
            (b"\x05T\xfcrk\xe7e \xdeey", "Türkçe Şey"),
            (b"\x0b\xa4", "€"),
            (b"\x10\x00\x02\xa3\xf3d\xbc", "Łódź"),
            (b"\x11\x00K\x00B\xd5\x5c\xad\x6d", "KB한국"),
            (b"\x12\xc7\xd1\xb1\xb9", "한국"),
            (b"\x13\xd6\xd0\xb9\xfa", "中国"),
            (b"\x14\xa5x\xc6W", "台灣"),
            (b"\x15z\xc3\xbcri", "züri"),
            (b"", ""),
        ] {
            assert_eq!(decode(bytes), text, "{bytes:02x?}");
        }
    }

    #[test]
    fn any_bytes_are_text_without_controls() {
        assert_eq!(decode(b"a\x86b\x87\x8ac\x1b[31m"), "ab c[31m");
        assert_eq!(decode(b"\x15a\xee\x82\x86b\xff\xe2\x80\xaec"), "ab\u{fffd}c");
        assert_eq!(decode(b"\x1f\x01abc\xff"), "abc\u{fffd}");
        for first in 0..=255_u8 {
            let bytes: Vec<u8> = std::iter::once(first).chain(0..=255).collect();
            assert!(decode(&bytes).chars().all(|character| !character.is_control()), "{first}");
            decode(&[first]);
            decode(&[first, 0xc2]);
        }
    }
}
