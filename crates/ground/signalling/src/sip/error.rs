//! Defects of messages.

use super::Headers;

/// Maximum length of a message in bytes: that of a UDP datagram.
pub const MAX_MESSAGE: usize = 65_535;
/// Maximum number of header lines, continuations included.
pub const MAX_LINES: usize = 512;

/// Defect of a SIP message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The message exceeds [`MAX_MESSAGE`] bytes.
    #[error("longer than {} bytes", MAX_MESSAGE)]
    TooLong,
    /// The header exceeds [`MAX_LINES`] lines.
    #[error("more than {} header lines", MAX_LINES)]
    TooManyLines,
    /// The header is not UTF-8.
    #[error("header is not UTF-8")]
    NotUtf8,
    /// The header does not end in an empty line.
    #[error("header without an end")]
    NoEnd,
    /// The start line does not follow the grammar.
    #[error("malformed start line")]
    StartLine,
    /// The version is not SIP/2.0.
    #[error("version is not SIP/2.0")]
    Version,
    /// A line is not a header field.
    #[error("malformed header line {0}")]
    Line(usize),
    /// The value of a header field does not follow its grammar.
    #[error("malformed header field {0}")]
    Value(&'static str),
    /// A mandatory header field is missing.
    #[error("missing header field {0}")]
    Missing(&'static str),
    /// A header field occurs more often than once.
    #[error("repeated header field {0}")]
    Repeated(&'static str),
    /// The body is shorter than Content-Length.
    #[error("body is shorter than Content-Length")]
    ShortBody,
    /// The method of CSeq is not that of the request line.
    #[error("CSeq has another method than the request line")]
    Method,
}

impl Problem {
    /// Returns the status that answers a request with this defect (RFC 3261 21.4, 21.5).
    pub fn status(&self) -> u16 {
        match self {
            Problem::Version => 505,
            Problem::TooLong | Problem::TooManyLines => 513,
            _ => 400,
        }
    }
}

/// Message that was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// First defect found.
    pub problem: Problem,
    /// Header fields read in spite of it: enough of them let a server answer.
    pub headers: Headers,
    /// Set if the start line begins like that of a response.
    pub is_response: bool,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.problem.fmt(f)
    }
}

impl std::error::Error for Malformed {}
