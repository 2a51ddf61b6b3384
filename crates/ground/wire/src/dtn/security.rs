//! Security blocks of bundles (RFC 9172, section 3.6).

use super::cbor::{self, Reader};
use super::eid::Eid;
use crate::Error;

/// Identifier of the security context BIB-HMAC-SHA2.
pub const BIB_HMAC_SHA2: i128 = 1;
/// Identifier of the security context BCB-AES-GCM.
pub const BCB_AES_GCM: i128 = 2;

const HAS_PARAMETERS: u64 = 1;
/// Maximum number of items of a list.
const MAX_ITEMS: u64 = 64;

/// Value of a parameter or result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Unsigned integer.
    Uint(u64),
    /// Byte string.
    Bytes(Vec<u8>),
}

/// Identifier of a parameter or result, and its value.
pub type Item = (u64, Value);

/// Abstract security block (RFC 9172, section 3.6): a sequence of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityBlock {
    /// Numbers of the target blocks.
    pub targets: Vec<u64>,
    /// Security context identifier.
    pub context: i128,
    /// Node that added it.
    pub source: Eid,
    /// Parameters; `None` if the flag for them is not set.
    pub parameters: Option<Vec<Item>>,
    /// Results of each target.
    pub results: Vec<Vec<Item>>,
}

impl SecurityBlock {
    /// Parses the data of a security block.
    ///
    /// # Errors
    /// Returns an error if it is malformed or has values of other types than contexts 1 and 2 use.
    pub fn parse(data: &[u8]) -> Result<SecurityBlock, Error> {
        let mut reader = Reader::new(data);
        let targets = list(&mut reader, Reader::uint)?;
        let context = reader.int()?;
        let start = reader;
        let flags = reader.uint()?;
        if flags & !HAS_PARAMETERS != 0 {
            return Err(start.malformed("unassigned flags of a security context"));
        }
        let source = Eid::read(&mut reader)?;
        let parameters = match flags {
            HAS_PARAMETERS => Some(list(&mut reader, read_item)?),
            _ => None,
        };
        let start = reader;
        let results = list(&mut reader, |reader| list(reader, read_item))?;
        reader.end()?;
        match targets.is_empty() || results.len() != targets.len() {
            true => Err(start.malformed("another number of results than targets")),
            false => Ok(SecurityBlock { targets, context, source, parameters, results }),
        }
    }

    /// Returns the encoded data.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        cbor::put_array(&mut out, self.targets.len());
        self.targets.iter().for_each(|target| cbor::put_uint(&mut out, *target));
        cbor::put_int(&mut out, self.context);
        cbor::put_uint(&mut out, if self.parameters.is_some() { HAS_PARAMETERS } else { 0 });
        self.source.put(&mut out);
        if let Some(parameters) = &self.parameters {
            put_items(&mut out, parameters);
        }
        cbor::put_array(&mut out, self.results.len());
        self.results.iter().for_each(|results| put_items(&mut out, results));
        out
    }

    /// Returns a parameter that is an integer, or its default.
    ///
    /// # Errors
    /// Returns an error if it is a byte string.
    pub fn parameter(&self, id: u64, default: u64) -> Result<u64, Error> {
        let found = self.parameters.iter().flatten().find(|(of, _)| *of == id);
        match found {
            None => Ok(default),
            Some((_, Value::Uint(value))) => Ok(*value),
            Some(_) => Err(Reader::new(&[]).malformed("a parameter that is not an integer")),
        }
    }
}

fn list<'a, T>(
    reader: &mut Reader<'a>,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let start = *reader;
    let count = reader.array()?;
    match count {
        0..=MAX_ITEMS => (0..count).map(|_| read(reader)).collect(),
        _ => Err(start.malformed("more than 64 items of a security block")),
    }
}

fn read_item(reader: &mut Reader<'_>) -> Result<Item, Error> {
    reader.array_of(2, "a parameter or result that is not a pair")?;
    let id = reader.uint()?;
    match reader.is_at_bytes() {
        true => Ok((id, Value::Bytes(reader.bytes()?.to_vec()))),
        false => Ok((id, Value::Uint(reader.uint()?))),
    }
}

fn put_items(out: &mut Vec<u8>, items: &[Item]) {
    cbor::put_array(out, items.len());
    for (id, value) in items {
        cbor::put_array(out, 2);
        cbor::put_uint(out, *id);
        match value {
            Value::Uint(value) => cbor::put_uint(out, *value),
            Value::Bytes(bytes) => cbor::put_bytes(out, bytes),
        }
    }
}
