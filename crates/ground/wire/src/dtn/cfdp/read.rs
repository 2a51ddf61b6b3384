//! Contents of PDUs, read.

use super::{Condition, Content, FileStatus, Metadata, Status, field};
use crate::{Error, Layer};

/// Position in a PDU.
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) is_large: bool,
}

/// Type of the option with the entity at which a fault occurred.
const ENTITY: u8 = 6;

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let end = self.at.saturating_add(len);
        let taken = self.bytes.get(self.at..end);
        let taken = taken.ok_or(Error::truncated(Layer::Cfdp, self.at, end, self.bytes.len()))?;
        self.at = end;
        Ok(taken)
    }

    fn octet(&mut self) -> Result<u8, Error> {
        self.take(1).map(|octets| octets[0])
    }

    /// Reads a file size or offset.
    fn size(&mut self) -> Result<u64, Error> {
        let bytes = self.take(if self.is_large { 8 } else { 4 })?;
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    fn malformed(&self, what: &'static str) -> Error {
        Error::malformed(Layer::Cfdp, self.at, what)
    }

    /// Returns the condition in the high bits of a byte.
    fn condition(&self, byte: u8) -> Result<Condition, Error> {
        let found = Condition::ALL.into_iter().find(|condition| *condition as u8 == byte >> 4);
        found.ok_or_else(|| self.malformed("a reserved condition"))
    }

    fn status(byte: u8) -> Status {
        match field::mask(byte, 2) {
            0 => Status::Undefined,
            1 => Status::Active,
            2 => Status::Terminated,
            _ => Status::Unrecognized,
        }
    }

    /// Reads options: type, length and value each.
    fn options(&mut self) -> Result<&'a [u8], Error> {
        let start = self.at;
        while self.at < self.bytes.len() {
            self.octet()?;
            let len = self.octet()?;
            self.take(len.into())?;
        }
        Ok(&self.bytes[start..])
    }

    /// Reads the entity of a fault, which only an error has.
    fn fault(&mut self, condition: Condition) -> Result<(), Error> {
        let start = self.at;
        let options = self.options()?;
        let is_fault = options.is_empty() || (condition != Condition::NoError && options[0] == ENTITY);
        match is_fault {
            true => Ok(()),
            false => Err(Error::malformed(Layer::Cfdp, start, "bytes after the directive")),
        }
    }

    /// Reads a part of the file.
    pub(super) fn data(&mut self, has_metadata: bool) -> Result<Content<'a>, Error> {
        if has_metadata {
            let len = field::mask(self.octet()?, 6);
            self.take(len.into())?;
        }
        let offset = self.size()?;
        let data = self.rest();
        match offset.checked_add(data.len() as u64) {
            Some(_) => Ok(Content::Data(offset, data)),
            None => Err(self.malformed("data beyond the longest file")),
        }
    }

    /// Reads a directive.
    pub(super) fn directive(&mut self) -> Result<Content<'a>, Error> {
        let content = match self.octet()? {
            field::END_OF_FILE => self.end_of_file()?,
            field::FINISHED => self.finished()?,
            field::ACK => self.ack()?,
            field::METADATA => self.metadata()?,
            field::NAK => self.nak()?,
            field::PROMPT => Content::Prompt(self.octet()? & 0x80 != 0),
            field::KEEP_ALIVE => Content::KeepAlive(self.size()?),
            _ => return Err(self.malformed("an undefined directive")),
        };
        match self.at == self.bytes.len() {
            true => Ok(content),
            false => Err(self.malformed("bytes after the directive")),
        }
    }

    fn end_of_file(&mut self) -> Result<Content<'a>, Error> {
        let byte = self.octet()?;
        let condition = self.condition(byte)?;
        let checksum = self.take(4)?;
        let checksum = u32::from_be_bytes([checksum[0], checksum[1], checksum[2], checksum[3]]);
        let size = self.size()?;
        self.fault(condition)?;
        Ok(Content::EndOfFile { condition, checksum, size })
    }

    fn finished(&mut self) -> Result<Content<'a>, Error> {
        let byte = self.octet()?;
        let condition = self.condition(byte)?;
        // Responses of the filestore and the entity of a fault follow.
        self.options()?;
        let status = match field::mask(byte, 2) {
            0 => FileStatus::Discarded,
            1 => FileStatus::Rejected,
            2 => FileStatus::Retained,
            _ => FileStatus::Unreported,
        };
        Ok(Content::Finished { condition, is_complete: byte & 4 == 0, status })
    }

    fn ack(&mut self) -> Result<Content<'a>, Error> {
        let (code, byte) = (self.octet()?, self.octet()?);
        let (condition, status) = (self.condition(byte)?, Cursor::status(byte));
        match code >> 4 {
            field::END_OF_FILE => Ok(Content::AckEndOfFile(condition, status)),
            field::FINISHED => Ok(Content::AckFinished(condition, status)),
            _ => Err(self.malformed("an acknowledgement of a directive without one")),
        }
    }

    fn metadata(&mut self) -> Result<Content<'a>, Error> {
        let byte = self.octet()?;
        let size = self.size()?;
        let mut name = || {
            let len = self.octet()?;
            self.take(len.into())
        };
        let (source, destination) = (name()?, name()?);
        Ok(Content::Metadata(Metadata {
            wants_closure: byte & 0x40 != 0,
            checksum: field::mask(byte, 4),
            size,
            source,
            destination,
            options: self.options()?,
        }))
    }

    fn nak(&mut self) -> Result<Content<'a>, Error> {
        let (start, end) = (self.size()?, self.size()?);
        let mut requests = Vec::new();
        while self.at < self.bytes.len() {
            let (from, to) = (self.size()?, self.size()?);
            if from > to {
                return Err(self.malformed("a request that ends before it starts"));
            }
            requests.push((from, to));
        }
        Ok(Content::Nak { start, end, requests })
    }
}
