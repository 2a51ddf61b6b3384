//! Parser of session descriptions.

use super::{Address, Attribute, MAX_LINES, MAX_MEDIA, Media, Origin, Session};

/// Error returned when a session description is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("session description, line {line}: {problem}")]
pub struct SdpError {
    /// Line, from 1.
    pub line: usize,
    /// Condition.
    pub problem: &'static str,
}

/// Order of lines of a session and of a media description (RFC 8866 9).
const SESSION_ORDER: &str = "vosiuepcbtrzka";
const MEDIA_ORDER: &str = "micbka";

/// Lines that each description has.
const REQUIRED: [char; 4] = ['v', 'o', 's', 't'];

struct Parser {
    session: Session,
    seen: String,
    in_media: bool,
}

impl Session {
    /// Parses a description. Lines may end in LF alone.
    ///
    /// # Errors
    /// Returns an error with the line of the first defect.
    pub fn parse(bytes: &[u8]) -> Result<Session, SdpError> {
        let error = |line, problem| SdpError { line, problem };
        let text = std::str::from_utf8(bytes).map_err(|_| error(1, "not UTF-8"))?;
        let mut parser = Parser::new();
        let mut lines = 0;
        for (at, line) in text.trim_end_matches(['\r', '\n']).split('\n').enumerate() {
            lines = at + 1;
            let line = line.strip_suffix('\r').unwrap_or(line);
            let accepted = if at < MAX_LINES { parser.line(line) } else { Err("too many lines") };
            accepted.map_err(|problem| error(lines, problem))?;
        }
        parser.finish().map_err(|problem| error(lines, problem))
    }
}

impl Parser {
    fn new() -> Parser {
        let address = Address { is_v6: false, text: String::new() };
        let origin = Origin { user: String::new(), session: 0, version: 0, address };
        let (connection, name) = (None, String::new());
        let (bandwidth, times, attributes, media) = (vec![], vec![], vec![], vec![]);
        let session = Session { origin, name, connection, bandwidth, times, attributes, media };
        Parser { session, seen: String::new(), in_media: false }
    }

    fn finish(self) -> Result<Session, &'static str> {
        let Parser { session, seen, in_media } = self;
        let has_all = in_media || REQUIRED.iter().all(|needed| seen.contains(*needed));
        let is_connected =
            |media: &Media| media.port == 0 || session.connection.is_some() || media.connection.is_some();
        match () {
            () if !has_all => Err("description without v, o, s or t"),
            () if !session.media.iter().all(is_connected) => Err("media without a connection"),
            () => Ok(session),
        }
    }

    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let mut chars = line.chars();
        let (Some(kind), Some('=')) = (chars.next(), chars.next()) else {
            return Err("expected a letter and =");
        };
        let value = chars.as_str();
        if value.contains(['\0', '\r']) {
            return Err("control character");
        }
        self.check_order(kind)?;
        if self.in_media { self.media_line(kind, value) } else { self.session_line(kind, value) }
    }

    /// Checks that a line stands where it may, and notes it.
    fn check_order(&mut self, kind: char) -> Result<(), &'static str> {
        if kind == 'm' {
            let has_all = self.in_media || REQUIRED.iter().all(|needed| self.seen.contains(*needed));
            (self.in_media, self.seen) = (true, String::new());
            self.seen.push('m');
            return if has_all { Ok(()) } else { Err("media before v, o, s and t") };
        }
        let order = if self.in_media { MEDIA_ORDER } else { SESSION_ORDER };
        let place = order.find(kind).ok_or("unknown type of line")?;
        let last = self.seen.chars().last().and_then(|last| order.find(last));
        let is_repeatable = "eptrcba".contains(kind) && (kind != 'c' || self.in_media);
        // Repeat times belong to the time before them.
        let is_next_time = kind == 't' && self.seen.ends_with('r');
        match last {
            None if !self.in_media && kind != 'v' => Err("the first line is not v=0"),
            Some(last) if last > place && !is_next_time => Err("line out of order"),
            Some(last) if last == place && !is_repeatable => Err("repeated line"),
            _ => {
                if last != Some(place) {
                    self.seen.push(kind);
                }
                Ok(())
            }
        }
    }

    fn session_line(&mut self, kind: char, value: &str) -> Result<(), &'static str> {
        let session = &mut self.session;
        match kind {
            'v' if value != "0" => return Err("version is not 0"),
            'o' => session.origin = origin(value).ok_or("malformed origin")?,
            's' => session.name = value.to_owned(),
            'c' => session.connection = Some(address(value).ok_or("malformed connection")?),
            'b' => session.bandwidth.push(bandwidth(value)?),
            't' => session.times.push(times(value).ok_or("malformed times")?),
            'a' => session.attributes.push(attribute(value)?),
            _ => {}
        }
        Ok(())
    }

    fn media_line(&mut self, kind: char, value: &str) -> Result<(), &'static str> {
        if kind == 'm' {
            if self.session.media.len() == MAX_MEDIA {
                return Err("too many media");
            }
            self.session.media.push(media(value).ok_or("malformed media")?);
            return Ok(());
        }
        let media = self.session.media.last_mut().ok_or("line before media")?;
        match kind {
            'c' => {
                let address = address(value).ok_or("malformed connection")?;
                media.connection.get_or_insert(address);
            }
            'b' => media.bandwidth.push(bandwidth(value)?),
            'a' => media.attributes.push(attribute(value)?),
            _ => {}
        }
        Ok(())
    }
}

