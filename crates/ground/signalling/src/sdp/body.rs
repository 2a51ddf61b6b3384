//! Descriptions in the bodies of messages (RFC 3261 7.4, RFC 2046 5.1, RFC 5621).

use super::CONTENT_TYPE;
use crate::sip::{Message, name};

/// Maximum depth of multipart bodies in each other.
const MAX_DEPTH: usize = 3;
/// Maximum number of parts that are looked at.
const MAX_PARTS: usize = 32;

/// Body of a message, as an agent sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// No bytes.
    Empty,
    /// Session description, alone or as a part among others.
    Description(&'a [u8]),
    /// Body without a description, or with a part that must be understood.
    Other,
}

/// Returns the body of a message. A message without a type has a description.
pub(crate) fn body_of(message: &Message) -> Body<'_> {
    if message.body.is_empty() {
        return Body::Empty;
    }
    let kind = message.headers.get(name::CONTENT_TYPE).unwrap_or(CONTENT_TYPE);
    match description(kind, &message.body, MAX_DEPTH) {
        Ok(Some(bytes)) => Body::Description(bytes),
        Ok(None) | Err(NotUnderstood) => Body::Other,
    }
}

/// Returns `true` if a media type of Accept has descriptions in it.
pub(crate) fn is_accepted(kind: &str) -> bool {
    let kind = media_type(kind);
    ["*/*", "application/*", CONTENT_TYPE].iter().any(|one| one.eq_ignore_ascii_case(kind))
}

/// Part that must be understood, and is not.
struct NotUnderstood;

/// Returns the description of a body or part.
fn description<'a>(kind: &str, body: &'a [u8], depth: usize) -> Result<Option<&'a [u8]>, NotUnderstood> {
    let media_type = media_type(kind);
    if media_type.eq_ignore_ascii_case(CONTENT_TYPE) {
        return Ok(Some(body));
    }
    let is_multipart = media_type.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("multipart/"));
    let Some(boundary) = parameter(kind, "boundary").filter(|_| is_multipart && depth > 0) else {
        return Ok(None);
    };
    let mut found = None;
    for part in parts(body, &boundary) {
        let inner = match part.is_plain {
            true => description(part.kind.unwrap_or("text/plain"), part.bytes, depth - 1)?,
            false => None,
        };
        if inner.is_none() && part.is_required {
            return Err(NotUnderstood);
        }
        found = found.or(inner);
    }
    Ok(found)
}

fn media_type(kind: &str) -> &str {
    kind.split(';').next().unwrap_or_default().trim()
}

/// Returns a parameter of a header field, without its quotes.
fn parameter(value: &str, name: &str) -> Option<String> {
    let found = value.split(';').skip(1).find_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"').to_owned())
    });
    found.filter(|value| !value.is_empty())
}

/// Part of a multipart body.
struct Part<'a> {
    kind: Option<&'a str>,
    /// Set if it says that it must be understood.
    is_required: bool,
    /// Set if its bytes are as they are, and not encoded.
    is_plain: bool,
    bytes: &'a [u8],
}

/// Returns the parts between the lines of a boundary. What is before the first and after the last is left out.
fn parts<'a>(body: &'a [u8], boundary: &str) -> Vec<Part<'a>> {
    let dashes = format!("--{boundary}");
    let (mut found, mut start, mut at) = (Vec::new(), None, 0);
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let end = at;
        at += line.len();
        let Some(rest) = line.strip_prefix(dashes.as_bytes()) else { continue };
        let rest = rest.trim_ascii();
        if !matches!(rest, b"" | b"--") || found.len() == MAX_PARTS {
            continue;
        }
        if let Some(start) = start.take() {
            found.extend(part(&body[start..end]));
        }
        if rest == b"--" {
            return found;
        }
        start = Some(at);
    }
    found
}

/// Returns a part by its own header. The line end before the boundary is of the boundary.
fn part(bytes: &[u8]) -> Option<Part<'_>> {
    let mut at = 0;
    let end = bytes.split_inclusive(|byte| *byte == b'\n').find_map(|line| {
        at += line.len();
        line.trim_ascii().is_empty().then_some(at)
    })?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let field = |name: &str| {
        head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.trim().eq_ignore_ascii_case(name).then_some(value.trim())
        })
    };
    let handling = field("Content-Disposition").and_then(|value| parameter(value, "handling"));
    let encoding = field("Content-Transfer-Encoding").unwrap_or("binary");
    let body = &bytes[end..];
    let body = body.strip_suffix(b"\r\n").or(body.strip_suffix(b"\n")).unwrap_or(body);
    Some(Part {
        kind: field("Content-Type").or_else(|| field("c")),
        is_required: handling.is_some_and(|handling| handling.eq_ignore_ascii_case("required")),
        is_plain: ["binary", "8bit", "7bit"].iter().any(|plain| plain.eq_ignore_ascii_case(encoding)),
        bytes: body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sip::Method;

    fn of(kind: &str, body: &str) -> Message {
        let uri = "sip:bob@192.0.2.1".parse().expect("a URI");
        let mut message = Message::request(Method::INVITE, uri);
        message.set_body(kind, body.as_bytes().to_vec());
        message
    }

    #[test]
    fn a_description_is_found_among_other_parts() {
        let isup = "--b1\r\nContent-Type: application/isup\r\nContent-Disposition: signal; handling=HANDLING\r\n\r\n\u{1}\r\n";
        let sdp = "--b1\r\nContent-Type: application/sdp\r\n\r\nv=0\r\no=x\r\n\r\n--b1--\r\nend";
        let mixed = |handling: &str| format!("preamble\r\n{}{sdp}", isup.replace("HANDLING", handling));
        let found = |kind: &str, body: &str| match body_of(&of(kind, body)) {
            Body::Description(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        };
        let expected = Some("v=0\r\no=x\r\n".to_owned());
        assert_eq!(found("multipart/mixed; boundary=b1", &mixed("optional")), expected);
        assert_eq!(found("Multipart/Mixed;boundary=\"b1\"", &mixed("optional").replace("\r\n", "\n")), {
            Some("v=0\no=x\n".to_owned())
        });
        assert_eq!(found("multipart/mixed;boundary=b1", &mixed("required")), None);
        assert_eq!(found("multipart/mixed", &mixed("optional")), None);
        // A boundary may begin another.
        let inner = mixed("optional");
        let outer = format!("--b\r\nContent-Type: multipart/mixed;boundary=b1\r\n\r\n{inner}\r\n--b--");
        assert_eq!(found("multipart/related;boundary=b", &outer), expected);
        let coded = sdp.replace("\r\n\r\nv", "\r\nContent-Transfer-Encoding: base64\r\n\r\nv");
        assert_eq!(found("multipart/mixed;boundary=b1", &coded), None);
    }

    #[test]
    fn a_body_alone_is_a_description_or_not() {
        assert_eq!(body_of(&of("application/sdp;x=1", "v=0")), Body::Description(b"v=0"));
        assert_eq!(body_of(&of("text/plain", "v=0")), Body::Other);
        assert_eq!(body_of(&of("application/sdp", "")), Body::Empty);
        assert!(is_accepted("application/SDP;level=1") && is_accepted("*/*") && !is_accepted("text/plain"));
    }
}
