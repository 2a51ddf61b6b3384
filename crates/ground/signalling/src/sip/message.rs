//! Requests and responses.

use std::fmt;
use std::io::Write;

use super::headers::name;
use super::scan::{Cursor, is_token};
use super::{Headers, MAX_LINES, MAX_MESSAGE, Malformed, Method, Problem, Uri};

/// Start line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartLine {
    /// Request line.
    Request {
        /// Method.
        method: Method,
        /// Request-URI.
        uri: Uri,
    },
    /// Status line.
    Response {
        /// Status, 100 to 699.
        status: u16,
        /// Reason phrase, possibly empty.
        reason: String,
    },
}

/// SIP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Start line.
    pub start: StartLine,
    /// Header fields. Content-Length is written from the body.
    pub headers: Headers,
    /// Body.
    pub body: Vec<u8>,
}

/// Sequence number and method (RFC 3261 20.16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CSeq {
    /// Sequence number, below 2^31.
    pub number: u32,
    /// Method.
    pub method: Method,
}

impl CSeq {
    /// Parses the value of CSeq. `None` if it does not follow the grammar.
    pub fn parse(text: &str) -> Option<CSeq> {
        let mut cursor = Cursor::new(text);
        let number = cursor.number().filter(|number| *number < 1 << 31)?;
        cursor.skip_space();
        let method = Method::parse(cursor.token()?)?;
        cursor.is_at_end().then_some(CSeq { number, method })
    }
}

impl fmt::Display for CSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, self.method)
    }
}

impl Message {
    /// Creates a request without header fields.
    pub fn request(method: Method, uri: Uri) -> Message {
        Message { start: StartLine::Request { method, uri }, headers: Headers::default(), body: vec![] }
    }

    /// Creates the response to a request with these header fields (RFC 3261 8.2.6). The tag of To is the caller's.
    pub fn response(request: &Headers, status: u16) -> Message {
        let start = StartLine::Response { status, reason: reason(status).to_owned() };
        let mut headers = Headers::default();
        let copied = [name::VIA, name::FROM, name::TO, name::CALL_ID, name::CSEQ];
        for header in request.iter().filter(|header| copied.contains(&&header.name[..])) {
            headers.push(&header.name, &header.value);
        }
        Message { start, headers, body: vec![] }
    }

    /// Parses one message at the start of a datagram (RFC 3261 18.3). Bytes after the body are ignored.
    ///
    /// # Errors
    /// Returns an error if the start line, a header line or the length of the body is malformed.
    pub fn parse(bytes: &[u8]) -> Result<Message, Box<Malformed>> {
        Message::parse_first(bytes).map(|(message, _)| message)
    }

    /// Parses one message and returns the number of its bytes.
    pub(super) fn parse_first(bytes: &[u8]) -> Result<(Message, usize), Box<Malformed>> {
        let skipped = bytes.iter().take_while(|byte| b"\r\n".contains(byte)).count();
        let bytes = &bytes[skipped..];
        let is_response = bytes.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"SIP/"));
        let malformed = |problem, headers| Box::new(Malformed { problem, headers, is_response });
        let early = |problem| malformed(problem, Headers::default());
        if bytes.len() > MAX_MESSAGE {
            return Err(early(Problem::TooLong));
        }
        let end = header_end(bytes).ok_or_else(|| early(Problem::NoEnd))?;
        let text = std::str::from_utf8(&bytes[..end]).map_err(|_| early(Problem::NotUtf8))?;
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let headers = parse_headers(rest).map_err(|(problem, headers)| malformed(problem, headers))?;
        let start = parse_start(first.strip_suffix('\r').unwrap_or(first), is_response);
        let after = &bytes[end..];
        let (start, len) = match (start, body_len(&headers, after.len())) {
            (Ok(start), Ok(len)) => (start, len),
            (Err(problem), _) | (_, Err(problem)) => return Err(malformed(problem, headers)),
        };
        let message = Message { start, headers, body: after[..len].to_vec() };
        Ok((message, skipped + end + len))
    }

    /// Returns the bytes of the message.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512 + self.body.len());
        let _ = match &self.start {
            StartLine::Request { method, uri } => write!(bytes, "{method} {uri} SIP/2.0\r\n"),
            StartLine::Response { status, reason } => write!(bytes, "SIP/2.0 {status} {reason}\r\n"),
        };
        for header in self.headers.iter().filter(|header| header.name != name::CONTENT_LENGTH) {
            let _ = write!(bytes, "{}: {}\r\n", header.name, header.value);
        }
        let _ = write!(bytes, "Content-Length: {}\r\n\r\n", self.body.len());
        bytes.extend(&self.body);
        bytes
    }

    /// Returns the method of the request line, or that of CSeq in a response.
    pub fn method(&self) -> Option<Method> {
        match &self.start {
            StartLine::Request { method, .. } => Some(method.clone()),
            StartLine::Response { .. } => self.cseq().map(|cseq| cseq.method),
        }
    }

    /// Returns the Request-URI of a request.
    pub fn uri(&self) -> Option<&Uri> {
        match &self.start {
            StartLine::Request { uri, .. } => Some(uri),
            StartLine::Response { .. } => None,
        }
    }

    /// Returns the status of a response.
    pub fn status(&self) -> Option<u16> {
        match self.start {
            StartLine::Request { .. } => None,
            StartLine::Response { status, .. } => Some(status),
        }
    }

    /// Returns CSeq, if it is well-formed.
    pub fn cseq(&self) -> Option<CSeq> {
        CSeq::parse(self.headers.get(name::CSEQ)?)
    }

    /// Returns Call-ID.
    pub fn call_id(&self) -> Option<&str> {
        self.headers.get(name::CALL_ID)
    }

    /// Returns the tag of From or To.
    pub fn tag(&self, of: &str) -> Option<String> {
        self.headers.address(of)?.tag().map(str::to_owned)
    }

    /// Sets the body and its type.
    pub fn set_body(&mut self, content_type: &str, body: Vec<u8>) {
        self.headers.set(name::CONTENT_TYPE, content_type);
        self.body = body;
    }
}

