//! Scanner of header field values (RFC 3261 25.1).

/// Returns `true` if a token may contain the byte.
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte)
}

/// Returns `true` if the text is a token.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

/// Returns a quoted string with the text.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for char in text.chars().filter(|char| !matches!(char, '\r' | '\n')) {
        if matches!(char, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(char);
    }
    quoted.push('"');
    quoted
}

/// Returns the text with escapes `%XX` replaced, as bytes.
pub(super) fn unescape(text: &str) -> Vec<u8> {
    let (mut rest, mut bytes) = (text.as_bytes(), Vec::with_capacity(text.len()));
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| hex_pair(tail)).flatten();
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    bytes
}

/// Returns the value of two leading hexadecimal digits.
fn hex_pair(bytes: &[u8]) -> Option<u8> {
    let pair = bytes.get(..2).filter(|pair| pair.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()
}

/// Returns `true` if every byte is allowed or part of an escape `%XX`.
pub(super) fn is_escaped(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'%' if hex_pair(&bytes[at + 1..]).is_some() => 3,
            b'%' => return false,
            byte if allowed(byte) => 1,
            _ => return false,
        };
    }
    true
}

/// Position in the value of a header field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of the text.
    pub(crate) fn new(text: &'a str) -> Cursor<'a> {
        Cursor(text)
    }

    /// Returns the text after the cursor.
    pub(crate) fn rest(&self) -> &'a str {
        self.0
    }

    /// Skips white space.
    pub(crate) fn skip_space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    /// Returns `true` if only white space is left.
    pub(crate) fn is_at_end(mut self) -> bool {
        self.skip_space();
        self.0.is_empty()
    }

    /// Returns the next character, without moving.
    pub(crate) fn peek(&self) -> Option<char> {
        self.0.chars().next()
    }

    /// Skips the character, with white space on both sides. `None` if another follows.
    pub(crate) fn eat(&mut self, wanted: char) -> Option<()> {
        let mut ahead = *self;
        ahead.skip_space();
        ahead.0 = ahead.0.strip_prefix(wanted)?;
        ahead.skip_space();
        *self = ahead;
        Some(())
    }

    /// Skips the character itself. `None` if another follows.
    pub(crate) fn eat_tight(&mut self, wanted: char) -> Option<()> {
        self.0 = self.0.strip_prefix(wanted)?;
        Some(())
    }

    /// Returns the longest text of accepted bytes, which is not empty.
    pub(crate) fn take_while(&mut self, accept: impl Fn(u8) -> bool) -> Option<&'a str> {
        let len = self.0.bytes().position(|byte| !accept(byte)).unwrap_or(self.0.len());
        // Accepted bytes are ASCII, so the end is a boundary of characters.
        let (taken, rest) = self.0.split_at_checked(len).filter(|(taken, _)| !taken.is_empty())?;
        self.0 = rest;
        Some(taken)
    }

    /// Returns a token.
    pub(crate) fn token(&mut self) -> Option<&'a str> {
        self.take_while(is_token_byte)
    }

    /// Returns a number without a sign.
    pub(crate) fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.take_while(|byte| byte.is_ascii_digit())?.parse().ok()
    }

    /// Returns the raw text of a quoted string, quotes included.
    pub(crate) fn quoted(&mut self) -> Option<&'a str> {
        let mut chars = self.0.char_indices();
        chars.next().filter(|(_, char)| *char == '"')?;
        while let Some((at, char)) = chars.next() {
            match char {
                '\\' => drop(chars.next()?),
                '"' => {
                    let (taken, rest) = self.0.split_at(at + 1);
                    self.0 = rest;
                    return Some(taken);
                }
                _ => {}
            }
        }
        None
    }

    /// Returns the text before the character, and skips both.
    pub(crate) fn until(&mut self, end: char) -> Option<&'a str> {
        let (taken, rest) = self.0.split_once(end)?;
        self.0 = rest;
        Some(taken)
    }

    /// Returns a host name, an IPv4 address, or an IPv6 address in brackets.
    pub(crate) fn host(&mut self) -> Option<&'a str> {
        let start = self.0;
        if self.0.starts_with('[') {
            let inside = self.until(']')?;
            inside[1..].parse::<std::net::Ipv6Addr>().ok()?;
            return Some(&start[..inside.len() + 1]);
        }
        self.take_while(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    }

    /// Returns a port after a colon. `Some(None)` without a colon.
    pub(crate) fn port(&mut self) -> Option<Option<u16>> {
        match self.eat(':') {
            Some(()) => self.number().map(Some),
            None => Some(None),
        }
    }
}

/// Returns text without quotes and their backslashes.
pub(crate) fn unquote(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return text.to_owned();
    };
    let (mut plain, mut chars) = (String::with_capacity(inner.len()), inner.chars());
    while let Some(char) = chars.next() {
        plain.extend(if char == '\\' { chars.next() } else { Some(char) });
    }
    plain
}

/// Splits a list at commas outside of quotes and angle brackets. `None` if quotes or brackets are not closed.
pub(crate) fn split_list(text: &str) -> Option<Vec<&str>> {
    let (mut items, mut start, mut in_quotes, mut in_angles, mut escaped) = (vec![], 0, false, false, false);
    for (at, char) in text.char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' if in_quotes => escaped = true,
            '"' if !in_angles => in_quotes = !in_quotes,
            '<' if !in_quotes => in_angles = true,
            '>' if !in_quotes => in_angles = false,
            ',' if !in_quotes && !in_angles => {
                items.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(text[start..].trim());
    (!in_quotes && !in_angles).then_some(items)
}
