//! Grammar of header fields that every element reads.

use super::headers::name;
use super::scan::{Cursor, split_list};
use super::{CSeq, Headers, Message, NameAddr, Problem, StartLine, Uri, Via};

/// Header fields of which a message has one (RFC 3261 20).
const SINGLE: &[&str] = &[
    name::FROM,
    name::TO,
    name::CALL_ID,
    name::CSEQ,
    name::MAX_FORWARDS,
    name::EXPIRES,
    name::CONTENT_TYPE,
    name::DATE,
];

/// Header fields that hold a number, with the largest value.
const NUMBERS: &[(&str, u64)] =
    &[(name::MAX_FORWARDS, 255), (name::EXPIRES, u32::MAX as u64), (name::MIN_EXPIRES, u32::MAX as u64)];

/// Lists of addresses.
const ADDRESSES: &[&str] = &[name::CONTACT, name::ROUTE, name::RECORD_ROUTE];

impl Message {
    /// Checks the header fields that routing and transactions depend on (RFC 3261 8.1.1, 20).
    ///
    /// # Errors
    /// Returns the first defect found.
    pub fn check(&self) -> Result<(), Problem> {
        check_presence(&self.headers)?;
        check_vias(&self.headers)?;
        check_cseq(self)?;
        for field in [name::FROM, name::TO] {
            let address = self.headers.address(field).ok_or(Problem::Value(field))?;
            check_address(&address, field)?;
        }
        ADDRESSES.iter().try_for_each(|field| check_addresses(&self.headers, field))?;
        NUMBERS.iter().try_for_each(|&(field, most)| check_number(&self.headers, field, most))?;
        check_lists(&self.headers)?;
        check_retry_after(&self.headers)?;
        check_date(&self.headers)?;
        check_request_uri(&self.start)
    }
}

fn check_presence(headers: &Headers) -> Result<(), Problem> {
    let mandatory = [name::VIA, name::FROM, name::TO, name::CALL_ID, name::CSEQ];
    for field in mandatory {
        headers.get(field).ok_or(Problem::Missing(field))?;
    }
    match SINGLE.iter().find(|field| headers.all(field).nth(1).is_some()) {
        Some(field) => Err(Problem::Repeated(field)),
        None if !is_call_id(headers.get(name::CALL_ID).unwrap_or_default()) => {
            Err(Problem::Value(name::CALL_ID))
        }
        None => Ok(()),
    }
}

fn is_call_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn check_vias(headers: &Headers) -> Result<(), Problem> {
    let vias = headers.all(name::VIA).map(|value| split_list(value)?.into_iter().map(Via::parse).collect());
    let vias: Option<Vec<Vec<Via>>> = vias.collect();
    let is_valid =
        |via: &Via| !via.params.has_duplicates() && via.branch().is_none_or(|branch| !branch.is_empty());
    match vias {
        Some(vias) if vias.iter().flatten().all(is_valid) => Ok(()),
        _ => Err(Problem::Value(name::VIA)),
    }
}

fn check_cseq(message: &Message) -> Result<(), Problem> {
    let cseq = message.headers.get(name::CSEQ).and_then(CSeq::parse).ok_or(Problem::Value(name::CSEQ))?;
    match &message.start {
        StartLine::Request { method, .. } if *method != cseq.method => Err(Problem::Method),
        _ => Ok(()),
    }
}

fn check_address(address: &NameAddr, field: &'static str) -> Result<(), Problem> {
    let is_valid = !address.params.has_duplicates() && address.tag().is_none_or(|tag| !tag.is_empty());
    if is_valid { Ok(()) } else { Err(Problem::Value(field)) }
}

fn check_addresses(headers: &Headers, field: &'static str) -> Result<(), Problem> {
    if headers.get(field) == Some("*") && field == name::CONTACT {
        return Ok(());
    }
    let addresses = headers.addresses(field).ok_or(Problem::Value(field))?;
    for address in &addresses {
        check_address(address, field)?;
        let expires = address.params.get("expires");
        if expires.is_some_and(|text| Cursor::new(text).number::<u32>().is_none()) {
            return Err(Problem::Value(field));
        }
    }
    Ok(())
}

fn check_number(headers: &Headers, field: &'static str, most: u64) -> Result<(), Problem> {
    let Some(text) = headers.get(field) else { return Ok(()) };
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(number) if is_digits && number <= most => Ok(()),
        _ => Err(Problem::Value(field)),
    }
}

fn check_lists(headers: &Headers) -> Result<(), Problem> {
    let unclosed =
        headers.iter().find(|header| Headers::is_list(&header.name) && split_list(&header.value).is_none());
    unclosed.map_or(Ok(()), |_| Err(Problem::Value("list")))
}

fn check_retry_after(headers: &Headers) -> Result<(), Problem> {
    let Some(text) = headers.get(name::RETRY_AFTER) else { return Ok(()) };
    Cursor::new(text).number::<u32>().map(|_| ()).ok_or(Problem::Value(name::RETRY_AFTER))
}

/// Dates are in GMT (RFC 3261 20.17).
fn check_date(headers: &Headers) -> Result<(), Problem> {
    let Some(date) = headers.get(name::DATE) else { return Ok(()) };
    if date.ends_with(" GMT") { Ok(()) } else { Err(Problem::Value(name::DATE)) }
}

/// A Request-URI has no header fields (RFC 3261 19.1.1).
fn check_request_uri(start: &StartLine) -> Result<(), Problem> {
    match start {
        StartLine::Request { uri: Uri::Sip(uri), .. } if uri.headers.is_some() => Err(Problem::StartLine),
        _ => Ok(()),
    }
}