/// Returns the length of the header with its empty line.
fn header_end(bytes: &[u8]) -> Option<usize> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let mut at = 0;
    lines.find_map(|line| {
        at += line.len();
        matches!(line, b"\r\n" | b"\n").then_some(at)
    })
}

fn parse_start(line: &str, is_response: bool) -> Result<StartLine, Problem> {
    if line.contains('\r') {
        return Err(Problem::StartLine);
    }
    if is_response { parse_status_line(line) } else { parse_request_line(line) }
}

fn parse_request_line(line: &str) -> Result<StartLine, Problem> {
    let mut words = line.split(' ');
    let (Some(method), Some(uri), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Problem::StartLine);
    };
    check_version(version)?;
    let method = Method::parse(method).ok_or(Problem::StartLine)?;
    let uri = Uri::parse(uri).ok_or(Problem::StartLine)?;
    Ok(StartLine::Request { method, uri })
}

fn parse_status_line(line: &str) -> Result<StartLine, Problem> {
    let (version, rest) = line.split_once(' ').ok_or(Problem::StartLine)?;
    check_version(version)?;
    let (status, reason) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_status = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
    let status = status.parse().ok().filter(|status| is_status && (100..700).contains(status));
    Ok(StartLine::Response { status: status.ok_or(Problem::StartLine)?, reason: reason.to_owned() })
}

fn check_version(version: &str) -> Result<(), Problem> {
    let number = version.get(..4).filter(|name| name.eq_ignore_ascii_case("SIP/")).map(|_| &version[4..]);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match number.and_then(|number| number.split_once('.')) {
        Some(("2", "0")) => Ok(()),
        Some((major, minor)) if is_digits(major) && is_digits(minor) => Err(Problem::Version),
        _ => Err(Problem::StartLine),
    }
}

fn parse_headers(text: &str) -> Result<Headers, (Problem, Headers)> {
    let mut headers = Headers::default();
    let mut pending: Option<(&str, String)> = None;
    for (at, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if at == MAX_LINES {
            return Err((Problem::TooManyLines, headers));
        }
        match (&mut pending, line.starts_with([' ', '\t'])) {
            (Some((_, value)), true) if !line.contains('\r') => {
                value.push(' ');
                value.push_str(line.trim());
            }
            (_, true) => return Err((Problem::Line(at + 1), headers)),
            (_, false) => {
                finish(&mut headers, pending.take());
                if !line.is_empty() {
                    pending =
                        Some(split_header(line).ok_or_else(|| (Problem::Line(at + 1), headers.clone()))?);
                }
            }
        }
    }
    finish(&mut headers, pending);
    Ok(headers)
}

fn finish(headers: &mut Headers, field: Option<(&str, String)>) {
    if let Some((name, value)) = field {
        headers.push(name, value.trim());
    }
}

fn split_header(line: &str) -> Option<(&str, String)> {
    let (name, value) = line.split_once(':')?;
    let name = name.trim_end_matches([' ', '\t']);
    let is_valid = is_token(name) && !value.contains('\r');
    is_valid.then(|| (name, value.trim().to_owned()))
}

/// Returns the length of the body: Content-Length, else all bytes there are.
fn body_len(headers: &Headers, available: usize) -> Result<usize, Problem> {
    let mut lengths = headers.all(name::CONTENT_LENGTH);
    let Some(first) = lengths.next() else { return Ok(available) };
    if lengths.any(|other| other != first) {
        return Err(Problem::Repeated(name::CONTENT_LENGTH));
    }
    let is_number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let length =
        first.parse::<usize>().ok().filter(|_| is_number).ok_or(Problem::Value(name::CONTENT_LENGTH))?;
    if length > available { Err(Problem::ShortBody) } else { Ok(length) }
}

/// Returns the reason phrase of a status (RFC 3261 21).
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        180 => "Ringing",
        181 => "Call Is Being Forwarded",
        182 => "Queued",
        183 => "Session Progress",
        200 => "OK",
        302 => "Moved Temporarily",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        415 => "Unsupported Media Type",
        416 => "Unsupported URI Scheme",
        420 => "Bad Extension",
        423 => "Interval Too Brief",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        482 => "Loop Detected",
        483 => "Too Many Hops",
        486 => "Busy Here",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        491 => "Request Pending",
        500 => "Server Internal Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "Version Not Supported",
        513 => "Message Too Large",
        600 => "Busy Everywhere",
        603 => "Decline",
        status if status < 200 => "Session Progress",
        status if status < 300 => "OK",
        _ => "Failure",
    }
}
