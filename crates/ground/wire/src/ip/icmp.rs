//! ICMP for IPv4 (RFC 792, RFC 1191) and ICMPv6 (RFC 4443): echo and errors.
//!
//! Neighbour solicitations and advertisements are read and written by [`nd`]. For the rest these, multicast listener reports
//! and RFC 4884's multi-part messages are carried as `Other` with their bytes. Both versions share the message layout: type, code, checksum, four bytes, the rest.

use crate::bytes::{array, be16, put16};
use crate::ip::checksum::{Accumulator, Pseudo};
use crate::{Error, Layer};

pub mod nd;
pub mod v4;
pub mod v6;

/// Length in bytes of the header.
pub const HEADER_LEN: usize = 8;

const CHECKSUM: usize = 2;

/// A view of a message of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<T: AsRef<[u8]>> {
    buffer: T,
    elided: usize,
}

impl<T: AsRef<[u8]>> Message<T> {
    /// Returns a view of a message that is all of `buffer`.
    ///
    /// # Errors
    /// Returns an error if the header is truncated. The checksum is not looked at.
    pub fn new_checked(buffer: T) -> Result<Message<T>, Error> {
        Message::new_elided(buffer, 0)
    }

    /// Creates a view of a message that fills `buffer`, followed by `elided` zero bytes.
    ///
    /// # Errors
    /// Returns the errors of [`Message::new_checked`].
    pub fn new_elided(buffer: T, elided: usize) -> Result<Message<T>, Error> {
        match buffer.as_ref().len() {
            have if have < HEADER_LEN => Err(Error::truncated(Layer::Icmp, 0, HEADER_LEN, have)),
            _ => Ok(Message { buffer, elided }),
        }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// Returns the type.
    pub fn kind(&self) -> u8 {
        self.bytes()[0]
    }

    /// Returns the code.
    pub fn code(&self) -> u8 {
        self.bytes()[1]
    }

    /// Returns the checksum as it stands there.
    pub fn checksum(&self) -> u16 {
        be16(self.bytes(), CHECKSUM)
    }

    /// Returns the four bytes whose meaning is the type's.
    pub fn rest_of_header(&self) -> [u8; 4] {
        array(self.bytes(), 4)
    }

    /// Returns the bytes after the header: echoed data, or the start of the offending packet.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[HEADER_LEN..]
    }

    /// Returns the number of bytes after the header, elided ones included.
    pub fn payload_len(&self) -> usize {
        self.bytes().len() + self.elided - HEADER_LEN
    }

    /// Checks the checksum, in ICMPv6 also over the pseudo-header in `pseudo`.
    ///
    /// # Errors
    /// `Checksum` if it does not match.
    pub fn verify_checksum(&self, pseudo: Option<&Pseudo>) -> Result<(), Error> {
        if self.sum(pseudo).is_valid() { Ok(()) } else { Err(Error::checksum(Layer::Icmp, CHECKSUM)) }
    }

    fn sum(&self, pseudo: Option<&Pseudo>) -> Accumulator {
        match pseudo {
            Some(pseudo) => pseudo.datagram(self.bytes(), self.elided),
            None => Accumulator::ZERO.add_bytes(self.bytes()),
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Message<T> {
    /// Writes the checksum, over the pseudo-header too if one is given, as ICMPv6 wants.
    pub fn fill_checksum(&mut self, pseudo: Option<&Pseudo>) {
        put16(self.buffer.as_mut(), CHECKSUM, 0);
        let sum = self.sum(pseudo).checksum();
        put16(self.buffer.as_mut(), CHECKSUM, sum);
    }
}

/// Writes a header, its checksum zero.
fn emit(buffer: &mut [u8], kind: u8, code: u8, rest: [u8; 4]) {
    buffer[0] = kind;
    buffer[1] = code;
    put16(buffer, CHECKSUM, 0);
    buffer[4..HEADER_LEN].copy_from_slice(&rest);
}

/// Packs two 16-bit fields into the rest of the header.
fn halves(first: u16, second: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (first.to_be_bytes(), second.to_be_bytes());
    [a, b, c, d]
}

#[cfg(test)]
mod tests;