fn words<const N: usize>(text: &str) -> Option<[&str; N]> {
    let words: Vec<&str> = text.split(' ').collect();
    words.try_into().ok().filter(|words: &[&str; N]| words.iter().all(|word| !word.is_empty()))
}

fn origin(value: &str) -> Option<Origin> {
    let (rest, address) = value.match_indices(' ').nth(2).map(|(at, _)| value.split_at(at))?;
    let [user, session, version] = words(rest)?;
    let address = self::address(address.strip_prefix(' ')?)?;
    Some(Origin {
        user: user.to_owned(),
        session: session.parse().ok()?,
        version: version.parse().ok()?,
        address,
    })
}

fn address(value: &str) -> Option<Address> {
    let ["IN", kind, text] = words(value)? else { return None };
    let is_v6 = match kind {
        "IP4" => false,
        "IP6" => true,
        _ => return None,
    };
    let is_host = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:/".contains(&byte));
    is_host.then(|| Address { is_v6, text: text.to_owned() })
}

fn bandwidth(value: &str) -> Result<String, &'static str> {
    let (kind, rate) = value.split_once(':').ok_or("malformed bandwidth")?;
    let is_valid =
        crate::sip::is_token(kind) && !rate.is_empty() && rate.bytes().all(|byte| byte.is_ascii_digit());
    if is_valid { Ok(value.to_owned()) } else { Err("malformed bandwidth") }
}

fn times(value: &str) -> Option<(u64, u64)> {
    let [start, stop] = words(value)?;
    Some((start.parse().ok()?, stop.parse().ok()?))
}

fn attribute(value: &str) -> Result<Attribute, &'static str> {
    let (name, value) = match value.split_once(':') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (value, None),
    };
    if crate::sip::is_token(name) { Ok(Attribute::new(name, value)) } else { Err("malformed attribute") }
}

fn media(value: &str) -> Option<Media> {
    let mut words = value.split(' ');
    let (kind, port, protocol) = (words.next()?, words.next()?, words.next()?);
    let (port, ports) = match port.split_once('/') {
        Some((port, ports)) => (port, Some(ports.parse().ok()?)),
        None => (port, None),
    };
    let formats: Vec<String> = words.map(str::to_owned).collect();
    let is_text = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_valid =
        is_text(kind) && is_text(protocol) && !formats.is_empty() && formats.iter().all(|text| is_text(text));
    is_valid.then_some(Media {
        kind: kind.to_owned(),
        port: port.parse().ok()?,
        ports,
        protocol: protocol.to_owned(),
        formats,
        connection: None,
        bandwidth: vec![],
        attributes: vec![],
    })
}
