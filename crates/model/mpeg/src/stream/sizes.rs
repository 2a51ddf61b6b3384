//! Sizes of pictures from a file.
//!
//! It is a table, a transport stream, or an elementary stream of MPEG-1 or MPEG-2 video.

use bentpipe_wire::pes;
use bentpipe_wire::ts::{self, Packet};

use super::transport::TransportStream;

/// Maximum number of pictures.
const MAX_PICTURES: usize = 1 << 20;
/// Maximum size of a picture in bytes.
const MAX_SIZE: u32 = 1 << 22;

/// Type of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Coded by itself.
    I,
    /// Predicted from an earlier one.
    P,
    /// Predicted from both sides.
    B,
}

/// Pictures in coding order: type and size in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pictures: Vec<(Kind, u32)>,
    has_b: bool,
}

impl Sizes {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns the reason if it has no pictures, or a line of a table is wrong.
    pub(super) fn read(bytes: &[u8]) -> Result<Sizes, String> {
        let pictures = match bytes {
            [0, 0, 1, ..] => elementary(bytes)?,
            _ if ts::find_sync(bytes).is_some() => elementary(&video(bytes)?)?,
            _ => table(bytes)?,
        };
        match pictures.len() {
            0 => Err("no pictures: expected lines such as \"I,24000\", or MPEG-2 video".to_owned()),
            1..=MAX_PICTURES => {
                Ok(Sizes { has_b: pictures.iter().any(|(kind, _)| *kind == Kind::B), pictures })
            }
            _ => Err(format!("more than {MAX_PICTURES} pictures")),
        }
    }

    /// Returns the pictures.
    pub(super) fn pictures(&self) -> &[(Kind, u32)] {
        &self.pictures
    }

    /// Returns the number of B pictures behind a picture that are shown before it. The pictures are repeated.
    pub(super) fn shown_before(&self, nth: usize) -> u64 {
        let kind = |nth: usize| self.pictures[nth % self.pictures.len()].0;
        if kind(nth) == Kind::B || !self.has_b {
            return 0;
        }
        (1..self.pictures.len()).take_while(|ahead| kind(nth + ahead) == Kind::B).count() as u64
    }
}

/// Reads a table of types and sizes.
fn table(bytes: &[u8]) -> Result<Vec<(Kind, u32)>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "neither text nor MPEG-2 video".to_owned())?;
    let mut pictures = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || number == 1 && line.eq_ignore_ascii_case("type,bytes")
        {
            continue;
        }
        let wrong = || {
            format!("line {number}: expected a type and bytes, such as \"I,24000\", got \"{}\"", short(line))
        };
        let (kind, size) = line.split_once(',').ok_or_else(wrong)?;
        let kind = match kind.trim() {
            "I" | "i" => Kind::I,
            "P" | "p" => Kind::P,
            "B" | "b" => Kind::B,
            _ => return Err(wrong()),
        };
        let size = size.trim().parse().ok().filter(|size| (1..=MAX_SIZE).contains(size)).ok_or_else(wrong)?;
        pictures.push((kind, size));
        if pictures.len() > MAX_PICTURES {
            break;
        }
    }
    Ok(pictures)
}

/// Returns the start of a line.
fn short(line: &str) -> String {
    line.chars().take(40).collect()
}

/// Returns the video of the first programme of a transport stream.
fn video(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let stream = TransportStream::read(bytes).map_err(|error| error.to_string())?;
    let pid = stream.video_pid().ok_or("no MPEG-2 video in the first programme")?;
    let mut video = Vec::new();
    for bytes in &stream.packets {
        let Ok(packet) = Packet::new_checked(bytes) else { continue };
        let Ok(payload) = packet.payload() else { continue };
        if packet.pid() != pid {
            continue;
        }
        let start = if packet.unit_start() {
            pes::Repr::parse(payload).map_or(0, |repr| repr.buffer_len())
        } else {
            0
        };
        video.extend_from_slice(payload.get(start..).unwrap_or_default());
    }
    Ok(video)
}

