//! Segments of the Licklider Transmission Protocol (RFC 5326, section 3).
//!
//! Header and trailer extensions are carried as bytes: those of LTP authentication (RFC 5327) are not checked.

use super::sdnv;
use crate::{Error, Kind, Layer};

/// Client service of bundles.
pub const BUNDLE_PROTOCOL: u64 = 1;
/// Maximum number of claims of a report, more than fit a datagram.
const MAX_CLAIMS: u64 = 32_768;

/// Number of a session: the engine that sends the block, and its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId {
    /// Engine that sends the block.
    pub engine: u64,
    /// Number of the session there.
    pub number: u64,
}

/// Colour and marks of a data segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Set if it is green: sent once and not acknowledged.
    pub is_green: bool,
    /// Checkpoint: its serial number and that of the report that it answers, or 0.
    pub checkpoint: Option<(u64, u64)>,
    /// Set if the red part ends here.
    pub ends_red: bool,
    /// Set if the block ends here.
    pub ends_block: bool,
    /// Client service.
    pub client: u64,
    /// Offset in the block.
    pub offset: u64,
}

/// Report on the reception of red data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// Serial number.
    pub serial: u64,
    /// Serial number of the checkpoint that it answers; 0 if none.
    pub checkpoint: u64,
    /// End of its scope in the block.
    pub upper: u64,
    /// Start of its scope in the block.
    pub lower: u64,
    /// Received ranges as offset from the lower bound, and length.
    pub claims: Vec<(u64, u64)>,
}

/// Reason of a cancellation (RFC 5326, section 3.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The client cancelled.
    Client = 0,
    /// The client service cannot be reached.
    Unreachable = 1,
    /// Retransmission limit exceeded.
    Retransmissions = 2,
    /// Data of the other colour.
    Miscoloured = 3,
    /// System error.
    System = 4,
    /// Limit of retransmission cycles exceeded.
    Cycles = 5,
}

impl Reason {
    const ALL: [Reason; 6] = [
        Reason::Client,
        Reason::Unreachable,
        Reason::Retransmissions,
        Reason::Miscoloured,
        Reason::System,
        Reason::Cycles,
    ];
}

/// Content of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// Data of a block.
    Data(Data, &'a [u8]),
    /// Report.
    Report(Report),
    /// Acknowledgement of the report with this serial number.
    ReportAck(u64),
    /// Cancellation by the sender of the block.
    CancelBySender(Reason),
    /// Acknowledgement of it.
    SenderCancelAck,
    /// Cancellation by the receiver of the block.
    CancelByReceiver(Reason),
    /// Acknowledgement of it.
    ReceiverCancelAck,
}

/// Segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Session.
    pub session: SessionId,
    /// Number of header extensions and their bytes.
    pub header_extensions: (u8, &'a [u8]),
    /// Number of trailer extensions and their bytes.
    pub trailer_extensions: (u8, &'a [u8]),
    /// Content.
    pub content: Content<'a>,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn number(&mut self) -> Result<u64, Error> {
        let (value, len) = sdnv::read(&self.bytes[self.at..]).map_err(|error| self.moved(error))?;
        self.at += len;
        Ok(value)
    }

    /// Returns the error of an SDNV with its offset in the segment.
    fn moved(&self, error: Error) -> Error {
        let kind = match error.kind {
            Kind::Truncated { needed, have } => {
                Kind::Truncated { needed: needed + self.at, have: have + self.at }
            }
            kind => kind,
        };
        Error { offset: error.offset + self.at, kind, ..error }
    }

    fn octet(&mut self) -> Result<u8, Error> {
        self.take(1).map(|octets| octets[0])
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Error> {
        let end = self.at.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
        let taken = self.bytes.get(self.at..end);
        let taken = taken.ok_or(Error::truncated(Layer::Ltp, self.at, end, self.bytes.len()))?;
        self.at = end;
        Ok(taken)
    }

    fn malformed(&self, what: &'static str) -> Error {
        Error::malformed(Layer::Ltp, self.at, what)
    }

    /// Reads over `count` extensions and returns their bytes.
    fn extensions(&mut self, count: u8) -> Result<(u8, &'a [u8]), Error> {
        let start = self.at;
        for _ in 0..count {
            self.octet()?;
            let len = self.number()?;
            self.take(len)?;
        }
        Ok((count, &self.bytes[start..self.at]))
    }

    fn data(&mut self, code: u8) -> Result<Content<'a>, Error> {
        let (client, offset, len) = (self.number()?, self.number()?, self.number()?);
        let checkpoint = match code {
            1..=3 => Some((self.number()?, self.number()?)),
            _ => None,
        };
        if offset.checked_add(len).is_none() {
            return Err(self.malformed("data beyond the longest block"));
        }
        let data = Data {
            is_green: code & 4 != 0,
            checkpoint,
            ends_red: matches!(code, 2 | 3),
            ends_block: matches!(code, 3 | 7),
            client,
            offset,
        };
        Ok(Content::Data(data, self.take(len)?))
    }

    fn report(&mut self) -> Result<Content<'a>, Error> {
        let (serial, checkpoint, upper, lower) =
            (self.number()?, self.number()?, self.number()?, self.number()?);
        let count = self.number()?;
        if count > MAX_CLAIMS || serial == 0 || upper <= lower {
            return Err(self.malformed("a report without serial number or scope, or with too many claims"));
        }
        let mut claims = Vec::new();
        let mut end = 0;
        for _ in 0..count {
            let (offset, len) = (self.number()?, self.number()?);
            let above = offset.checked_add(len).filter(|to| len > 0 && offset >= end && *to <= upper - lower);
            end = above.ok_or_else(|| self.malformed("claims that overlap or leave the scope"))?;
            claims.push((offset, len));
        }
        Ok(Content::Report(Report { serial, checkpoint, upper, lower, claims }))
    }

    fn reason(&mut self) -> Result<Reason, Error> {
        let code = self.octet()?;
        Reason::ALL.get(usize::from(code)).copied().ok_or_else(|| self.malformed("a reserved reason"))
    }

    fn content(&mut self, code: u8) -> Result<Content<'a>, Error> {
        match code {
            0..=4 | 7 => self.data(code),
            8 => self.report(),
            9 => Ok(Content::ReportAck(self.number()?)),
            12 => Ok(Content::CancelBySender(self.reason()?)),
            13 => Ok(Content::SenderCancelAck),
            14 => Ok(Content::CancelByReceiver(self.reason()?)),
            15 => Ok(Content::ReceiverCancelAck),
            _ => Err(Error::malformed(Layer::Ltp, 0, "an undefined type of segment")),
        }
    }
}

