//! Messages in a byte stream (RFC 3261 18.3).

use super::headers::name;
use super::{MAX_MESSAGE, Malformed, Message, Problem};

/// Splitter of a byte stream into messages, which holds one message at most.
#[derive(Debug, Default)]
pub struct Framer {
    buffer: Vec<u8>,
    read: usize,
    searched: usize,
    broken: bool,
}

impl Framer {
    /// Adds bytes of the stream. Call [`Framer::next_message`] until it returns `None` before more are added.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        if !self.broken {
            self.buffer.extend(bytes);
        }
    }

    /// Returns `true` after a defect behind which the next message cannot be found.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Returns the next whole message.
    pub fn next_message(&mut self) -> Option<Result<Message, Box<Malformed>>> {
        if self.broken {
            return None;
        }
        let rest = &self.buffer[self.read..];
        self.read += rest.iter().take_while(|byte| b"\r\n".contains(byte)).count();
        let end = self.find_end();
        let rest = &self.buffer[self.read..];
        match end {
            None if rest.len() > MAX_MESSAGE => Some(self.give_up(Problem::TooLong)),
            None => None,
            Some(end) => match content_length(&rest[..end]) {
                Some(len) if end.saturating_add(len) > MAX_MESSAGE => Some(self.give_up(Problem::TooLong)),
                Some(len) if end + len > rest.len() => None,
                Some(len) => Some(self.cut(end + len)),
                None => Some(self.give_up(Problem::Missing(name::CONTENT_LENGTH))),
            },
        }
    }

    fn cut(&mut self, len: usize) -> Result<Message, Box<Malformed>> {
        let message = Message::parse(&self.buffer[self.read..self.read + len]);
        self.read += len;
        message
    }

    fn give_up(&mut self, problem: Problem) -> Result<Message, Box<Malformed>> {
        let rest = &self.buffer[self.read..];
        let is_response = rest.starts_with(b"SIP/");
        let headers = match Message::parse(&rest[..rest.len().min(MAX_MESSAGE)]) {
            Ok(message) => message.headers,
            Err(malformed) => malformed.headers,
        };
        (self.broken, self.read, self.buffer) = (true, 0, vec![]);
        Err(Box::new(Malformed { problem, headers, is_response }))
    }

    /// Returns the length of the header of the next message. Bytes searched before are not searched again.
    fn find_end(&mut self) -> Option<usize> {
        let rest = &self.buffer[self.read..];
        let from = self.searched.saturating_sub(3).min(rest.len());
        let found = rest[from..].windows(2).position(|pair| pair == b"\n\n").map(|at| from + at + 2);
        let strict = rest[from..].windows(3).position(|three| three == b"\n\r\n").map(|at| from + at + 3);
        let end = found.into_iter().chain(strict).min();
        self.searched = if end.is_some() { 0 } else { rest.len() };
        end
    }
}

/// Returns Content-Length of a header without parsing the rest.
fn content_length(header: &[u8]) -> Option<usize> {
    let mut lines = header.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let name = name.trim_end();
        let is_it = name.eq_ignore_ascii_case(name::CONTENT_LENGTH) || name.eq_ignore_ascii_case("l");
        is_it.then(|| value.trim().parse().ok())?
    })
}
