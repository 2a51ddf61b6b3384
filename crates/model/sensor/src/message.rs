//! Messages: between motes in 802.15.4 frames, and between console and gateway in bundles.
//!
//! All integers are big-endian, and numbers of rows are 32-bit floats.

/// Maximum length in bytes of a message between motes.
pub const MAX_MOTE_MESSAGE: usize = 116;
/// Length of the header of results of an epoch.
pub const RESULT_HEADER: usize = 8;
/// Maximum length of a query's part.
pub const MAX_PART: usize = 96;
/// Maximum number of rows in a message.
pub const MAX_ROWS: usize = 200;
/// Maximum number of places of a map.
pub const MAX_PLACES: usize = 2501;
/// Maximum number of values of a row.
pub const MAX_VALUES: usize = 255;

/// Message between motes.
#[derive(Clone, Debug, PartialEq)]
pub enum MoteMessage {
    /// Beacon of the tree.
    Beacon {
        /// Expected transmissions to the base station, in 1/64; `u16::MAX` without a route.
        cost: u16,
        /// Hops to the base station.
        level: u8,
        /// Largest number of hops that the mote knows of.
        deepest: u8,
        /// Parent; `u16::MAX` without one.
        parent: u16,
    },
    /// Part of a query.
    Query {
        /// Number of the query.
        query: u8,
        /// Number of the part.
        part: u8,
        /// Number of parts.
        parts: u8,
        /// Levels of the tree.
        depth: u8,
        /// Instant of the first epoch in nanoseconds.
        start: u64,
        /// Text.
        text: Vec<u8>,
    },
    /// Row of one mote.
    Row {
        /// Number of the query.
        query: u8,
        /// Number of the epoch.
        epoch: u32,
        /// Mote.
        node: u16,
        /// Values.
        values: Vec<f32>,
    },
    /// Partial aggregates.
    Partial {
        /// Number of the query.
        query: u8,
        /// Number of the epoch.
        epoch: u32,
        /// Sender of the piece.
        node: u16,
        /// Groups, as `aggregate::Groups` encodes them.
        groups: Vec<u8>,
    },
}

impl MoteMessage {
    /// Returns the bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            MoteMessage::Beacon { cost, level, deepest, parent } => {
                out.push(0);
                out.extend(cost.to_be_bytes());
                out.extend([*level, *deepest]);
                out.extend(parent.to_be_bytes());
            }
            MoteMessage::Query { query, part, parts, depth, start, text } => {
                out.extend([1, *query, *part, *parts, *depth]);
                out.extend(start.to_be_bytes());
                out.extend(text);
            }
            MoteMessage::Row { query, epoch, node, values } => {
                head(&mut out, (2, *query), *epoch, *node);
                out.extend(values.iter().flat_map(|value| value.to_be_bytes()));
            }
            MoteMessage::Partial { query, epoch, node, groups } => {
                head(&mut out, (3, *query), *epoch, *node);
                out.extend(groups);
            }
        }
        out
    }

    /// Parses a message; `None` if it is malformed.
    pub fn parse(bytes: &[u8]) -> Option<MoteMessage> {
        if bytes.len() > MAX_MOTE_MESSAGE {
            return None;
        }
        Some(match *bytes.first()? {
            0 if bytes.len() == 7 => MoteMessage::Beacon {
                cost: u16(bytes, 1)?,
                level: bytes[3],
                deepest: bytes[4],
                parent: u16(bytes, 5)?,
            },
            1 => MoteMessage::Query {
                query: *bytes.get(1)?,
                part: *bytes.get(2)?,
                parts: *bytes.get(3)?,
                depth: *bytes.get(4)?,
                start: u64::from_be_bytes(bytes.get(5..13)?.try_into().ok()?),
                text: bytes[13..].to_vec(),
            },
            2 => MoteMessage::Row {
                query: *bytes.get(1)?,
                epoch: u32(bytes, 2)?,
                node: u16(bytes, 6)?,
                values: values(bytes.get(RESULT_HEADER..)?)?,
            },
            3 => MoteMessage::Partial {
                query: *bytes.get(1)?,
                epoch: u32(bytes, 2)?,
                node: u16(bytes, 6)?,
                groups: bytes.get(RESULT_HEADER..)?.to_vec(),
            },
            _ => return None,
        })
    }
}

fn head(out: &mut Vec<u8>, (kind, query): (u8, u8), epoch: u32, node: u16) {
    out.extend([kind, query]);
    out.extend(epoch.to_be_bytes());
    out.extend(node.to_be_bytes());
}

fn u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn values(bytes: &[u8]) -> Option<Vec<f32>> {
    let value = |chunk: &[u8]| f32::from_bits(u32(chunk, 0).unwrap_or(0));
    bytes.len().is_multiple_of(4).then(|| bytes.chunks(4).map(value).collect())
}

/// Row of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Number of the epoch.
    pub epoch: u32,
    /// Mote; 0 of an aggregate.
    pub node: u16,
    /// Values in the order of the selection.
    pub values: Vec<f32>,
}

/// Mote on a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Metres to the right.
    pub x: f32,
    /// Metres upwards.
    pub y: f32,
    /// Parent; `u16::MAX` without one.
    pub parent: u16,
}