impl<'a> Segment<'a> {
    /// Creates a segment without extensions.
    pub fn new(session: SessionId, content: Content<'a>) -> Segment<'a> {
        Segment { session, header_extensions: (0, &[]), trailer_extensions: (0, &[]), content }
    }

    /// Parses a segment that fills `bytes`.
    ///
    /// # Errors
    /// Returns an error if it is cut, malformed or of another version than 0.
    pub fn parse(bytes: &'a [u8]) -> Result<Segment<'a>, Error> {
        let mut cursor = Cursor { bytes, at: 0 };
        let first = cursor.octet()?;
        if first >> 4 != 0 {
            return Err(Error::unsupported(Layer::Ltp, 0, "a version other than 0"));
        }
        let session = SessionId { engine: cursor.number()?, number: cursor.number()? };
        let counts = cursor.octet()?;
        let header_extensions = cursor.extensions(counts >> 4)?;
        let content = cursor.content(first & 0xf)?;
        let trailer_extensions = cursor.extensions(counts & 0xf)?;
        match cursor.at == bytes.len() {
            true => Ok(Segment { session, header_extensions, trailer_extensions, content }),
            false => Err(cursor.malformed("bytes after the segment")),
        }
    }

    /// Appends the segment.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.content.code());
        sdnv::put(out, self.session.engine);
        sdnv::put(out, self.session.number);
        out.push(self.header_extensions.0 << 4 | self.trailer_extensions.0);
        out.extend(self.header_extensions.1);
        self.content.put(out);
        out.extend(self.trailer_extensions.1);
    }

    /// Returns the encoded segment.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.emit(&mut out);
        out
    }
}

impl Content<'_> {
    /// Returns the type code (RFC 5326, section 3.1.1).
    pub fn code(&self) -> u8 {
        match self {
            Content::Data(Data { is_green: true, ends_block, .. }, _) => 4 + 3 * u8::from(*ends_block),
            Content::Data(Data { checkpoint: None, .. }, _) => 0,
            Content::Data(Data { ends_red, ends_block, .. }, _) => {
                1 + u8::from(*ends_red || *ends_block) + u8::from(*ends_block)
            }
            Content::Report(_) => 8,
            Content::ReportAck(_) => 9,
            Content::CancelBySender(_) => 12,
            Content::SenderCancelAck => 13,
            Content::CancelByReceiver(_) => 14,
            Content::ReceiverCancelAck => 15,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Content::Data(data, bytes) => put_data(data, bytes, out),
            Content::Report(report) => put_report(report, out),
            Content::ReportAck(serial) => sdnv::put(out, *serial),
            Content::CancelBySender(reason) | Content::CancelByReceiver(reason) => out.push(*reason as u8),
            Content::SenderCancelAck | Content::ReceiverCancelAck => {}
        }
    }
}

fn put_data(data: &Data, bytes: &[u8], out: &mut Vec<u8>) {
    let checkpoint = data.checkpoint.filter(|_| !data.is_green);
    let checkpoint = checkpoint.map(|(serial, report)| [serial, report]);
    let fields = [data.client, data.offset, bytes.len() as u64];
    fields.into_iter().chain(checkpoint.into_iter().flatten()).for_each(|field| sdnv::put(out, field));
    out.extend(bytes);
}

fn put_report(report: &Report, out: &mut Vec<u8>) {
    let Report { serial, checkpoint, upper, lower, claims } = report;
    let fields = [*serial, *checkpoint, *upper, *lower, claims.len() as u64];
    let claims = claims.iter().flat_map(|(offset, len)| [*offset, *len]);
    fields.into_iter().chain(claims).for_each(|field| sdnv::put(out, field));
}

#[cfg(test)]
mod tests;
