//! Information elements (RFC 5456 8.6).

use crate::digest::Algorithm;

use super::field::FrameError;

macro_rules! elements {
    ($($name:ident = $value:literal;)+) => {
        /// Type of an information element.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct Element(pub u8);

        impl Element {
            $(#[doc = concat!("`", stringify!($name), "`.")] pub const $name: Element = Element($value);)+
        }
    };
}

elements! {
    CALLED_NUMBER = 1; CALLING_NUMBER = 2; CALLING_NAME = 4; CALLED_CONTEXT = 5; USERNAME = 6; CAPABILITY = 8; FORMAT = 9;
    VERSION = 0x0b; AUTH_METHODS = 0x0e; CHALLENGE = 0x0f; MD5_RESULT = 0x10; APPARENT_ADDRESS = 0x12; REFRESH = 0x13;
    CAUSE = 0x16; UNKNOWN = 0x17; CAUSE_CODE = 0x2a; RR_JITTER = 0x2e; RR_LOSS = 0x2f; RR_PACKETS = 0x30; RR_DELAY = 0x31;
    RR_DROPPED = 0x32; RR_OUT_OF_ORDER = 0x33;
}

/// Information elements of a frame, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elements(Vec<(Element, Vec<u8>)>);

impl Elements {
    /// Parses the payload of an IAX or control frame.
    ///
    /// # Errors
    /// Returns an error if an element is cut.
    pub fn parse(mut bytes: &[u8]) -> Result<Elements, FrameError> {
        let mut elements = Elements::default();
        while let Some((&[kind, len], rest)) = bytes.split_first_chunk() {
            let (data, rest) = rest.split_at_checked(len.into()).ok_or(FrameError::Short)?;
            elements.0.push((Element(kind), data.to_vec()));
            bytes = rest;
        }
        if bytes.is_empty() { Ok(elements) } else { Err(FrameError::Short) }
    }

    /// Adds an element. Data beyond 255 bytes is cut.
    pub fn with(mut self, kind: Element, data: &[u8]) -> Elements {
        self.0.push((kind, data[..data.len().min(255)].to_vec()));
        self
    }

    /// Adds an element with a number of two bytes.
    pub fn with_u16(self, kind: Element, number: u16) -> Elements {
        self.with(kind, &number.to_be_bytes())
    }

    /// Adds an element with a number of four bytes.
    pub fn with_u32(self, kind: Element, number: u32) -> Elements {
        self.with(kind, &number.to_be_bytes())
    }

    /// Returns the data of the first element of a type.
    pub fn get(&self, kind: Element) -> Option<&[u8]> {
        self.0.iter().find(|(other, _)| *other == kind).map(|(_, data)| &data[..])
    }

    /// Returns the text of an element.
    pub fn text(&self, kind: Element) -> Option<&str> {
        std::str::from_utf8(self.get(kind)?).ok()
    }

    /// Returns the number in an element of one, two or four bytes.
    pub fn number(&self, kind: Element) -> Option<u32> {
        match *self.get(kind)? {
            [one] => Some(one.into()),
            [high, low] => Some(u16::from_be_bytes([high, low]).into()),
            [a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
            _ => None,
        }
    }

    /// Returns the bytes of the elements.
    pub fn emit(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(kind, data)| [&[kind.0, data.len() as u8][..], data].concat()).collect()
    }
}

/// Returns the answer to an MD5 challenge (RFC 5456 8.6.15).
pub fn md5_result(challenge: &str, password: &str) -> String {
    Algorithm::Md5.hash(format!("{challenge}{password}").as_bytes())
}