/// Returns the pictures of an elementary stream. A picture begins with the headers in front of it; the last one is left out unless it
/// is the only one, as it may not be whole.
fn elementary(bytes: &[u8]) -> Result<Vec<(Kind, u32)>, String> {
    let mut pictures: Vec<(Kind, u32)> = Vec::new();
    // Start of the current picture, of the headers in front of the next one, and its type.
    let (mut start, mut headers, mut current) = (0, None, None);
    let mut at = 0;
    while let Some(place) = bytes[at..].windows(4).position(|code| code[..3] == [0, 0, 1]) {
        let code_at = at + place;
        match bytes[code_at + 3] {
            0xb3 | 0xb8 => {
                headers.get_or_insert(code_at);
            }
            0 => {
                let begins = headers.take().unwrap_or(code_at);
                if let Some(kind) = current.take() {
                    pictures
                        .push((kind, u32::try_from(begins - start).unwrap_or(MAX_SIZE).clamp(1, MAX_SIZE)));
                }
                (start, current) = (begins, kind_of(bytes.get(code_at + 5)));
                if pictures.len() > MAX_PICTURES {
                    break;
                }
            }
            _ => {}
        }
        at = code_at + 3;
    }
    if let (true, Some(kind)) = (pictures.is_empty(), current) {
        pictures.push((kind, u32::try_from(bytes.len() - start).unwrap_or(MAX_SIZE).clamp(1, MAX_SIZE)));
    }
    Ok(pictures)
}

/// Returns the type in a picture's header.
fn kind_of(byte: Option<&u8>) -> Option<Kind> {
    match byte? >> 3 & 7 {
        1 => Some(Kind::I),
        2 => Some(Kind::P),
        3 => Some(Kind::B),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_types_and_bytes() {
        let sizes = Sizes::read(b"type,bytes\n# a group\nI,24000\nB, 900\nb,800\n\nP,7000\n").expect("sizes");
        assert_eq!(sizes.pictures(), [(Kind::I, 24_000), (Kind::B, 900), (Kind::B, 800), (Kind::P, 7000)]);
        let before: Vec<u64> = (0..6).map(|nth| sizes.shown_before(nth)).collect();
        assert_eq!(before, [2, 0, 0, 0, 2, 0]);
        for (text, expected) in [
            ("I,24000\nX,1\n", "line 2: expected a type and bytes, such as \"I,24000\", got \"X,1\""),
            ("I,0\n", "line 1: expected"),
            ("I;5\n", "line 1: expected"),
            ("", "no pictures"),
            ("\u{fffd}", "line 1"),
        ] {
            let said = Sizes::read(text.as_bytes()).expect_err("refused");
            assert!(said.starts_with(expected), "{said}");
        }
        assert!(Sizes::read(&[0xff, 0xfe, 0]).is_err());
    }

    #[test]
    fn pictures_of_a_stream_are_measured_from_header_to_header() {
        let picture = |kind: u8, len: usize| {
            let mut bytes = vec![0, 0, 1, 0, 0, kind << 3, 0xff, 0xf8];
            bytes.resize(len, 0x55);
            bytes
        };
        let sequence = [0, 0, 1, 0xb3, 1, 2, 3, 4];
        let stream = [
            &sequence[..],
            &picture(1, 1000),
            &picture(3, 100),
            &picture(2, 300),
            &sequence,
            &picture(1, 50),
        ]
        .concat();
        let sizes = Sizes::read(&stream).expect("sizes");
        assert_eq!(sizes.pictures(), [(Kind::I, 1008), (Kind::B, 100), (Kind::P, 300)]);
        assert_eq!(Sizes::read(&picture(1, 77)).map(|sizes| sizes.pictures), Ok(vec![(Kind::I, 77)]));
        assert!(Sizes::read(&[0, 0, 1, 0xb3]).is_err());
    }
}