/// Message between console and gateway, the payload of a bundle.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Query of the console.
    Query {
        /// Number of the console's choice.
        number: u8,
        /// Set if motes send all samples, and the gateway runs the query.
        ships_everything: bool,
        /// Text.
        text: String,
    },
    /// Rows of results.
    Rows {
        /// Number of the query.
        number: u8,
        /// Instant of the first epoch in nanoseconds.
        start: u64,
        /// Rows, all with the same number of values.
        rows: Vec<Row>,
    },
    /// Map of base station and motes, for the relay next to the gateway.
    Map(Vec<Place>),
    /// Error of a query, with place and reason.
    Refused {
        /// Number of the query.
        number: u8,
        /// Description.
        problem: String,
    },
}

impl Message {
    /// Returns the bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Message::Query { number, ships_everything, text } => {
                out.extend([1, *number, u8::from(*ships_everything)]);
                out.extend(text.as_bytes());
            }
            Message::Rows { number, start, rows } => {
                let width = rows.first().map_or(0, |row| row.values.len()).min(MAX_VALUES);
                out.extend([2, *number, width as u8]);
                out.extend(start.to_be_bytes());
                for row in rows {
                    out.extend(row.epoch.to_be_bytes());
                    out.extend(row.node.to_be_bytes());
                    let value = |n: usize| row.values.get(n).copied().unwrap_or(f32::NAN);
                    out.extend((0..width).flat_map(|n| value(n).to_be_bytes()));
                }
            }
            Message::Map(places) => {
                out.push(4);
                for Place { x, y, parent } in places {
                    out.extend(x.to_be_bytes());
                    out.extend(y.to_be_bytes());
                    out.extend(parent.to_be_bytes());
                }
            }
            Message::Refused { number, problem } => {
                out.extend([3, *number]);
                out.extend(problem.as_bytes());
            }
        }
        out
    }

    /// Parses a message; `None` if it is malformed.
    pub fn parse(bytes: &[u8]) -> Option<Message> {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        Some(match *bytes.first()? {
            1 => Message::Query {
                number: *bytes.get(1)?,
                ships_everything: match bytes.get(2)? {
                    0 => false,
                    1 => true,
                    _ => return None,
                },
                text: text(&bytes[3..])?,
            },
            2 => {
                let width = usize::from(*bytes.get(2)?);
                let start = u64::from_be_bytes(bytes.get(3..11)?.try_into().ok()?);
                let (rest, len) = (&bytes[11..], 6 + 4 * width);
                if rest.is_empty() || !rest.len().is_multiple_of(len) || rest.len() / len > MAX_ROWS {
                    return None;
                }
                let row = |bytes: &[u8]| {
                    Some(Row { epoch: u32(bytes, 0)?, node: u16(bytes, 4)?, values: values(&bytes[6..])? })
                };
                let rows = rest.chunks(len).map(row).collect::<Option<_>>()?;
                Message::Rows { number: bytes[1], start, rows }
            }
            4 => {
                let rest = &bytes[1..];
                if !rest.len().is_multiple_of(10) || rest.len() / 10 > MAX_PLACES {
                    return None;
                }
                let float = |bytes: &[u8], at: usize| u32(bytes, at).map(f32::from_bits);
                let place = |bytes: &[u8]| {
                    Some(Place { x: float(bytes, 0)?, y: float(bytes, 4)?, parent: u16(bytes, 8)? })
                };
                Message::Map(rest.chunks(10).map(place).collect::<Option<_>>()?)
            }
            3 => Message::Refused { number: *bytes.get(1)?, problem: text(&bytes[2..])? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_written() {
        let row = Row { epoch: 7, node: 3, values: vec![1.5, -60.0] };
        let messages = [
            Message::Query { number: 1, ships_everything: true, text: "SELECT".to_owned() },
            Message::Rows { number: 1, start: 9, rows: vec![row.clone(), Row { node: 4, ..row }] },
            Message::Refused { number: 1, problem: "column 8: wrong".to_owned() },
            Message::Map(vec![Place { x: 0.0, y: 1.5, parent: 3 }]),
        ];
        for message in messages {
            assert_eq!(Message::parse(&message.to_bytes()), Some(message));
        }
        assert_eq!(Message::parse(&[2, 1, 0, 0, 0]), None);
        assert_eq!(Message::parse(&[1, 1, 2]), None);
    }

    #[test]
    fn a_measure_of_two_sensors_has_the_published_length_of_25_bytes() {
        let row = Row { epoch: 7, node: 3, values: vec![1.5, -60.0] };
        assert_eq!(Message::Rows { number: 1, start: 9, rows: vec![row] }.to_bytes().len(), 25);
        let values = vec![1.0; 4];
        assert_eq!(MoteMessage::Row { query: 1, epoch: 7, node: 3, values }.to_bytes().len(), 24);
    }

    #[test]
    fn mote_messages_are_read_as_written() {
        let messages = [
            MoteMessage::Beacon { cost: 64, level: 1, deepest: 3, parent: 0 },
            MoteMessage::Query { query: 1, part: 0, parts: 1, depth: 3, start: 5, text: b"SELECT".to_vec() },
            MoteMessage::Row { query: 1, epoch: 2, node: 3, values: vec![4.0] },
            MoteMessage::Partial { query: 1, epoch: 2, node: 3, groups: vec![0; 10] },
        ];
        for message in messages {
            assert_eq!(MoteMessage::parse(&message.to_bytes()), Some(message));
        }
        assert_eq!(MoteMessage::parse(&[0; 8]), None);
        assert_eq!(MoteMessage::parse(&[2, 1, 0, 0, 0, 0, 0, 0, 5]), None);
    }
}
